// The rules for federations: parties and their data, differential privacy, and masks.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "daemon/config/config_rules.h"
#include "daemon/config/run_record.h"
#include "daemon/config/training_memory.h"
#include "daemon/config/worker_program.h"
#include "membership/history/run_files.h"
#include "membership/privacy/privacy_budget.h"

namespace atolld {
namespace {

// A peer that names none, or has a copy of the run's, gets it from the others.
ConfigFault FaultOfValidation(const Config& c, ConfigUse use, const std::string& folder) {
  const std::string& path = c.data.validation;
  if (path.empty() || (use != ConfigUse::kLocal && use != ConfigUse::kPeer)) return {};
  std::error_code error;
  if (std::filesystem::is_regular_file(std::filesystem::path(folder) / path, error)) return {};
  const std::filesystem::path kept =
      std::filesystem::path(folder) / c.peer.dir / kRunFilesFolder / kValidationRole;
  if (use == ConfigUse::kPeer && std::filesystem::is_directory(kept, error)) return {};
  return {{{"data", "validation"}},
          absl::StrCat("data.validation '", path, "' is not an existing file")};
}

ConfigFault FaultOfPrivateData(const Config& c) {
  if (!c.data.is_private) {
    if (!c.data.validation.empty()) {
      return {{{"data", "validation"}, {"data", "private"}},
              "[data] validation is for private = true; with common data the end of the text is "
              "held out, by validation_fraction"};
    }
    if (c.inner.epochs != 0) {
      return {
          {{"inner", "epochs"}, {"data", "private"}},
          absl::StrCat("[inner] epochs must be 0, not ", c.inner.epochs,
                       ", without [data] private = true: common data is leased by steps, and no "
                       "peer goes through it alone")};
    }
    return {};
  }
  if (c.data.tokenizer == kCharTokenizer) {
    return {{{"data", "tokenizer"}, {"data", "private"}},
            "[data] tokenizer must not be 'chars' with private data: each peer would have the "
            "alphabet of its own text; take 'bytes', or a file"};
  }
  if (!c.data.sources.empty()) {
    return {{{"data", "sources"}, {"data", "private"}},
            "[data] sources must be empty with private data, since nobody knows what it is made "
            "of; name one file or folder as path"};
  }
  if (c.inner.epochs != 0 && c.inner.pace != "fixed") {
    return {
        {{"inner", "pace"}, {"inner", "epochs"}},
        absl::StrCat("[inner] pace must be 'fixed' with epochs, which say how many steps a peer "
                     "does, not '",
                     c.inner.pace, "'")};
  }
  return {};
}

// A rule that withstands lying peers needs a number of updates, whichever peers are drawn.
ConfigFault FaultOfDraws(const Config& c) {
  const FederationConfig& f = c.federation;
  const absl::StatusOr<AggregationRule> rule = AggregationOf(c);
  if (!rule.ok() || c.exchange.aggregation == "mean") return {};
  if (f.drop > 0) {
    return {{{"federation", "drop"}, {"exchange", "aggregation"}},
            absl::StrCat("[federation] drop must be 0 with aggregation '", c.exchange.aggregation,
                         "', which needs ", rule->LeastContributors(),
                         " updates in every round, not ", f.drop)};
  }
  const uint32_t quorum = c.run.quorum == 0 ? c.run.peers / 2 + 1 : c.run.quorum;
  const double drawn = std::ceil(f.participation * quorum - 1e-6);
  if (drawn >= static_cast<double>(rule->LeastContributors())) return {};
  return {{{"federation", "participation"}, {"exchange", "aggregation"}},
          absl::StrCat("[federation] participation ", f.participation, " of a quorum of ", quorum,
                       " leaves ", drawn, " updates, and aggregation '", c.exchange.aggregation,
                       "' needs ", rule->LeastContributors())};
}

}  // namespace

ConfigFault FaultOfFederation(const Config& config, ConfigUse use, const std::string& folder) {
  ConfigFault fault = FaultOfValidation(config, use, folder);
  // The coordinator tells a peer the rest.
  if (!fault.what.empty() || use == ConfigUse::kPeer || use == ConfigUse::kAny) return fault;
  fault = FaultOfPrivateData(config);
  return fault.what.empty() ? FaultOfDraws(config) : fault;
}

namespace {

constexpr uint64_t kMostPartyNumber = 1'000'000;  // as config_table.cc has it for `first`

// Checks for keys of [parties] that have no effect without `hosted`.
ConfigFault UnhostedFault(const PartiesConfig& parties) {
  const char* key = parties.a_round != 0 ? "a_round"
                    : parties.keep       ? "keep"
                    : parties.first != 1 ? "first"
                                         : nullptr;
  if (key == nullptr) return {};
  return {{{"parties", key}, {"parties", "hosted"}},
          absl::StrCat("[parties] ", key,
                       " is for a peer that hosts parties; set [parties] hosted, or leave it out")};
}

}  // namespace

ConfigFault FaultOfHosted(const Config& config, ConfigUse use) {
  const PartiesConfig& parties = config.parties;
  if (parties.hosted == 0) return UnhostedFault(parties);
  if (use != ConfigUse::kPeer && !config.data.is_private) {  // a peer is told by its run
    return {{{"parties", "hosted"}, {"data", "private"}},
            "[parties] hosted needs [data] private = true: a party has data of its own, and a "
            "run's common data is leased to peers"};
  }
  if (use == ConfigUse::kPeer && config.peer.role == kAggregatorRoleName) {
    return {{{"parties", "hosted"}, {"peer", "role"}},
            "[parties] hosted must be 0 with role 'aggregator', which trains nothing"};
  }
  if (config.model.kind == kExternalKind) {
    return {{{"parties", "hosted"}, {"model", "kind"}},
            "[parties] hosted must be 0 with kind 'external': a worker of your own trains one "
            "party; start a peer for each"};
  }
  if (config.model.kind == kHuggingFaceKind) {
    return {{{"parties", "hosted"}, {"model", "kind"}},
            "[parties] hosted must be 0 with kind 'huggingface': atoll-hf-worker trains one "
            "party; start a peer for each"};
  }
  if (parties.a_round > parties.hosted) {
    return {{{"parties", "a_round"}, {"parties", "hosted"}},
            absl::StrCat("[parties] a_round must be at most hosted (", parties.hosted, "), not ",
                         parties.a_round)};
  }
  const uint64_t last = uint64_t{parties.first} + parties.hosted - 1;
  if (last > kMostPartyNumber) {
    return {{{"parties", "first"}, {"parties", "hosted"}},
            absl::StrCat("[parties] first and hosted lead to party ", last, "; the highest is ",
                         kMostPartyNumber)};
  }
  return {};
}

ConfigFault FaultOfControl(const Config& config) {
  const InnerConfig& inner = config.inner;
  if (!inner.control_variates) return {};
  const auto needs = [](const char* section, const char* key, const std::string& what) {
    return ConfigFault{{{section, key}, {"inner", "control_variates"}},
                       absl::StrCat("[inner] control_variates needs ", what)};
  };
  if (!config.data.is_private) {
    return needs("data", "private", "[data] private = true: it is for parties whose data differ");
  }
  if (inner.optimizer != "sgd") {
    return needs("inner", "optimizer",
                 "optimizer 'sgd': only there is what a party moved by its rate times the sum of "
                 "its gradients");
  }
  if (inner.schedule != "constant" || inner.warmup_steps != 0) {
    return needs("inner", inner.schedule != "constant" ? "schedule" : "warmup_steps",
                 "schedule 'constant' and warmup_steps 0: variates are gradients, which updates "
                 "are divided by one rate for");
  }
  if (inner.pace != "fixed") {
    return needs("inner", "pace",
                 "pace 'fixed': all updates are divided by the same number of steps");
  }
  if (inner.epochs != 0 && !config.federation.normalised) {
    return needs("inner", "epochs",
                 "epochs 0, or [federation] normalised: all updates are divided by the same "
                 "number of steps");
  }
  if (config.exchange.aggregation != "mean") {
    return needs("exchange", "aggregation",
                 "aggregation 'mean': the common variate is the mean of the parties' own");
  }
  if (config.exchange.error_feedback) {
    return needs("exchange", "error_feedback",
                 "error_feedback off: with it an entry carries what older updates have lost, and "
                 "the common variate is made of the entry");
  }
  if (config.parties.hosted > 0 && !config.parties.keep) {
    return needs("parties", "keep", "[parties] keep = true: each party keeps a variate of its own");
  }
  return {};
}

ConfigFault FaultOfSlower(const Config& config) {
  if (config.worker.slower == 1 || CanBeSlower(config.model.kind)) return {};
  return {{{"worker", "slower"}, {"model", "kind"}},
          absl::StrCat("[worker] slower must be 1 with kind '", config.model.kind,
                       "': only atoll-worker and the stub can play a slower machine")};
}

ConfigFault FaultOfMemory(const Config& config) {
  if (config.worker.memory == 0) return {};
  v1::ModelSpec model;
  model.set_kind(config.model.kind);
  model.set_heads(1);  // any
  if (!KnowsTrainingMemory(model, "cpu")) {
    return {{{"worker", "memory"}, {"model", "kind"}},
            absl::StrCat("[worker] memory must be 0 with kind '", config.model.kind,
                         "': what training needs is known of the kinds gpt, gpt2 and llama")};
  }
  if (KnowsTrainingMemory(model, config.worker.device)) return {};
  return {{{"worker", "memory"}, {"worker", "device"}},
          absl::StrCat("[worker] memory must be 0 with device '", config.worker.device,
                       "': it limits training on CPUs")};
}

namespace {

// A combination that is refused if `broken` is true.
struct PrivacyRule {
  bool broken;
  const char* section;
  const char* key;
  std::string what;  // follows the key's name: "must be 0 ..."
};

// `other` is the key of [privacy] that the rules come from.
ConfigFault FirstBroken(const std::vector<PrivacyRule>& rules, const char* other) {
  for (const PrivacyRule& rule : rules) {
    if (!rule.broken) continue;
    return {{{rule.section, rule.key}, {"privacy", other}},
            absl::StrCat("[", rule.section, "] ", rule.key, " ", rule.what)};
  }
  return {};
}

// Returns "must be RIGHT with [privacy] clip: WHY".
std::string WithClip(const std::string& right, const std::string& why) {
  return absl::StrCat("must be ", right, " with [privacy] clip", why.empty() ? "" : ": ", why);
}

// Without a clip none of these keys has a meaning.
std::vector<PrivacyRule> OfNoClip(const Config& c) {
  const PrivacyConfig& p = c.privacy;
  const std::string needs =
      "needs [privacy] clip above 0: without a bound on an update's length no noise hides it";
  return {{p.noise > 0, "privacy", "noise", needs},
          {p.quantile > 0, "privacy", "quantile", needs},
          {p.epsilon > 0, "privacy", "epsilon", needs}};
}

// Returns how often each party of a peer is in a round, if this file says so. For a peer that is
// one party nothing is drawn that others do not see, so it returns 0.
double Rate(const Config& c) {
  if (c.parties.hosted == 0) return 0;
  const uint32_t asked = c.parties.a_round == 0 ? c.parties.hosted : c.parties.a_round;
  // As the run records it.
  const double rate = static_cast<double>(asked) / c.parties.hosted;
  return double{static_cast<float>(rate)} - 1e-6;
}

// The rules about what a clip needs beside it.
std::vector<PrivacyRule> OfNoise(const Config& c) {
  const PrivacyConfig& p = c.privacy;
  return {
      {p.noise == 0, "privacy", "noise",
       "must be above 0 with [privacy] clip: a clip alone hides nothing"},
      {p.place != "party", "privacy", "place",
       "must be 'party': peers that audit or vote on a mean recompute it, and could not tell a "
       "reducer's noise from a lie"},
      {p.parties == 0, "privacy", "parties", WithClip("above 0", "")},
      {p.sampling == 0, "privacy", "sampling", WithClip("above 0", "")},
      {p.sampling < Rate(c), "privacy", "sampling",
       absl::StrFormat("must be at least %.4g, the share of its parties that a peer asks in a "
                       "round ([parties] a_round), not %g",
                       Rate(c), p.sampling)},
      {p.delta * p.parties >= 1, "privacy", "delta",
       absl::StrFormat(
           "must be below one over the number of parties, %.4g with %d of them in a "
           "round, not %g: a larger delta would allow all of one party's data to be revealed",
           1.0 / p.parties, p.parties, p.delta)},
      {p.quantile > 0 && p.parties <= 10 * p.noise, "privacy", "quantile",
       absl::StrFormat("needs more than 10 x noise parties in a round, above %g, not %d: with "
                       "fewer, the noise cannot also hide the count of short updates",
                       10 * p.noise, p.parties)},
  };
}

// The rules against settings that would let a party change the mean by more than its clip.
std::vector<PrivacyRule> OfSensitivity(const Config& c) {
  return {
      {!c.data.is_private && c.model.kind != kStubKind, "data", "private",
       WithClip("true",
                "a party's data is what is protected, and shared data belongs to no party")},
      {c.exchange.error_feedback, "exchange", "error_feedback",
       WithClip("false",
                "what one update left out would come back in later ones, beyond their "
                "clip")},
      {c.exchange.aggregation != "mean", "exchange", "aggregation",
       WithClip("'mean'", absl::StrCat("with '", c.exchange.aggregation,
                                       "' it is not known how far one update can move the mean"))},
      {c.exchange.clip != 0, "exchange", "clip",
       WithClip("0",
                "updates have one length already, and scaling some of them down would take "
                "noise away from the others")},
      {c.federation.weights != "equal", "federation", "weights",
       WithClip("'equal'", absl::StrCat("with '", c.federation.weights,
                                        "' a party's weight reveals something of its data, and a "
                                        "heavy one's update is hidden less"))},
      {c.federation.normalised, "federation", "normalised",
       WithClip("false", "it makes some updates longer than the clip")},
      {c.inner.control_variates, "inner", "control_variates",
       WithClip("false", "control variates are sent without noise")},
  };
}

// A budget that not even the first round may spend would seal the run at version 0.
PrivacyRule OfBudget(const Config& c) {
  PrivacyRule rule = {false, "privacy", "epsilon", ""};
  if (c.privacy.epsilon == 0) return rule;
  const uint32_t quorum = c.run.quorum == 0 ? c.run.peers / 2 + 1 : c.run.quorum;
  const PrivacyTerms terms = PrivacyTermsOf(MakeRunSpec(c).privacy());
  const double drawn = std::ceil(c.federation.participation * quorum - 1e-6);
  const uint32_t fewest = c.federation.drop > 0 ? 1 : static_cast<uint32_t>(drawn);
  const double first =
      PrivacyAccountant().EpsilonAfter(terms.sampling, terms.NoiseOf(fewest), 1, terms.delta);
  rule.broken = first > c.privacy.epsilon;
  rule.what = absl::StrFormat(
      "must be at least %.3g, what one round with only %d updates (a quorum of %d) spends at noise "
      "= %g and delta = %g, not %g",
      first, fewest, quorum, c.privacy.noise, c.privacy.delta, c.privacy.epsilon);
  return rule;
}

}  // namespace

ConfigFault FaultOfPrivacy(const Config& config) {
  if (config.privacy.clip == 0) return FirstBroken(OfNoClip(config), "clip");
  ConfigFault fault = FirstBroken(OfNoise(config), "clip");
  if (fault.what.empty()) fault = FirstBroken(OfSensitivity(config), "clip");
  return fault.what.empty() ? FirstBroken({OfBudget(config)}, "clip") : fault;
}

// -----------------------------------------------------------------------------------------------

namespace {

// With two parties, each knows the other's update from the sum and its own; places of shares are
// bytes.
constexpr uint32_t kFewestMasked = 3;
constexpr uint32_t kMostMasked = 255;

std::string WithMasks(const std::string& right, const std::string& why) {
  return absl::StrCat("must be ", right, " with [privacy] masked = true: ", why);
}

// Returns the fewest updates in a sum.
uint32_t Fewest(const Config& config) { return std::max(kFewestMasked, config.privacy.threshold); }

std::vector<PrivacyRule> OfTheExchange(const Config& c) {
  const Config::Exchange& e = c.exchange;
  const bool sparse = absl::StartsWith(e.codec, "topk") || absl::StartsWith(e.codec, "int2");
  return {
      {e.aggregation != "mean", "exchange", "aggregation",
       WithMasks("'mean'", "a robust rule compares single updates, and nobody sees one")},
      {e.clip != 0, "exchange", "clip",
       WithMasks(
           "0",
           "an update is cut to a length where its length is seen; [privacy] clip cuts at the "
           "party")},
      {c.membership.outsized != 0, "membership", "outsized",
       WithMasks("0", "nobody sees how long an update is")},
      {e.audit_share != 0, "exchange", "audit_share",
       WithMasks("0", "an audit hands single updates on to those who recompute a mean")},
      {c.membership.weight_cap != 0, "membership", "weight_cap",
       WithMasks("0",
                 "a party multiplies its weight in before it masks, and the cap is known after")},
      {sparse, "exchange", "codec",
       WithMasks("one of every value",
                 absl::StrCat("'", e.codec, "' leaves values out, and masks cover all of them"))},
      {e.error_feedback, "exchange", "error_feedback",
       WithMasks("false", "ring codes are fine enough that nothing worth keeping is left over")},
  };
}

std::vector<PrivacyRule> OfTheFederation(const Config& c) {
  const uint32_t peers = c.run.peers;
  const PrivacyConfig& p = c.privacy;
  return {
      {peers < kFewestMasked || peers > kMostMasked, "run", "peers",
       WithMasks(absl::StrCat(kFewestMasked, " to ", kMostMasked),
                 "with two peers, each knows the other's update from the sum; a share's place is a "
                 "byte")},
      {p.threshold > peers, "privacy", "threshold",
       absl::StrCat("must be at most [run] peers (", peers, "), not ", p.threshold,
                    ": no sum would ever be unmasked")},
      {p.roster != 0 && p.roster < kFewestMasked, "privacy", "roster",
       absl::StrCat("must be 0 or at least ", kFewestMasked, ", not ", p.roster,
                    ": with two parties, each knows the other's update from the sum")},
      {p.roster > DrawnPeers(c), "privacy", "roster",
       absl::StrCat("must be at most the ", DrawnPeers(c), " of the ", peers,
                    " peers that are drawn for a round, not ", p.roster,
                    ": masks would be shared among too few in every round")},
      {c.federation.weights == "loss", "federation", "weights",
       WithMasks("'tokens', 'samples' or 'equal'",
                 "a power of the loss has no bound that is known before, and the ring needs one")},
      {c.federation.normalised, "federation", "normalised",
       WithMasks("false",
                 "the factor of an update is known only after all updates are there, and its party "
                 "has masked it by then")},
      {c.federation.drop != 0, "federation", "drop",
       WithMasks(
           "0",
           "which updates are dropped is drawn for each round, and may leave fewer than a sum "
           "has, however long it waits")},
      {DrawnPeers(c) < Fewest(c), "federation", "participation",
       absl::StrCat("must be such that at least ", Fewest(c), " of the ", peers,
                    " peers are drawn, not ", DrawnPeers(c), ": a masked sum needs that many")},
      {p.clip != 0 && p.place != "party", "privacy", "place",
       WithMasks("'party'",
                 "all unmask the same sum, so noise that is added to it is known to all")},
      {p.quantile != 0, "privacy", "quantile",
       WithMasks("0", "whether an update is longer than the clip would be told of each party")},
      {c.inner.control_variates, "inner", "control_variates",
       WithMasks("false", "they would travel beside the update, and tell what its mask hides")},
  };
}

}  // namespace

ConfigFault FaultOfMasks(const Config& config) {
  if (!config.privacy.masked) {
    return FirstBroken({{config.privacy.closed, "privacy", "closed",
                         "needs masked = true: it says which parties share masks"}},
                       "masked");
  }
  ConfigFault fault = FirstBroken(OfTheExchange(config), "masked");
  return fault.what.empty() ? FirstBroken(OfTheFederation(config), "masked") : fault;
}

}  // namespace atolld
