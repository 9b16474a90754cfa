#include "daemon/config/config_table.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/config/section_fields.h"
#include "daemon/config/store_rules.h"
#include "daemon/config/worker_program.h"
#include "optimizer/aggregation_rule.h"
#include "optimizer/outer_rule.h"

namespace atolld {
namespace {

constexpr uint64_t kLargest = std::numeric_limits<int64_t>::max();
constexpr uint64_t kMillion = 1000000;

constexpr Recorded kYes = Recorded::kYes;
constexpr Recorded kNo = Recorded::kNo;
constexpr Recorded kInPart = Recorded::kInPart;

using Fields = std::vector<ConfigField>;

Fields RunFields(Config& c) {
  return {
      {"id", Text{&c.run.id, TextForm::kId, true}, As("run_id"),
       "the run's name; empty: made from the file's name and the time",
       "Set it to give the run a name of your own."},
      {"rounds", WholeNumber{&c.run.rounds, 1, uint64_t{1} << 32}, As("rounds"),
       "versions to commit before the run is sealed: one a round",
       "Raise it to train longer. The learning-rate schedule stretches with it, unless "
       "`[inner] decay_steps` says otherwise."},
      {"seed", WholeNumber{&c.run.seed, 0, kLargest}, As("seed"),
       "seed of the initial parameters and of the order of the data",
       "Change it to repeat an experiment with another random start."},
      {"branch", Text{&c.run.branch, TextForm::kPath, true}, kInPart,
       "file of `atoll run branch`; empty: the run begins anew",
       "`atoll run branch` sets it. The run's record holds its lineage: which state of which run "
       "it began with."},
      {"peers", WholeNumber{&c.run.peers, 1, 1024}, kNo,
       "trainers to wait for before the first round",
       "Set it to the number of trainers that you have at the start; `atoll local` starts as "
       "many. More may join at any time. The round waits for those that are missing until nobody "
       "has come for a while: max([membership] failure_timeout, 4 s) + 3 s."},
      {"quorum", WholeNumber{&c.run.quorum, 0, 1024}, kNo,
       "fewest peers that may commit a round; 0: more than half of `peers`, and 1 with `[mode]` "
       "kind 'async'",
       "Lower it where many peers are away at a time. Raise it where a round with few of them "
       "is not worth its exchange."},
  };
}

Fields ModelShapeFields(Config& c) {
  return {
      {"kind",
       OneOf(&c.model.kind, {"gpt", "gpt2", "llama", kHuggingFaceKind, kTorchScriptKind,
                             kExternalKind, kStubKind}),
       kYes, "what kind of model is trained",
       "Take 'gpt2' or 'llama' for a model that Hugging Face knows too, 'huggingface' for any "
       "other of theirs, 'torchscript' or 'external' for one of your own, and 'stub' to measure "
       "the system without training. See models.md, huggingface.md and workers.md."},
      {"layers", WholeNumber{&c.model.layers, 1, 1024}, kYes, "transformer blocks",
       "Raise it, together with width, for a larger model."},
      {"heads", WholeNumber{&c.model.heads, 1, 1024}, kYes, "attention heads; must divide `width`",
       "Change it with width: 32 to 128 values a head are usual."},
      {"width", WholeNumber{&c.model.width, 1, 65536}, kYes, "embedding dimension",
       "Raise it, together with layers, for a larger model."},
      {"context", WholeNumber{&c.model.context, 2, uint64_t{1} << 20}, kYes, "tokens a sequence",
       "Raise it if the model is to see more text at once. Memory and time of a step grow "
       "with it."},
      {"dropout", RealNumber{&c.model.dropout, 0, 0.9}, kYes,
       "share of activations dropped in training",
       "Raise it if the peers read a small corpus many times and the validation loss rises."},
      {"parameters", WholeNumber{&c.model.parameters, 0, uint64_t{1} << 34}, kYes,
       "parameters of a model of kind 'stub'; 0 with any other kind",
       "Set it, with kind 'stub' alone, to the size of the model whose exchange you want to "
       "measure."},
      {"vocabulary", WholeNumber{&c.model.vocabulary, 0, uint64_t{1} << 24}, kYes,
       "number of token ids; 0: as many as the data has",
       "Set it where the coordinator does not have the data and the tokens are not bytes, or "
       "to pad the table. `atoll data inspect` prints it."},
      {"hidden", WholeNumber{&c.model.hidden, 0, uint64_t{1} << 20}, kYes,
       "width of the feed-forward part of gpt2 and llama; 0: the usual",
       "Set it to match a published model. The usual is 4 widths, and with llama 8/3 of one, "
       "rounded up to a multiple of 256."},
      {"kv_heads", WholeNumber{&c.model.kv_heads, 0, 1024}, kYes,
       "heads of keys and values in llama; must divide `heads`; 0: as many as `heads`",
       "Set it to match a published model with grouped queries."},
      {"tied", Flag{&c.model.tied}, kYes,
       "whether the token embedding is the output head too; false with gpt2 and llama alone",
       "Set it to false to match a published model whose head is a tensor of its own."},
  };
}

Fields ModelStartFields(Config& c) {
  return {
      {"rope_theta", RealNumber{&c.model.rope_theta, 0, 1e12}, kYes,
       "base of llama's rotary positions; 0: 10000", "Set it to match a published model."},
      {"norm_epsilon", RealNumber{&c.model.norm_epsilon, 0, 1}, kYes,
       "epsilon of the norms of gpt2 and llama; 0: 1e-5", "Set it to match a published model."},
      {"initial", Text{&c.model.initial, TextForm::kPath, true}, kInPart,
       "a file of `atoll import` that the run begins with; empty: random values",
       "Set it to go on from a trained model, in the config of the coordinator and of each "
       "peer that may make version 0. The run records that there is such a file; the digest "
       "of the state is in the first record."},
      {"lora_rank", WholeNumber{&c.model.lora_rank, 0, 65536}, kYes,
       "rank of LoRA adapters, which are trained in place of the model; 0: no adapters",
       "Set it, 8 for example, to fine-tune a large model: the peers then train and exchange "
       "the adapters alone."},
      {"lora_slice", WholeNumber{&c.model.lora_slice, 0, 32768}, kYes,
       "ranks of a slice of the adapters, each of which a peer trains or leaves to others; 0: the "
       "adapters are whole",
       "Set it, to 4 with lora_rank = 16 for example, where some machines are too small for all "
       "ranks; [worker] lora_rank says how many a machine trains. See models.md."},
      {"lora_alpha", RealNumber{&c.model.lora_alpha, 0, 1e6}, kYes,
       "scale of the adapters, whose output is multiplied by lora_alpha / lora_rank; 0: twice "
       "lora_rank",
       "Change it to repeat a published recipe."},
      {"lora_targets", Text{&c.model.lora_targets, TextForm::kNames, true}, kYes,
       "modules that get adapters, like \"q_proj,v_proj\"; empty: the usual",
       "Name more modules if the adapters cannot learn enough. The usual are c_attn, and with "
       "llama q_proj and v_proj."},
      {"base", Text{&c.model.base, TextForm::kPath, true}, kNo,
       "the frozen model beneath the adapters: a file of `atoll import`",
       "Set it with lora_rank, on each peer's machine."},
      {"base_digest", Text{&c.model.base_digest, TextForm::kSha256, true}, kYes,
       "the SHA-256 of `base` in hex, as `atoll import` prints it",
       "Set it with lora_rank: peers whose base is another file are refused."},
      {"base_bits", WholeNumber{&c.model.base_bits, 0, 4}, kYes,
       "4: the base beneath a Hugging Face model's adapters is in 4 bits a value (QLoRA); 0: as it "
       "is",
       "Set it to 4 where the base does not fit into the memory of a GPU. Needs bitsandbytes."},
      {"local", Text{&c.model.local, TextForm::kPlain, true}, kYes,
       "patterns, with commas between, of tensors that stay with each peer, like \"lm_head.*\"; "
       "empty: "
       "none does",
       "Set it where parties are to have a layer of their own. It is trained and never exchanged."},
      {"file", Text{&c.model.file, TextForm::kPath, true}, kInPart,
       "the TorchScript file of kind 'torchscript', whose forward gives the loss",
       "Set it with kind 'torchscript' alone. The run records its SHA-256. A peer that names none "
       "gets a file of at most 64 MiB from the others."},
      {"path", Text{&c.model.path, TextForm::kPath, true}, kInPart,
       "the folder of a model of kind 'huggingface', or of PEFT's adapters",
       "Set it with kind 'huggingface' alone, on every machine that trains. The run records the "
       "SHA-256 of its config.json."},
  };
}

Fields InnerStepFields(Config& c) {
  return {
      {"optimizer", OneOf(&c.inner.optimizer, {"adamw", "muon", "sgd"}), As("inner.optimizer"),
       "optimiser of the inner steps",
       "Try 'muon', which steps the matrices of the blocks by orthogonal momentum, for a "
       "lower loss after as many steps."},
      {"steps", WholeNumber{&c.inner.steps, 1, kMillion}, As("inner.steps"), "inner steps a round",
       "Raise it where the exchange takes long beside the training. Lower it if the loss "
       "suffers because the peers drift apart."},
      {"pace", OneOf(&c.inner.pace, {"fixed", "time", "auto"}), kNo,
       "how many inner steps a peer does: always `steps`, what fits `time`, or by its speed",
       "Take 'auto' where the machines differ in speed, so that all are ready together, or "
       "'time' to bound a round."},
      {"time", TimeSpan{&c.inner.time, absl::ZeroDuration(), absl::Hours(24)}, kNo,
       "length of a round's inner steps with pace 'time'; 0s with any other pace",
       "Set it with pace 'time' alone."},
      {"batch", WholeNumber{&c.inner.batch, 1, 65536}, As("inner.batch"),
       "sequences in one step of one peer",
       "Raise it as far as memory and speed allow, and the learning rate with it."},
      {"learning_rate", RealNumber{&c.inner.learning_rate, 0, 100, Bounds::kOpenBelow},
       As("inner.learning_rate"), "peak of the inner learning rate",
       "Lower it for larger models, or if the loss jumps or diverges."},
      {"min_learning_rate", RealNumber{&c.inner.min_learning_rate, 0, 100},
       As("inner.min_learning_rate"), "learning rate at the end of the schedule",
       "A tenth of learning_rate is usual; change both together."},
      {"warmup_steps", WholeNumber{&c.inner.warmup_steps, 0, uint64_t{1} << 40},
       As("inner.warmup_steps"),
       "first steps of the run, in which the learning rate rises linearly",
       "Raise it if the loss jumps in the first rounds."},
      {"decay_steps", WholeNumber{&c.inner.decay_steps, 0, uint64_t{1} << 40}, kYes,
       "step of the run at which the schedule ends; 0: rounds x steps",
       "Set it if the rate must reach its end before the run does."},
      {"beta1", RealNumber{&c.inner.beta1, 0, 1, Bounds::kOpenAbove}, As("inner.beta1"),
       "decay of AdamW's first moment", "It is seldom changed."},
      {"beta2", RealNumber{&c.inner.beta2, 0, 1, Bounds::kOpenAbove}, As("inner.beta2"),
       "decay of AdamW's second moment", "Lower it to 0.95 for large batches."},
      Follows(
          "0.1; with optimizer 'muon' 0.1 x `batch` / 512, MuLoCo's scaling of it (training.md)",
          {"weight_decay", RealNumber{&c.inner.weight_decay, 0, 10}, As("inner.weight_decay"),
           "weight decay, on matrices only", "Raise it if the model memorises a small corpus."}),
  };
}

Fields InnerScheduleFields(Config& c) {
  return {
      {"gradient_clip", RealNumber{&c.inner.gradient_clip, 0, 1e6}, As("inner.gradient_clip"),
       "global L2 norm to which a gradient is cut; 0: off",
       "Lower it if single batches throw the training back."},
      {"step_time", TimeSpan{&c.inner.step_time, absl::ZeroDuration(), absl::Hours(1)},
       As("inner.step_microseconds"),
       "time that a step takes with a model of kind 'stub'; 0s with any other kind",
       "Set it, with kind 'stub' alone, to the time of the step that you imitate."},
      {"schedule", OneOf(&c.inner.schedule, {"cosine", "wsd", "constant"}),
       UnlessDefault("inner.schedule"), "how the learning rate goes after the warm-up",
       "Take 'wsd' if you do not know yet how long you will train: up to its cool-down such a "
       "run is the same whatever its length."},
      OnlyWith({"inner.schedule", {"wsd"}},
               {"cooldown_steps", WholeNumber{&c.inner.cooldown_steps, 0, uint64_t{1} << 40}, kYes,
                "last steps of schedule 'wsd', in which the rate falls; 0: a fifth of all steps",
                "Set it with schedule 'wsd' alone."}),
      {"precision", OneOf(&c.inner.precision, {"fp32", "bf16"}), UnlessDefault("inner.precision"),
       "precision of the matrix products; parameters and optimiser are always fp32",
       "Take 'bf16' where the processors or GPUs of all peers are faster with it."},
      {"accumulation", WholeNumber{&c.inner.accumulation, 1, 65536},
       UnlessDefault("inner.accumulation"),
       "parts in which a step computes its batch, one after the other; must divide `batch`",
       "Raise it if a step does not fit into memory."},
      {"checkpointing", Flag{&c.inner.checkpointing}, As("inner.checkpointing"),
       "whether activations are computed twice instead of kept, which saves memory",
       "Switch it on if a step does not fit into memory and accumulation is not enough."},
      {"muon_momentum", RealNumber{&c.inner.muon_momentum, 0, 1, Bounds::kOpenAbove},
       As("inner.muon_momentum", {"inner.optimizer", {"muon"}}), "momentum of optimizer 'muon'",
       "It matters only with optimizer 'muon', and is seldom changed."},
      {"proximal", RealNumber{&c.inner.proximal, 0, 1e6}, As("inner.proximal"),
       "mu of FedProx: how strongly the parameters are held near the round's base; 0: not at all",
       "Raise it, from 0.001 on, where the data of the peers differ and many steps lead apart."},
      {"control_variates", Flag{&c.inner.control_variates}, As("inner.control_variates"),
       "whether each peer corrects its gradient by what its data usually adds (SCAFFOLD)",
       "Switch it on, with optimizer 'sgd', where the data of the peers differ."},
      {"epochs", WholeNumber{&c.inner.epochs, 0, 65536}, As("inner.epochs"),
       "passes over a peer's own data in a round, with private data; 0: `steps` counts",
       "Set it to repeat an experiment that counts local epochs."},
  };
}

Fields OuterFields(Config& c) {
  return {
      Follows("'delayed_nesterov' in mode 'async', 'nesterov' in any other",
              {"rule", OneOf(&c.outer.rule, OuterRuleNames()), As("outer.rule"),
               "how a round's mean update moves the parameters",
               "Take 'average' for plain federated averaging, 'momentum' for FedAvgM, and "
               "'adagrad', 'adam' or 'yogi' where the data of the peers differ; see training.md. "
               "'delayed_nesterov' and 'cgad' are for [mode] kind 'async'; see modes.md."}),
      Follows(
          "with rules 'nesterov' and 'delayed_nesterov' that of a table of published rates, by "
          "peers, inner steps, inner "
          "optimiser, mode and size of the model (training.md): for 30 steps of 'adamw' in mode "
          "'sync' 0.4 for one peer, 0.8 for 8 and 1 for 16, and between 0.7, or 0.6 from 335M "
          "parameters on; in mode 'delayed' half of it, in 'eager' 0.3 times it; 1 with rules "
          "'average' and 'momentum', 0.01 with 'adagrad', 'adam', 'yogi' and 'cgad'",
          {"learning_rate", RealNumber{&c.outer.learning_rate, 0, 100, Bounds::kOpenBelow},
           As("outer.learning_rate_bits"), "learning rate of the outer rule",
           "Lower it if the loss swings from round to round, raise it in short runs of small "
           "models."}),
      Follows(
          "0.9; with 'nesterov' that of the row of learning_rate, which is lower in rounds of few "
          "steps, and with 'muon' and few peers; 0 with rules 'average' and 'adagrad'",
          {"momentum", RealNumber{&c.outer.momentum, 0, 1, Bounds::kOpenAbove},
           As("outer.momentum_bits"), "momentum of the outer rule; beta1 of the adaptive ones",
           "Lower it if the loss swings from round to round."}),
      {"beta2", RealNumber{&c.outer.beta2, 0, 1, Bounds::kOpenAbove},
       As("outer.beta2_bits", {"outer.rule", {"adam", "yogi", "cgad"}}),
       "decay of the second moment of rules 'adam', 'yogi' and 'cgad'", "It is seldom changed."},
      {"adaptivity", RealNumber{&c.outer.adaptivity, 0, 1, Bounds::kOpenBelow},
       As("outer.adaptivity_bits", {"outer.rule", {"adagrad", "adam", "cgad", "yogi"}}),
       "tau of rules 'adagrad', 'adam', 'yogi' and 'cgad', which bounds their steps",
       "Raise it if the loss swings from round to round."},
      Follows("`[run] peers` with rule 'delayed_nesterov', 1 with any other",
              OnlyWith({"outer.rule", {"delayed_nesterov"}},
                       {"buffer", WholeNumber{&c.outer.buffer, 1, 65536}, As("outer.buffer"),
                        "updates in one move of the momentum; only with 'delayed_nesterov'",
                        "Set it to the number of peers that train at a time."})),
  };
}

Fields ExchangeFields(Config& c) {
  return {
      {"codec", Text{&c.exchange.codec, TextForm::kCodec}, kYes,
       "form of updates on the wire, and of means and the log",
       "Take 'int4' or 'topk' on slow lines. `+zstd` behind a name compresses once more, for "
       "processor time. See codecs.md."},
      {"upper_codec", Text{&c.exchange.upper_codec, TextForm::kCodec, true}, kYes,
       "form of means and the log, if it is another one; empty: as `codec`",
       "Set it where the lines between regions are the slow ones."},
      {"slow_codec", Text{&c.exchange.slow_codec, TextForm::kCodec, true}, kYes,
       "form of updates of peers whose lines up carry less than half of the median; empty: `codec`",
       "Set it to 'int4' or 'topk' where a few have slow lines. See codecs.md."},
      Follows("true with codec or slow_codec 'topk' or 'int2', false with any other",
              {"error_feedback", Flag{&c.exchange.error_feedback}, As("exchange.error_feedback"),
               "whether what the codec lost is carried into the next round",
               "Switch it on with 'int4' if the loss suffers."}),
      Follows("0.95 with codec 'topk', 1 with any other",
              {"feedback_decay", RealNumber{&c.exchange.feedback_decay, 0, 1, Bounds::kOpenBelow},
               UnlessDefault("exchange.feedback_decay_bits", {"exchange.error_feedback"}),
               "share of what the codec lost that is carried into the next round",
               "Lower it if training becomes unstable with error feedback."}),
      {"rounding", OneOf(&c.exchange.rounding, {"nearest", "stochastic"}), kYes,
       "how values become codes: the nearest, or one of two at random so that no error adds up",
       "Take 'stochastic' with 'int4' and without error feedback; other codecs than int8 and "
       "int4 have no such rounding."},
      Follows("0.0625; 0 with `[privacy] masked`",
              {"audit_share", RealNumber{&c.exchange.audit_share, 0, 1},
               As("exchange.audit_share_bits"),
               "share of the chunks that other peers recompute before a commit; 0: none",
               "Raise it where reducers may lie. Set it to 0 where all peers are yours: audits "
               "cost bytes."}),
      {"chunk_elements", WholeNumber{&c.exchange.chunk_elements, 4096, 524288, 4096},
       As("exchange.chunk_elements"), "values in a chunk, the unit of the exchange",
       "Lower it for small models, so that each reducer has several chunks, and on lines that "
       "are so slow that a chunk takes seconds."},
      {"aggregation", OneOf(&c.exchange.aggregation, AggregationRule::Names()),
       UnlessDefault("exchange.aggregation"), "how the peers' updates become one",
       "Take a robust rule where some peers may lie; see aggregation.md for what each tolerates "
       "and costs."},
      {"faulty", WholeNumber{&c.exchange.faulty, 0, 31},
       As("exchange.faulty", {"exchange.aggregation"}),
       "number of lying peers that the aggregation must tolerate",
       "Set it with a robust aggregation; a run must have enough peers for it."},
      Follows("1; 0 with `[privacy] clip` or `masked`",
              {"clip", RealNumber{&c.exchange.clip, 0, 1e6}, As("exchange.clip_bits"),
               "length, in median lengths, to which longer updates are scaled down; 0: none is",
               "Raise it, or set it to 0, where honest peers have very different data and you "
               "trust them all."}),
      {"plan", OneOf(&c.exchange.plan, {"auto", "flat", "regions"}), kNo,
       "how the peers average: all at once, each region first, or the faster of the two",
       "Fix it to compare plans; `atoll plan` predicts each."},
  };
}

Fields EvaluationFields(Config& c) {
  return {
      {"tokens", WholeNumber{&c.evaluation.tokens, 0, uint64_t{1} << 40}, As("evaluation.tokens"),
       "validation tokens in one evaluation; 0: all",
       "Raise it for a loss with less noise, lower it if evaluation takes long."},
      {"every_rounds", WholeNumber{&c.evaluation.every_rounds, 0, kMillion},
       As("evaluation.every_rounds"),
       "rounds between evaluations; 0: only the first and the last version",
       "Raise it if evaluation takes long beside a round."},
  };
}

Fields PeerFields(Config& c) {
  return {
      NeededBy({ConfigUse::kPeer},
               {"id", Text{&c.peer.id, TextForm::kId, true}, kNo, "this peer's name in the run",
                "Give each peer its own. The peer's certificate holds it, and `atolld join` and "
                "`atoll local` choose it themselves."}),
      {"role", OneOf(&c.peer.role, {"peer", kAggregatorRoleName}), kNo,
       "what it does: a 'peer' trains; an 'aggregator' has no worker and reduces for others",
       "Take 'aggregator' for a reachable machine without a GPU that serves peers behind NAT "
       "or a region."},
      {"listen", Text{&c.peer.listen, TextForm::kListenAddress}, kNo,
       "where others reach this peer; port 0: the system chooses",
       "Set it to an address of your network, or to '0.0.0.0:7071' and `advertise` to what others "
       "dial, unless all peers are on this machine. The peers of `atoll local` count up from its "
       "port."},
      {"advertise", Text{&c.peer.advertise, TextForm::kAdvertised, true}, kNo,
       "address that others dial; empty: the one listened on; \"none\": nobody can dial it",
       "Set it where others see another address than the one listened on, or to 'none' behind "
       "NAT."},
      NeededBy({ConfigUse::kPeer},
               {"dir", Text{&c.peer.dir, TextForm::kPath, true}, kNo,
                "folder of the replica: log, snapshots, identity",
                "Choose a disk with room for log and snapshots; see storage.md."}),
      {"snapshot_every", WholeNumber{&c.peer.snapshot_every, 1, kMillion}, kNo,
       "rounds between snapshots",
       "Raise it if snapshots keep the disk busy. Lower it to restart and to serve joiners "
       "faster."},
      {"keep_snapshots", WholeNumber{&c.peer.keep_snapshots, 1, 1000}, kNo,
       "snapshots to keep; the log reaches back to the oldest",
       "Raise it to keep more of the history for audits and for peers that come back late."},
      {"keep_bytes", ByteCount{&c.peer.keep_bytes, 0, kLargest}, kNo,
       "size of log and snapshots together, like \"20GB\"; 0: no limit",
       "Set it where the disk is small. Two snapshots are kept whatever it says."},
      {"values_in", OneOf(&c.peer.values_in, {"memory", "disk"}), kNo,
       "where parameters and the outer rule's buffers lie: in 'memory', or in files on the 'disk' "
       "of "
       "`dir`, of which the kernel keeps in memory what fits",
       "Set 'disk' where the model does not fit in memory beside its training. Each round then "
       "writes 12 bytes a parameter to that disk; see sizing.md."},
      {"donate_bytes_per_second", ByteCount{&c.peer.donate_bytes_per_second, 0, kLargest}, kNo,
       "bytes a second that joiners may fetch from here; 0: no limit",
       "Lower it to what your line can spare. While an exchange is under way, joiners get an "
       "eighth of it."},
      {"up_rate", LineRate{&c.peer.up_rate}, kNo,
       "what its line carries up at most, like \"20Mbit\"; empty: not stated",
       "Set it where you know the line: the planner counts on no more from the first round on."},
      {"down_rate", LineRate{&c.peer.down_rate}, kNo,
       "what its line carries down at most; empty: not stated", "Set it together with up_rate."},
      {"region", Text{&c.peer.region, TextForm::kId, true}, kNo,
       "name of the region, whose peers are close to each other; empty: one of its own",
       "Give peers of one site or data centre one name, so that they average among themselves "
       "before they use the long lines."},
  };
}

Fields WorkerFields(Config& c) {
  return {
      {"program", Text{&c.worker.program, TextForm::kPath, true}, kNo,
       "the program that trains; empty: the one for the model, beside atolld",
       "Set it to a program of your own, with model kind 'external' above all; see workers.md."},
      {"threads", WholeNumber{&c.worker.threads, 1, 1024}, kNo, "CPU threads of the worker",
       "Raise it to the number of cores that this worker may have. More workers and threads "
       "than cores are slower."},
      {"device", Text{&c.worker.device, TextForm::kDevice}, kNo,
       "where it trains; auto: the first GPU, or the CPU where there is none; "
       "\"cuda:0,cuda:1\": both; \"mps\": Apple's GPU, for workers in Python alone",
       "Set it on a machine with several GPUs, or to keep a GPU free."},
      {"sharding", OneOf(&c.worker.sharding, {"none", "full"}), kNo,
       "what each of several devices holds: a whole model, or with 'full' its part of one",
       "Take 'full' for a model of kind 'huggingface' that is too large for one device; see "
       "huggingface.md."},
      {"slower", RealNumber{&c.worker.slower, 1, kMostSlower}, kNo,
       "how many times longer each inner step lasts than it takes here; 1: no longer",
       "Raise it to play a slower machine: the rest of a step is sleep, and all that measures "
       "steps sees it as training."},
      {"memory", ByteCount{&c.worker.memory, 0, kLargest}, kNo,
       "most memory that training on CPUs may need, like \"8GB\"; 0: no limit",
       "Set it where the machine has other work or little memory. A step is then computed in more "
       "parts (`[inner] accumulation`), and if that is not enough with checkpointing, on this "
       "machine alone; `atoll check` says which. If nothing fits, the worker does not start. See "
       "sizing.md."},
      {"lora_rank", WholeNumber{&c.worker.lora_rank, 0, 65536}, kNo,
       "ranks of the run's adapters that this machine trains, the first ones; 0: all",
       "Lower it on a small machine, to a multiple of the run's [model] lora_slice."},
  };
}

Fields MachineFields(Config& c) {
  MachineConfig& m = c.machine;
  return {
      {"up_cap", LineRate{&m.up_cap}, kNo,
       "what the daemon sends to others at most, like \"10Mbit\"; empty: no limit",
       "Set it to what others in the house do not miss. The planner counts on no more."},
      {"down_cap", LineRate{&m.down_cap}, kNo, "what it receives at most; empty: no limit",
       "Set it together with up_cap."},
      {"bytes_a_day", ByteCount{&m.bytes_a_day, 0, kLargest}, kNo,
       "bytes sent and received between two midnights, like \"20GB\"; 0: no limit",
       "Set it where the line is paid for by volume. The peer pauses until midnight when they are "
       "spent. `atoll check` says what a day of the run costs."},
      {"hours", Text{&m.hours, TextForm::kHours, true}, kNo,
       "when it trains, like \"mon-fri 18:00-08:00, sat-sun\", local time; empty: always",
       "Set it to the hours in which nobody else needs the machine."},
      {"network_hours", Text{&m.network_hours, TextForm::kHours, true}, kNo,
       "when it may exchange, in the same form; empty: always",
       "Set it where the line is cheap, or free, at some hours alone. Outside them the peer "
       "pauses: what it trained would come too late."},
      {"in_use", TimeSpan{&m.in_use, absl::ZeroDuration(), absl::Hours(24)}, kNo,
       "how long keyboard and mouse must rest before it trains; 0: it does not care",
       "Set it, \"5m\" for example, on a machine that somebody works at."},
      {"on_battery", Flag{&m.on_battery}, kNo, "whether it trains while the machine is on battery",
       "Set it to false on a notebook."},
      {"charge_below", RealNumber{&m.charge_below, 0, 100}, kNo,
       "per cent of charge below which it pauses, on mains too; 0: none",
       "Set it where the battery is to be charged first."},
      {"hotter_than", RealNumber{&m.hotter_than, 0, 150}, kNo,
       "degrees Celsius, of any sensor of processor or GPU, above which it pauses; 0: none",
       "Set it some degrees below the one at which the machine slows itself down."},
      {"others_above", RealNumber{&m.others_above, 0, 100}, kNo,
       "per cent of all processors; it pauses while other programs use more; 0: none",
       "Set it, 25 for example, where other work is to go first."},
      {"gpu_others_above", RealNumber{&m.gpu_others_above, 0, 100}, kNo,
       "per cent of the GPU; it pauses while other programs use more; 0: none",
       "Set it on a machine whose GPU is for games or other work first."},
      {"memory_floor", ByteCount{&m.memory_floor, 0, kLargest}, kNo,
       "bytes of memory that must stay available, like \"2GB\"; 0: none",
       "Set it to what other programs need at once."},
      {"disk_floor", ByteCount{&m.disk_floor, 0, kLargest}, kNo,
       "bytes of the disk of `[peer] dir` that must stay free; 0: none",
       "Set it to what other programs need."},
      {"processors", RealNumber{&m.processors, 0, 100}, kNo,
       "per cent of the processors that the worker may have; 0: as many as `[worker] threads`",
       "Set it in place of `[worker] threads`, to half of a desktop's for example."},
  };
}

Fields HttpFields(Config& c) {
  return {
      {"listen", Text{&c.http.listen, TextForm::kHttpAddress}, kNo,
       "where a browser and Prometheus find it; 'auto': a coordinator's at 127.0.0.1:7080, or at a "
       "free port if that is taken, and a peer's not at all; 'off'",
       "Set it to an address of your network, together with the next three, to look on from "
       "elsewhere. Set it at a peer to have its metrics."},
      {"certificate", Text{&c.http.certificate, TextForm::kPath, true}, kNo,
       "file of the certificate in PEM, that of its authority behind it; empty: no TLS",
       "Set it wherever `listen` is not loopback."},
      {"key", Text{&c.http.key, TextForm::kPath, true}, kNo, "file of the certificate's key in PEM",
       "Set it together with `certificate`."},
      {"token_file", Text{&c.http.token_file, TextForm::kPath, true}, kNo,
       "file with one line, which a reader must show",
       "Set it wherever `listen` is not loopback. Prometheus sends it as its bearer token, and a "
       "browser asks for it."},
  };
}

Fields MembershipFields(Config& c) {
  return {
      {"failure_timeout",
       TimeSpan{&c.membership.failure_timeout, absl::Milliseconds(100), absl::Hours(1)}, kNo,
       "time of silence after which a peer is dead",
       "Raise it for machines that pause and lines that break off, lower it where a dead peer "
       "must hold up nobody. All other time-outs follow from it."},
      {"stragglers", OneOf(&c.membership.stragglers, {"leave", "wait"}), kNo,
       "whether a round that has its quorum goes on without those that are late",
       "Set it to \"wait\" where rounds are compared, so that a busy machine changes nothing: then "
       "only death ends the waiting."},
      Follows("16; 0 with `[privacy] masked`",
              {"weight_cap", RealNumber{&c.membership.weight_cap, 0, 1e6}, kNo,
               "how many usual updates a single one may count as at most; 0: any number",
               "Raise it where some peers are honestly that much faster than the median."}),
      {"offences", WholeNumber{&c.membership.offences, 0, 64}, kNo,
       "rounds with a refused or outsized update, or refused updates within one round, after which "
       "a "
       "peer is left out; 0: never",
       "Set it to 0 to watch peers without leaving any out."},
      {"offence_rounds", WholeNumber{&c.membership.offence_rounds, 1, 64}, kNo,
       "latest rounds in which offences count", "Raise it to remember offences for longer."},
      Follows("8; 0 with `[privacy] masked`, where nobody sees lengths, and with error feedback or "
              "codec 'topk', where honest ones differ widely",
              {"outsized", RealNumber{&c.membership.outsized, 0, 1e6}, kNo,
               "length, in usual lengths, from which an update is outsized, an offence; 0: none is",
               "Raise it if honest peers with unusual data are left out."}),
  };
}

Fields StopFields(Config& c) {
  constexpr absl::Duration kLongest = absl::Hours(24 * 366);
  return {
      {"loss_below", RealNumber{&c.stop_when.loss_below, 0, 1e6}, kNo,
       "a validation loss; the run stops at the first one below it",
       "Set it where a known loss is good enough, in the unit in which the run prints it."},
      {"no_improvement", WholeNumber{&c.stop_when.no_improvement, 0, kMillion}, kNo,
       "number of evaluations in a row that find no lower loss than the best before them",
       "Set it, 5 for example, where training longer than it helps would only cost. "
       "`[evaluation] every_rounds` says how often there is one."},
      {"tokens", WholeNumber{&c.stop_when.tokens, 0, kLargest}, kNo,
       "number of training tokens of all peers together",
       "Set it to compare runs that saw as much text, whatever their rounds."},
      {"time", TimeSpan{&c.stop_when.time, absl::ZeroDuration(), kLongest}, kNo,
       "how long the run trains; time without its coordinator does not count",
       "Set it to the time that the machines are yours."},
  };
}

Fields CoordinatorFields(Config& c) {
  return {
      {"address", Text{&c.coordinator.address, TextForm::kDialAddress}, kNo,
       "where peers and `atoll` find the coordinator; tokens hand it out",
       "Set it to a name or address that all peers can dial, in their configs too, unless all "
       "are on this machine. `atoll local` takes a free port of 127.0.0.1 while this is the "
       "default."},
      {"listen", Text{&c.coordinator.listen, TextForm::kListenAddress, true}, kNo,
       "where it listens; empty: address",
       "Set it where the machine does not itself have the address that peers dial, "
       "'0.0.0.0:7070' for example."},
      NeededBy({ConfigUse::kCoordinator},
               {"dir", Text{&c.coordinator.dir, TextForm::kPath, true}, kNo,
                "where the coordinator's store lives",
                "Choose a disk that is backed up: anyone who can read it owns the cluster."}),
      {"exit_when_sealed", Flag{&c.coordinator.exit_when_sealed}, kNo,
       "whether the process ends when the run is over",
       "Switch it on where a script or a job waits for the end."},
      {"aggregator", OneOf(&c.coordinator.aggregator, {"auto", "always", "never"}), kNo,
       "when an aggregator is started beside it; 'auto': once a peer has come that nobody can "
       "dial",
       "Take 'never' where the coordinator's machine or line is small and another peer can be "
       "dialled."},
      {"aggregator_address", Text{&c.coordinator.aggregator_address, TextForm::kDialAddress, true},
       kNo, "where peers dial that aggregator; empty: the host of `address` and the next port",
       "Set it where that port is taken or closed."},
  };
}

Fields TrackingFields(Config& c) {
  return {
      {"tensorboard", Text{&c.tracking.tensorboard, TextForm::kPath, true}, kNo,
       "folder of TensorBoard, in which the run gets a folder of its own; empty: none",
       "Set it to look at curves with `tensorboard --logdir FOLDER`. It needs no library."},
      {"wandb", Text{&c.tracking.wandb, TextForm::kPlain, true}, kNo,
       "project of Weights & Biases, \"PROJECT\" or \"ENTITY/PROJECT\"; empty: none",
       "Set it if your runs are there. Without a key (WANDB_API_KEY, `wandb login`) or with "
       "WANDB_MODE=offline the run is kept on this machine, for `wandb sync`."},
      {"mlflow", Text{&c.tracking.mlflow, TextForm::kPathOrUri, true}, kNo,
       "MLflow's tracking URI, like \"http://127.0.0.1:5000\", or a folder, in which `mlflow.db` "
       "is made; empty: none",
       "Set it if your runs are there. MLFLOW_EXPERIMENT_NAME names another experiment than "
       "'atoll'."},
      {"program", Text{&c.tracking.program, TextForm::kPath, true}, kNo,
       "the program that writes to them; empty: atoll-track, beside atolld or in PATH",
       "Set it to bin/atoll-track of a virtual environment that is not in PATH."},
  };
}

Fields NetworkFields(Config& c) {
  return {
      {"plaintext", Flag{&c.network.plaintext}, kNo,
       "whether to run without certificates and serve any process; on loopback alone",
       "Switch it on for benchmarks on one machine alone."},
      {"lanes", WholeNumber{&c.network.lanes, 1, 16}, kNo,
       "connections to each peer, every one with its share of the chunks",
       "Raise it where a line is both fast and long: one connection carries about 180 MB/s "
       "over 100 ms."},
  };
}

Fields LimitFields(Config& c) {
  return {
      {"calls_per_peer", WholeNumber{&c.limits.calls_per_peer, 16, 65536}, kNo,
       "open calls that a peer takes from one other peer at a time",
       "Raise it, at the peer, if its log says that honest peers are refused: an exchange "
       "takes one call for each lane and direction."},
      {"sessions_per_minute", WholeNumber{&c.limits.sessions_per_minute, 1, kMillion}, kNo,
       "Sessions that one peer may begin with the coordinator in a minute",
       "Raise it, at the coordinator, for peers whose lines break off again and again."},
      {"session_messages", WholeNumber{&c.limits.session_messages, 10, kMillion}, kNo,
       "messages that the coordinator reads from one peer in a second",
       "Raise it, at the coordinator, only if its log names honest peers."},
      {"enrolments", WholeNumber{&c.limits.enrolments, 1, kMillion}, kNo,
       "enrolments and renewals that the coordinator signs in a second",
       "Raise it, at the coordinator, if thousands of machines join at once."},
  };
}

Fields LogFields(Config& c) {
  return {
      {"level", OneOf(&c.log.level, {"debug", "info", "warning", "error"}), kNo,
       "least severity that the daemons write to their logs", "Take 'debug' to look for a fault."},
      {"format", OneOf(&c.log.format, {"text", "json"}), kNo,
       "how a line looks: 'text', or 'json', an object a line",
       "Take 'json' where a program reads the logs."},
  };
}

Fields Joined(Fields first, Fields second) {
  for (ConfigField& field : second) first.push_back(std::move(field));
  return first;
}

constexpr RetiredKey kRetiredKeys[] = {
    {"exchange", "clipping_steps", 1,
     "an exchange with aggregation 'centred_clipping' makes one step"},
};

}  // namespace

std::string ConfigField::Name() const { return absl::StrCat("[", section, "] ", key); }

std::vector<ConfigSection> ConfigSections(Config& c) {
  constexpr ConfigPart kRun = ConfigPart::kRun;
  constexpr ConfigPart kPeer = ConfigPart::kPeer;
  constexpr ConfigPart kCoordinator = ConfigPart::kCoordinator;
  constexpr ConfigPart kEveryProcess = ConfigPart::kEveryProcess;
  std::vector<ConfigSection> sections = {
      {"run", kRun, "The run as a whole.", RunFields(c)},
      {"model", kRun,
       "What is trained, and what it begins with. A key that the kind does not have is refused. A "
       "peer takes from its own config only the paths; the coordinator tells it the rest.",
       Joined(Joined(ModelShapeFields(c), ModelStartFields(c)), DecoderFields(c.model.decoder))},
      {"data", kRun,
       "What is trained on. A peer has the paths and the tokenizer in its own config.",
       DataFields(c)},
      {"inner", kRun, "What each peer does alone between two exchanges.",
       Joined(InnerStepFields(c), InnerScheduleFields(c))},
      {"outer", kRun, "How the shared parameters move by the mean of the peers' updates.",
       OuterFields(c)},
      {"exchange", kRun, "How the peers' updates become one mean.", ExchangeFields(c)},
      {"evaluation", kRun, "How often the loss on the validation text is measured.",
       EvaluationFields(c)},
      {"mode", kRun, "How training and the exchange of updates interleave. See modes.md.",
       ModeFields(c)},
      {"experts", kRun, "Which peers train which experts of a mixture. See experts.md.",
       ExpertsFields(c)},
      {"federation", kRun, "How parties with data of their own take part.", FederationFields(c)},
      {"privacy", kRun,
       "What is kept from those who see updates, and from those who see what was learned. See "
       "privacy.md.",
       PrivacyFields(c)},
      {"membership", kCoordinator, "Who counts, and when a peer is given up.", MembershipFields(c)},
      {"stop_when", kCoordinator,
       "When the run has come far enough: it then ends as if an operator had stopped it, at its "
       "newest version, instead of after `[run] rounds`. The first condition that holds counts; "
       "0 stands for never.",
       StopFields(c)},
      {"coordinator", kCoordinator,
       "The coordinator's process. Peers and `atoll` read `address` too.",
       Joined(CoordinatorFields(c), StoreFields(c))},
      {"tracking", kCoordinator,
       "Experiment trackers that get the run's figures, each version once. The coordinator starts "
       "a program that writes to them, and the run does not depend on it. See metrics.md.",
       TrackingFields(c)},
      {"peer", kPeer, "One peer: its place in the run, its disk and its line.", PeerFields(c)},
      {"worker", kPeer, "The process that trains for one peer.", WorkerFields(c)},
      {"machine", kPeer,
       "What the machine's owner lends. `atoll limits set` changes it while the daemon runs, and "
       "`atoll status` says what of it makes the peer idle.",
       MachineFields(c)},
      {"parties", kPeer, "Parties that one peer imitates, each with data of its own.",
       PartiesFields(c)},
      {"availability", kPeer, "When the peer is there, as an experiment has it.",
       AvailabilityFields(c)},
      {"network", kEveryProcess, "How the processes talk to each other.", NetworkFields(c)},
      {"limits", kEveryProcess,
       "What any one other process may ask of this one. The defaults lie far above what an honest "
       "one asks (operations.md).",
       LimitFields(c)},
      {"http", kEveryProcess,
       "A port for browsers and Prometheus, apart from all others: it only shows. Where it is not "
       "on loopback it needs TLS and a token.",
       HttpFields(c)},
      {"log", kEveryProcess, "What the daemons write to their logs.", LogFields(c)},
  };
  for (ConfigSection& section : sections) {
    for (ConfigField& field : section.fields) field.section = section.name;
  }
  return sections;
}

std::vector<ConfigField> ConfigFields(Config& config) {
  std::vector<ConfigField> fields;
  for (ConfigSection& section : ConfigSections(config)) {
    fields = Joined(std::move(fields), std::move(section.fields));
  }
  return fields;
}

const RetiredKey* FindRetiredKey(absl::string_view section, absl::string_view key) {
  for (const RetiredKey& one : kRetiredKeys) {
    if (one.section == section && one.key == key) return &one;
  }
  return nullptr;
}

}  // namespace atolld
