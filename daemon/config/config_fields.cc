#include "daemon/config/config_fields.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "optimizer/aggregation_rule.h"

namespace atolld {
namespace {

constexpr uint64_t kLargest = std::numeric_limits<int64_t>::max();
constexpr uint64_t kMillion = 1000000;

constexpr ConfigUse kLocal = ConfigUse::kLocal;
constexpr ConfigUse kCoordinator = ConfigUse::kCoordinator;
constexpr ConfigUse kPeer = ConfigUse::kPeer;

Text OneOf(std::string* at, std::vector<std::string> choices) {
  return Text{at, TextForm::kOneOf, false, std::move(choices)};
}

std::vector<ConfigField> RunFields(Config& c) {
  return {
      {"run", "id", "the run's name; empty: made from the file's name and the time",
       Text{&c.run.id, TextForm::kId, true}},
      {"run", "rounds", "versions to commit before the run is sealed",
       WholeNumber{&c.run.rounds, 1, uint64_t{1} << 32}},
      {"run", "seed", "of the initial parameters and of the order of the data",
       WholeNumber{&c.run.seed, 0, kLargest}},
      {"run", "peers", "trainers to wait for before the first round",
       WholeNumber{&c.run.peers, 1, 1024}},
      {"run", "quorum", "fewest peers that may commit; 0: more than half of peers",
       WholeNumber{&c.run.quorum, 0, 1024}},

      {"model", "kind", "the architecture",
       OneOf(&c.model.kind, {"gpt", "gpt2", "llama", kTorchScriptKind, kExternalKind, kStubKind})},
      {"model", "layers", "transformer blocks", WholeNumber{&c.model.layers, 1, 1024}},
      {"model", "heads", "attention heads; they divide width",
       WholeNumber{&c.model.heads, 1, 1024}},
      {"model", "width", "embedding dimension", WholeNumber{&c.model.width, 1, 65536}},
      {"model", "context", "tokens a sequence", WholeNumber{&c.model.context, 2, 65536}},
      {"model", "dropout", "share of activations dropped in training",
       RealNumber{&c.model.dropout, 0, 0.9}},
      {"model", "parameters", "how many a model of kind 'stub' has; 0 with any other",
       WholeNumber{&c.model.parameters, 0, uint64_t{1} << 34}},
  };
}

std::vector<ConfigField> ModelFields(Config& c) {
  return {
      {"model", "vocabulary", "token ids are below it; 0: the data's",
       WholeNumber{&c.model.vocabulary, 0, uint64_t{1} << 24}},
      {"model", "hidden", "values inside the feed-forward part of gpt2 and llama; 0: the usual",
       WholeNumber{&c.model.hidden, 0, uint64_t{1} << 20}},
      {"model", "kv_heads", "heads of keys and values in llama; they divide heads; 0: as many",
       WholeNumber{&c.model.kv_heads, 0, 1024}},
      {"model", "tied", "the token embedding is the output head too; false: gpt2 and llama",
       Flag{&c.model.tied}},
      {"model", "rope_theta", "base of llama's rotary positions; 0: 10000",
       RealNumber{&c.model.rope_theta, 0, 1e12}},
      {"model", "norm_epsilon", "of the norms of gpt2 and llama; 0: 1e-5",
       RealNumber{&c.model.norm_epsilon, 0, 1}},
      {"model", "initial", "a file of `atoll import` that the run begins with; empty: drawn",
       Text{&c.model.initial, TextForm::kPath, true}},

      {"model", "lora_rank", "of adapters that are trained in place of the model; 0: none",
       WholeNumber{&c.model.lora_rank, 0, 65536}},
      {"model", "lora_alpha", "adapters count lora_alpha / lora_rank; 0: twice lora_rank",
       RealNumber{&c.model.lora_alpha, 0, 1e6}},
      {"model", "lora_targets", "the modules that get them, \"q_proj,v_proj\"; empty: the usual",
       Text{&c.model.lora_targets, TextForm::kNames, true}},
      {"model", "base", "the frozen model beneath adapters: a file of `atoll import`",
       Text{&c.model.base, TextForm::kPath, true}},
      {"model", "base_digest", "its SHA-256 in hex, as `atoll import` prints it",
       Text{&c.model.base_digest, TextForm::kSha256, true}},
      {"model", "file", "the TorchScript file of kind 'torchscript', whose forward gives the loss",
       Text{&c.model.file, TextForm::kPath, true}},

      {"data",
       "path",
       "the text to train on, a file or a folder",
       Text{&c.data.path, TextForm::kPath, true},
       {kLocal, kPeer}},
      {"data", "validation_fraction", "the tail of the text that is held out",
       RealNumber{&c.data.validation_fraction, 0, 0.5}},
      {"data", "tokenizer", "of text: 'bytes', 'chars', or a file: tokenizer.json, SentencePiece's",
       Text{&c.data.tokenizer, TextForm::kPlain}},
      {"data", "field", "of lines of JSON: where the text stands; empty: text",
       Text{&c.data.field, TextForm::kPlain, true}},
      {"data", "kind", "of the files; text: what is there says what it is",
       OneOf(&c.data.kind, {"text", "jsonl", "bin", "npy", "prepared"})},
      {"data", "sources", "several in place of path, with weights: 'books:0.7,code:0.3'",
       Text{&c.data.sources, TextForm::kPlain, true}},
  };
}

std::vector<ConfigField> TrainingFields(Config& c) {
  return {
      {"inner", "optimizer", "of the inner steps",
       OneOf(&c.inner.optimizer, {"adamw", "muon", "sgd"})},
      {"inner", "steps", "inner steps a round", WholeNumber{&c.inner.steps, 1, kMillion}},
      {"inner", "pace", "how many of them a peer does: fixed, what fits time, or by its speed",
       OneOf(&c.inner.pace, {"fixed", "time", "auto"})},
      {"inner", "time", "of a round's inner steps, with pace 'time'; 0s: none",
       TimeSpan{&c.inner.time, absl::ZeroDuration(), absl::Hours(24)}},
      {"inner", "batch", "sequences a step, one peer", WholeNumber{&c.inner.batch, 1, 65536}},
      {"inner", "learning_rate", "peak of the inner learning rate",
       RealNumber{&c.inner.learning_rate, 0, 100, Bounds::kOpenBelow}},
      {"inner", "min_learning_rate", "where the schedule ends",
       RealNumber{&c.inner.min_learning_rate, 0, 100}},
      {"inner", "warmup_steps", "steps of the run with a rising learning rate",
       WholeNumber{&c.inner.warmup_steps, 0, uint64_t{1} << 40}},
      {"inner", "decay_steps", "step of the run at which the schedule ends; 0: rounds x steps",
       WholeNumber{&c.inner.decay_steps, 0, uint64_t{1} << 40}},
      {"inner", "beta1", "AdamW's first moment",
       RealNumber{&c.inner.beta1, 0, 1, Bounds::kOpenAbove}},
      {"inner", "beta2", "AdamW's second moment",
       RealNumber{&c.inner.beta2, 0, 1, Bounds::kOpenAbove}},
      {"inner", "weight_decay", "on matrices only", RealNumber{&c.inner.weight_decay, 0, 10}},
      {"inner", "gradient_clip", "global L2 norm; 0: off",
       RealNumber{&c.inner.gradient_clip, 0, 1e6}},
      {"inner", "step_time", "what a step takes with a model of kind 'stub'; 0 with any other",
       TimeSpan{&c.inner.step_time, absl::ZeroDuration(), absl::Hours(1)}},
      {"inner", "schedule", "of the learning rate after the warm-up",
       OneOf(&c.inner.schedule, {"cosine", "wsd", "constant"})},
      {"inner", "cooldown_steps",
       "last steps of 'wsd', with a falling rate; 0: a fifth of them all",
       WholeNumber{&c.inner.cooldown_steps, 0, uint64_t{1} << 40}},
      {"inner", "precision", "of the matrix products; parameters and optimiser are fp32",
       OneOf(&c.inner.precision, {"fp32", "bf16"})},
      {"inner", "accumulation", "parts that a step's batch is computed in, one after the other",
       WholeNumber{&c.inner.accumulation, 1, 65536}},
      {"inner", "checkpointing", "compute activations twice instead of keeping them: less memory",
       Flag{&c.inner.checkpointing}},
      {"inner", "muon_momentum", "of the optimiser muon",
       RealNumber{&c.inner.muon_momentum, 0, 1, Bounds::kOpenAbove}},

      {"outer", "rule", "how a round's mean update moves the parameters",
       OneOf(&c.outer.rule, {"nesterov", "average"})},
      {"outer", "learning_rate", "of the outer rule",
       RealNumber{&c.outer.learning_rate, 0, 100, Bounds::kOpenBelow}},
      {"outer", "momentum", "of the outer rule",
       RealNumber{&c.outer.momentum, 0, 1, Bounds::kOpenAbove}},

      {"exchange", "codec", "the form of updates on the wire, and of means and the log",
       Text{&c.exchange.codec, TextForm::kCodec}},
      {"exchange", "upper_codec", "of means and the log, where that is another; empty: codec",
       Text{&c.exchange.upper_codec, TextForm::kCodec, true}},
      {"exchange", "error_feedback", "carry what the codec lost into the next round",
       Flag{&c.exchange.error_feedback}},
      {"exchange", "feedback_decay", "share of what was lost that is carried",
       RealNumber{&c.exchange.feedback_decay, 0, 1, Bounds::kOpenBelow}},
      {"exchange", "rounding", "to the nearest code, or at random so that no error adds up",
       OneOf(&c.exchange.rounding, {"nearest", "stochastic"})},
      {"exchange", "audit_share",
       "of the chunks, those that others recompute before a commit; 0: none",
       RealNumber{&c.exchange.audit_share, 0, 1}},
      {"exchange", "chunk_elements", "values a chunk",
       WholeNumber{&c.exchange.chunk_elements, 4096, 524288, 4096}},
      {"exchange", "aggregation", "how the peers' updates become one",
       OneOf(&c.exchange.aggregation, AggregationRule::Names())},
      {"exchange", "faulty", "liars among the peers that the rule is to bear",
       WholeNumber{&c.exchange.faulty, 0, 31}},
      {"exchange", "clip", "median lengths to which longer updates are scaled down; 0: none is",
       RealNumber{&c.exchange.clip, 0, 1e6}},
      {"exchange", "clipping_steps", "of centred_clipping; an exchange makes one",
       WholeNumber{&c.exchange.clipping_steps, 1, 1}},
      {"exchange", "plan", "who averages what: everybody flat, each region first, or the faster",
       OneOf(&c.exchange.plan, {"auto", "flat", "regions"})},

      {"evaluation", "tokens", "validation tokens evaluated; 0: all",
       WholeNumber{&c.evaluation.tokens, 0, uint64_t{1} << 40}},
      {"evaluation", "every_rounds", "besides the first and the last; 0: those two alone",
       WholeNumber{&c.evaluation.every_rounds, 0, kMillion}},
  };
}

std::vector<ConfigField> ProcessFields(Config& c) {
  return {
      {"membership", "failure_timeout", "a peer silent for so long is dead",
       TimeSpan{&c.membership.failure_timeout, absl::Milliseconds(100), absl::Hours(1)}},
      {"membership", "weight_cap", "an update counts at most so many usual ones; 0: any number",
       RealNumber{&c.membership.weight_cap, 0, 1e6}},

      {"membership", "offences",
       "a peer is left out after so many rounds with a refused or outsized update; 0: never",
       WholeNumber{&c.membership.offences, 0, 64}},
      {"membership", "offence_rounds", "of the last so many rounds",
       WholeNumber{&c.membership.offence_rounds, 1, 64}},
      {"membership", "outsized", "usual lengths from which an update is an offence; 0: none is",
       RealNumber{&c.membership.outsized, 0, 1e6}},

      {"coordinator", "address", "where peers and `atoll` find the coordinator",
       Text{&c.coordinator.address, TextForm::kDialAddress}},
      {"coordinator", "listen", "where it listens; empty: address",
       Text{&c.coordinator.listen, TextForm::kListenAddress, true}},
      {"coordinator",
       "dir",
       "where the coordinator's store lives",
       Text{&c.coordinator.dir, TextForm::kPath, true},
       {kCoordinator}},
      {"coordinator", "exit_when_sealed", "end the process when the run is over",
       Flag{&c.coordinator.exit_when_sealed}},

      {"coordinator", "aggregator",
       "start an aggregator beside it: once a peer has come that nobody can dial, always, never",
       OneOf(&c.coordinator.aggregator, {"auto", "always", "never"})},
      {"coordinator", "aggregator_address",
       "where peers dial it; empty: address's host and the next port",
       Text{&c.coordinator.aggregator_address, TextForm::kDialAddress, true}},

      {"peer", "id", "this peer's name in the run", Text{&c.peer.id, TextForm::kId, true}, {kPeer}},
      {"peer", "role", "'peer' trains; 'aggregator' has no worker and reduces for others",
       OneOf(&c.peer.role, {"peer", kAggregatorRoleName})},
      {"peer", "listen", "where others reach this peer; port 0: the system chooses",
       Text{&c.peer.listen, TextForm::kListenAddress}},
      {"peer", "advertise",
       "what others dial; empty: the address listened on; \"none\": nobody can",
       Text{&c.peer.advertise, TextForm::kAdvertised, true}},
      {"peer", "dir", "where the replica lives", Text{&c.peer.dir, TextForm::kPath, true}, {kPeer}},
      {"peer", "snapshot_every", "rounds between snapshots",
       WholeNumber{&c.peer.snapshot_every, 1, kMillion}},
      {"peer", "keep_snapshots", "the log reaches back to the oldest kept",
       WholeNumber{&c.peer.keep_snapshots, 1, 1000}},
      {"peer", "keep_bytes", "of log and snapshots together, \"20GB\"; 0: no limit",
       ByteCount{&c.peer.keep_bytes, 0, kLargest}},
      {"peer", "donate_bytes_per_second", "what joiners may fetch from here; 0: no limit",
       ByteCount{&c.peer.donate_bytes_per_second, 0, kLargest}},
      {"peer", "up_rate", "what its line carries up at most, \"20Mbit\"; empty: not told",
       LineRate{&c.peer.up_rate}},
      {"peer", "down_rate", "what its line carries down at most; empty: not told",
       LineRate{&c.peer.down_rate}},
      {"peer", "region", "peers of one region are close to each other; empty: one of its own",
       Text{&c.peer.region, TextForm::kId, true}},

      {"worker", "program", "the process that trains; empty: the model's, beside atolld",
       Text{&c.worker.program, TextForm::kPath, true}},
      {"worker", "threads", "CPU threads of the worker", WholeNumber{&c.worker.threads, 1, 1024}},
      {"worker", "device",
       "where it trains; auto: the first GPU, or the CPU where there is none; \"cuda:0,cuda:1\": "
       "both",
       Text{&c.worker.device, TextForm::kDevice}},

      {"network", "plaintext",
       "no certificates: whoever reaches a port is heard; on this machine's loopback alone",
       Flag{&c.network.plaintext}},
      {"network", "lanes",
       "connections to each peer, every one with its share of the chunks: for fat long lines",
       WholeNumber{&c.network.lanes, 1, 16}},

      {"limits", "calls_per_peer",
       "open at a time from one other peer, so that none takes up all that a peer can hold",
       WholeNumber{&c.limits.calls_per_peer, 16, 65536}},
      {"limits", "sessions_per_minute",
       "that one peer may begin with the coordinator, each of which is work for the whole run",
       WholeNumber{&c.limits.sessions_per_minute, 1, kMillion}},
      {"limits", "session_messages",
       "a second that the coordinator reads of one peer, so that none keeps it from the others",
       WholeNumber{&c.limits.session_messages, 10, kMillion}},
      {"limits", "enrolments",
       "a second that the coordinator signs, each of which it checks and makes durable",
       WholeNumber{&c.limits.enrolments, 1, kMillion}},

      {"log", "level", "how much the daemons write",
       OneOf(&c.log.level, {"debug", "info", "warning", "error"})},
  };
}

}  // namespace

std::vector<ConfigField> ConfigFields(Config& config) {
  std::vector<ConfigField> fields = RunFields(config);
  for (ConfigField& field : ModelFields(config)) fields.push_back(std::move(field));
  for (ConfigField& field : TrainingFields(config)) fields.push_back(std::move(field));
  for (ConfigField& field : ProcessFields(config)) fields.push_back(std::move(field));
  return fields;
}

std::vector<std::string> SectionNames(const std::vector<ConfigField>& fields) {
  std::vector<std::string> names;
  for (const ConfigField& field : fields) {
    if (names.empty() || names.back() != field.section) names.push_back(field.section);
  }
  return names;
}

std::vector<std::string> KeyNames(const std::vector<ConfigField>& fields,
                                  const std::string& section) {
  std::vector<std::string> names;
  for (const ConfigField& field : fields) {
    if (field.section == section) names.push_back(field.key);
  }
  return names;
}

}  // namespace atolld
