#include "daemon/config/section_fields.h"

#include <cstdint>
#include <iterator>
#include <utility>

#include "membership/history/expert_terms.h"

namespace atolld {
namespace {

constexpr uint64_t kMost = 1000000;

std::vector<ConfigField> SourceFields(DataConfig& data) {
  ConfigField path = {"path", Text{&data.path, TextForm::kPath, true}, Recorded::kInPart,
                      "the text to train on, a file or a folder",
                      "Set it on each machine that trains. The run records the digest of what the "
                      "first worker reads there."};
  path.needed_by = {ConfigUse::kLocal, ConfigUse::kPeer};
  return {
      path,
      {"validation_fraction", RealNumber{&data.validation_fraction, 0, 0.5},
       As("data.validation_fraction"),
       "share of the text, at its end, that is held out for validation",
       "Lower it for a large corpus, of which evaluation reads a small part anyway."},
      {"tokenizer", Text{&data.tokenizer, TextForm::kPlain}, Recorded::kInPart,
       "how text becomes tokens: 'bytes', 'chars', or a file (tokenizer.json, SentencePiece)",
       "Take a file to train a model with its own tokenizer, 'chars' for a small alphabet. "
       "The run records its kind, and later the file's digest. A peer that names none gets a file "
       "of at most 64 MiB from the others."},
      {"field", Text{&data.field, TextForm::kPlain, true}, As("data.field"),
       "name of the text in lines of JSON, 'a.b' for a nested one; empty: text",
       "Set it if your lines of JSON have their text under another name."},
      {"kind", OneOf(&data.kind, {"text", "plain", "jsonl", "chat", "bin", "npy", "prepared"}),
       Recorded::kYes, "form of the files; 'text': the files themselves say what they are",
       "Name another form to refuse files that are of any other, 'plain' to train on tables and "
       "JSON as they are, with all their punctuation, or 'chat' to train on prompts and their "
       "completions."},
      {"width", WholeNumber{&data.width, 0, 64}, Recorded::kYes,
       "size of a token id in files that do not say it, as bytes (1, 2, 4 or 8) or as bits (16, 32 "
       "or 64); 0: 2 bytes where possible",
       "Set it to 4 or 32 for bare files of 32-bit ids, as np.uint32 gives them. A vocabulary "
       "above 65,536 needs it."},
      {"end_of_text", Text{&data.end_of_text, TextForm::kPlain, true}, As("data.end_of_text"),
       "the token that stands between two documents; empty: the one that the tokenizer's files "
       "name",
       "Set it if `atoll data inspect` says that another one, or a newline, stands there."},
      {"on_bad_line", OneOf(&data.on_bad_line, {"stop", "skip"}), UnlessDefault("data.on_bad_line"),
       "what to do at a line of JSON that holds no text: 'stop', or 'skip' and count it",
       "Take 'skip' if some lines of a large corpus are known to be bad. The worker's log says how "
       "many there were and shows the first three."},
      {"sources", Text{&data.sources, TextForm::kPlain, true}, Recorded::kInPart,
       "several sources with weights in place of `path`, like 'books:0.7,code:0.3'",
       "Set it to mix several corpora. The run records the weights."},
  };
}

// The keys of conversations, and of private data.
std::vector<ConfigField> SpecialFields(DataConfig& data) {
  return {
      {"template", Text{&data.chat_template, TextForm::kOneOf, true, {"chatml", "llama3"}},
       As("data.chat_template"),
       "how the messages of a conversation are written: 'chatml' or 'llama3'; empty: the data is "
       "not conversations",
       "Set it to fine-tune on lines of JSON with messages. The tokenizer must have the tokens of "
       "the template."},
      {"loss_on", OneOf(&data.loss_on, {"completions", "all"}), UnlessDefault("data.loss_on"),
       "what of a conversation is learnt: 'completions', which the assistant says, or 'all'",
       "Leave it, unless the model is to learn to ask as well."},
      {"packing", OneOf(&data.packing, {"none", "join"}), UnlessDefault("data.packing"),
       "whether a sequence is one conversation ('none'), or is cut from all of them, one behind "
       "the "
       "other ('join')",
       "Take 'join' if the conversations are far shorter than the context and the model may see "
       "one behind the other."},
      {"private", Flag{&data.is_private}, As("data.private"),
       "whether every peer has data of its own at `path`, which never leaves it",
       "Switch it on for a federation of parties whose data differ. Nothing is leased then, and "
       "each peer goes through its own data epoch by epoch."},
      {"validation", Text{&data.validation, TextForm::kPath, true}, Recorded::kInPart,
       "with private data, a file that all evaluate on; empty: each evaluates on its own data",
       "Set it where there is a text that everybody may see. A peer that names none gets a file "
       "of at most 64 MiB from the others."},
  };
}

}  // namespace

std::vector<ConfigField> DataFields(Config& config) {
  std::vector<ConfigField> fields = SourceFields(config.data);
  std::vector<ConfigField> special = SpecialFields(config.data);
  fields.insert(fields.end(), std::make_move_iterator(special.begin()),
                std::make_move_iterator(special.end()));
  return fields;
}
std::vector<ConfigField> ModeFields(Config& config) {
  ModeConfig& m = config.mode;
  return {
      {"kind", OneOf(&m.kind, {"sync", "streaming", "eager", "delayed", "async", "auto"}),
       UnlessDefault("mode.kind"),
       "how training and exchanging interleave; 'sync': one after the other; 'auto': whichever the "
       "plan says when the run is made",
       "Take 'streaming' where exchanges take long, with an overlap of the whole round where they "
       "fill it, and 'async' where peers differ much in speed. See modes.md."},
      OnlyWith({"mode.kind", {"streaming"}},
               {"fragments", WholeNumber{&m.fragments, 1, 64}, As("mode.fragments"),
                "fragments that entries cover in turn; only with 'streaming'",
                "Raise it for a lower peak of the bandwidth."}),
      OnlyWith(
          {"mode.kind", {"streaming"}},
          {"overlap", WholeNumber{&m.overlap, 0, kMost}, As("mode.overlap_steps"),
           "inner steps (tau) after a round's end until its entry is merged; only with 'streaming'",
           "Raise it until an exchange fits into it. With three fragments or more even the whole "
           "round, `[inner] steps`, costs no loss that was measured."}),
      OnlyWith(
          {"mode.kind", {"streaming"}},
          {"merge", RealNumber{&m.merge, 0, 1, Bounds::kOpenAbove}, As("mode.merge_bits"),
           "share of a peer's own values (alpha) in what it goes on from; only with 'streaming'",
           "Lower it to 0 to drop what a peer has learnt while an entry was on its way."}),
      OnlyWith({"mode.kind", {"delayed"}},
               {"gap_penalty", Flag{&m.gap_penalty}, As("mode.gap_penalty"),
                "whether a mean is divided by how far the state has moved since (CO2); only with "
                "'delayed'",
                "Switch it on where 'delayed' training is unstable."}),
      OnlyWith(
          {"mode.kind", {"delayed"}},
          {"momentum_clip", RealNumber{&m.momentum_clip, 0, 1e6}, As("mode.momentum_clip_bits"),
           "largest value of the outer momentum; 0: any; only with 'delayed'",
           "Set it where 'delayed' training is unstable."}),
      OnlyWith(
          {"mode.kind", {"delayed", "async"}},
          {"age_decay", RealNumber{&m.age_decay, 0, 100}, As("mode.age_decay_bits"),
           "by what power of e an update loses weight for each entry that it missed; only with "
           "'delayed' and 'async'",
           "Raise it where old updates do harm."}),
      OnlyWith({"mode.kind", {"delayed", "async"}},
               {"age_cutoff", WholeNumber{&m.age_cutoff, 0, kMost}, As("mode.age_cutoff"),
                "missed entries from which on an update counts nothing; 0: any number; only with "
                "'delayed' "
                "and 'async'",
                "Set it where some peers are slower than the others by far."}),
      OnlyWith({"mode.kind", {"auto"}},
               {"utilisation", RealNumber{&m.utilisation, 0.01, 0.999}, Recorded::kNo,
                "share of the time in which workers are to train; only with 'auto'",
                "Lower it where 'auto' takes a mode that costs too much in loss."}),
      OnlyWith(
          {"mode.kind", {"auto"}},
          {"step_time", TimeSpan{&m.step_time, absl::ZeroDuration(), absl::Hours(1)}, Recorded::kNo,
           "time that an inner step takes on a peer's machine; 0s: that of [inner]; only with "
           "'auto'",
           "Set it to what `atoll run watch` has shown of a short run on such a machine."}),
      OnlyWith(
          {"mode.kind", {"auto"}},
          {"line_rate", LineRate{&m.line_rate}, Recorded::kNo,
           "what the slowest peer's line carries each way; empty: [peer] up_rate and down_rate; "
           "only "
           "with 'auto'",
           "Set it to what that peer has paid for, or to what it has been measured to carry."}),
      OnlyWith({"mode.kind", {"auto"}},
               {"round_trip", TimeSpan{&m.round_trip, absl::ZeroDuration(), absl::Seconds(10)},
                Recorded::kNo, "round trip between two peers; only with 'auto'",
                "Raise it where peers are far from each other."}),
  };
}
std::vector<ConfigField> ExpertsFields(Config& c) {
  return {
      {"owners", WholeNumber{&c.experts.owners, 0, kMostOwners}, As("experts.owners"),
       "peers that train each expert of a mixture; 0: every peer trains all experts",
       "Set it to 2 or more where experts are most of the model and machines or lines are too "
       "small for all of them. With fewer peers than this, each peer owns all. See experts.md."},
      {"tensors", Text{&c.experts.tensors, TextForm::kPlain, true}, Recorded::kYes,
       "patterns, with commas between, of the experts' tensors: # stands for the expert's number, "
       "* "
       "for any characters; empty: those of the model's family",
       "Set it for a model whose experts have other names. The run records the patterns of the "
       "family too."},
  };
}
std::vector<ConfigField> FederationFields(Config& c) {
  FederationConfig& f = c.federation;
  return {
      {"participation", RealNumber{&f.participation, 0, 1, Bounds::kOpenBelow},
       UnlessDefault("federation.participation_bits"),
       "share of the peers that is drawn to train in a round",
       "Lower it to imitate a federation in which a few parties are asked at a time."},
      {"drop", RealNumber{&f.drop, 0, 1, Bounds::kOpenAbove}, As("federation.drop_bits"),
       "probability that a peer's update is not sent in a round; the peer trains on with it",
       "Raise it to see what lost updates do to the loss."},
      {"weights", OneOf(&f.weights, {"tokens", "samples", "equal", "loss"}),
       UnlessDefault("federation.weights"),
       "what a peer's update counts by; 'loss': by its loss to the power of `fairness`",
       "Take 'equal' where small parties are to count as much as large ones, 'loss' where the "
       "parties with the highest loss are to count most (q-FedAvg)."},
      OnlyWith({"federation.weights", {"loss"}},
               {"fairness", RealNumber{&f.fairness, 0, 100, Bounds::kOpenBelow},
                As("federation.fairness_bits"), "q of q-FedAvg; only with weights 'loss'",
                "Raise it for losses that lie closer together."}),
      {"normalised", Flag{&f.normalised}, As("federation.normalised"),
       "whether updates are brought to the same number of inner steps first (FedNova)",
       "Switch it on where peers do different numbers of steps a round."},
      OnlyWith({"mode.kind", {"sync", "streaming", "eager", "auto"}},
               {"staleness", RealNumber{&f.staleness, 0, 100},
                UnlessDefault("federation.staleness_bits"),
                "lambda: an update that missed A entries counts 1 / (1 + lambda x A) of its "
                "weight; 'delayed' and 'async' have [mode] age_decay in its place",
                "Lower it to 0 where the slow peers have data that no other has."}),
  };
}

std::vector<ConfigField> PrivacyFields(Config& c) {
  PrivacyConfig& p = c.privacy;
  return {
      {"clip", RealNumber{&p.clip, 0, 1e9}, As("privacy.clip_bits"),
       "length to which a party's update is scaled down; 0: no differential privacy",
       "Set it near the median length of updates, which a trial run with `quantile = 0.5` finds. "
       "See "
       "privacy.md."},
      {"noise", RealNumber{&p.noise, 0, 1e6}, As("privacy.noise_bits", {"privacy.clip"}),
       "standard deviation of the noise in the sum of a full round, in lengths of `clip`",
       "Raise it for a smaller epsilon, at a higher loss."},
      {"quantile", RealNumber{&p.quantile, 0, 1, Bounds::kOpenAbove},
       As("privacy.quantile_bits", {"privacy.clip"}),
       "share of the updates that `clip` is to leave as they are; 0: `clip` is fixed",
       "Set it to 0.5 where the length of updates is not known beforehand."},
      {"place", OneOf(&p.place, {"party", "mean"}), As("privacy.place", {"privacy.clip"}),
       "where the noise is added: by each party to its own update, or by reducers to the mean",
       "'mean' is refused so far: an auditor could not tell the noise of a mean from a lie."},
      Follows("`[run] peers` times `[federation] participation`, and times the parties of a round "
              "that `[parties]` of the same file has; at least 1",
              {"parties", WholeNumber{&p.parties, 0, 1000 * kMost},
               As("privacy.parties", {"privacy.clip"}),
               "parties of a full round, whose noise together is `noise`",
               "Set it where peers host different numbers of parties."}),
      Follows(
          "the share of its parties that a peer asks in a round (`[parties] a_round` of "
          "`hosted`); 1 for peers that are one party",
          {"sampling", RealNumber{&p.sampling, 0, 1}, As("privacy.sampling_bits", {"privacy.clip"}),
           "largest share of a peer's parties in a round, as epsilon counts it",
           "Set it where peers that host many parties have no `[parties]` in this file. A peer "
           "that cannot keep it is refused."}),
      {"delta", RealNumber{&p.delta, 0, 1, Bounds::kOpen}, As("privacy.delta", {"privacy.clip"}),
       "delta of the reported epsilon", "Keep it well below one over the number of parties."},
      {"epsilon", RealNumber{&p.epsilon, 0, 1e6}, As("privacy.epsilon", {"privacy.clip"}),
       "the run ends before it spends more than this; 0: epsilon is only reported",
       "Set it to the budget that was promised."},
      {"masked", Flag{&p.masked}, As("privacy.masked"),
       "whether updates are masked, so that nobody sees one party's (secure aggregation)",
       "Switch it on where reducers must not see updates, and where there are 3 parties at least. "
       "It takes an update's values as 4 bytes each, whatever the codec. See privacy.md."},
      {"threshold", WholeNumber{&p.threshold, 0, 4096}, As("privacy.threshold", {"privacy.masked"}),
       "fewest contributors whose sum is unmasked; 0: more than two thirds of a round's",
       "Raise it where more of the parties may work together against one. A round to which fewer "
       "come waits for the others."},
      {"roster", WholeNumber{&p.roster, 0, 255}, Recorded::kYes,
       "fewest parties among which masks are shared; 0: more than half of a round's",
       "Masks protect against fewer than a third of these. Set it where the run will grow."},
      {"closed", Flag{&p.closed}, As("privacy.closed", {"privacy.masked"}),
       "whether only parties with keys in the `mask_keys` of every other one take part",
       "Switch it on where all parties are known beforehand. See privacy.md."},
  };
}

std::vector<ConfigField> PartiesFields(Config& c) {
  PartiesConfig& p = c.parties;
  return {
      {"hosted", WholeNumber{&p.hosted, 0, kMost}, Recorded::kNo,
       "parties that this peer imitates, one after the other; 0: it is one itself",
       "Set it, with private data, to try a federation of thousands on one machine."},
      {"first", WholeNumber{&p.first, 1, kMost}, Recorded::kNo,
       "the first of them, by the order of the names in `[data] path`",
       "Set it where several peers share one folder of parties."},
      {"a_round", WholeNumber{&p.a_round, 0, kMost}, Recorded::kNo,
       "how many of them train in a round, drawn anew each time; 0: all",
       "Set it to imitate a federation in which a few parties are asked at a time."},
      {"keep", Flag{&p.keep}, Recorded::kNo,
       "whether each keeps its optimiser's state on disk from round to round",
       "Switch it on where each takes part often. It takes two models' worth of disk a party."},
  };
}

std::vector<ConfigField> AvailabilityFields(Config& c) {
  AvailabilityConfig& a = c.availability;
  return {
      {"trace", Text{&a.trace, TextForm::kPath, true}, Recorded::kNo,
       "file of the times at which parties are there; empty: always",
       "Set it to imitate machines that come and go. See experiments.md."},
      {"party", Text{&a.party, TextForm::kPlain, true}, Recorded::kNo,
       "the party whose times count here; empty: by the number in the peer's id",
       "Set it to try one party of a trace."},
      {"speed", RealNumber{&a.speed, 0, 1e6, Bounds::kOpenBelow}, Recorded::kNo,
       "seconds of the trace in one real second", "Raise it to go through a day in minutes."},
      {"start", WholeNumber{&a.start, 0, uint64_t{1} << 33}, Recorded::kNo,
       "the time of its second 0, in seconds since 1970; 0: when the peer first follows it",
       "Set it to the same for all peers of an experiment, so that they share one clock."},
  };
}
std::vector<ConfigField> DecoderFields(DecoderShape& shape) {
  constexpr uint32_t kLongestContext = 1u << 24;  // as FaultOfDecoder says
  constexpr double kLargestFactor = 1e6;          // far above what anybody has tried
  constexpr Recorded kYes = Recorded::kYes;
  const std::string match = "Set it to match a published model; `atoll import` says how.";
  return {
      {"family", Text{&shape.family, TextForm::kOneOf, false, DecoderFamilyNames()}, kYes,
       "which relative of Llama a model of kind 'llama' is",
       "Set it to go on with a model of that family. See models.md."},
      {"head_width", WholeNumber{&shape.head_width, 0, 65536}, kYes,
       "values a head; even; 0: width / heads", match},
      {"attention_bias", Flag{&shape.attention_bias}, kYes,
       "whether the four matrices of attention have biases", match},
      {"window", WholeNumber{&shape.window, 0, kLongestContext}, kYes,
       "tokens that a local layer sees, its own among them; 0: no layer is local", match},
      {"layer_pattern", Text{&shape.layer_pattern, TextForm::kNames, true}, kYes,
       "a letter a layer, over and over: g sees all, l the window; n and m are the same without "
       "positions; empty: all alike",
       match},
      {"local_rope_theta", RealNumber{&shape.local_rope_theta, 0, 1e12}, kYes,
       "base of the rotary positions of gemma3's local layers; 0: 10000", match},
      {"query_scalar", WholeNumber{&shape.query_scalar, 0, 65536}, kYes,
       "gemma's scores are divided by its square root; 0: head_width", match},
      {"rope_scaling",
       Text{&shape.rope_scaling, TextForm::kOneOf, false, {"none", "linear", "llama3", "yarn"}},
       kYes, "how rotary positions were stretched to a longer context", match},
      {"rope_factor", RealNumber{&shape.rope_factor, 0, kLargestFactor}, kYes,
       "how many times longer the context has become", match},
      {"rope_low", RealNumber{&shape.rope_low, 0, kLargestFactor}, kYes,
       "llama3's low_freq_factor, yarn's beta_slow", match},
      {"rope_high", RealNumber{&shape.rope_high, 0, kLargestFactor}, kYes,
       "llama3's high_freq_factor, yarn's beta_fast", match},
      {"rope_context", WholeNumber{&shape.rope_context, 0, kLongestContext}, kYes,
       "tokens of the context before it was stretched; for llama3 and yarn", match},
      {"rope_attention", RealNumber{&shape.rope_attention, 0, kLargestFactor}, kYes,
       "yarn's attention_factor; 0: 0.1 ln(rope_factor) + 1", match},
      {"attention_cap", RealNumber{&shape.attention_cap, 0, kLargestFactor}, kYes,
       "bound of gemma2's attention scores; 0: none", match},
      {"logit_cap", RealNumber{&shape.logit_cap, 0, kLargestFactor}, kYes,
       "bound of gemma2's logits; 0: none", match},
      {"experts", WholeNumber{&shape.experts.count, 0, 1024}, kYes,
       "experts a layer, with the families mixtral, qwen3_moe and olmoe; 0: the model is dense",
       "Set it, with experts_per_token, to train a mixture of experts. See models.md."},
      {"experts_per_token", WholeNumber{&shape.experts.per_token, 0, 1024}, kYes,
       "experts that compute each token, at most `experts`",
       "Raise it for a better model at the cost of speed."},
      {"expert_hidden", WholeNumber{&shape.experts.hidden, 0, 1u << 20}, kYes,
       "width of one of qwen3_moe's experts; 0: `hidden`, the width of its dense layers", match},
      {"expert_pattern", Text{&shape.experts.pattern, TextForm::kNames, true}, kYes,
       "a letter a layer of qwen3_moe, over and over: e has experts, d is dense; empty: all e",
       match},
      {"experts_normalised", Flag{&shape.experts.normalised}, kYes,
       "whether the weights of a token's experts are scaled to sum 1; mixtral's always are", match},
      {"router_loss", RealNumber{&shape.experts.router_loss, 0, kLargestFactor}, kYes,
       "share of the loss of training that rises as experts are chosen unevenly; 0: none",
       "Set it, to 0.01 for example, where the model begins with random values: a few experts may "
       "otherwise get all tokens."},
      {"qkv_clip", RealNumber{&shape.qkv_clip, 0, kLargestFactor}, kYes,
       "bound of olmoe's queries, keys and values; 0: none", match},
  };
}

}  // namespace atolld
