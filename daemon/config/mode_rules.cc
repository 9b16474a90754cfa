// The rules between [mode] and the other keys of a run.
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "compression/base/words.h"
#include "daemon/config/config_rules.h"
#include "optimizer/outer_rule.h"

namespace atolld {
namespace {

// The fault of a key that [mode] kind may be at odds with.
ConfigFault BesideKind(const char* section, const char* key, std::string what) {
  return {{{section, key}, {"mode", "kind"}}, std::move(what)};
}

// Checks the keys of one rule, and the keys that need a rule.
ConfigFault FaultOfRule(const Config& c) {
  const std::string& rule = c.outer.rule;
  if (c.mode.momentum_clip != 0 && !HasMomentum(rule)) {
    return BesideKind(
        "mode", "momentum_clip",
        absl::StrCat("[mode] momentum_clip needs an outer rule with momentum ('nesterov', "
                     "'momentum', 'delayed_nesterov'), not '",
                     rule, "'"));
  }
  if (c.mode.kind == "delayed" && c.mode.age_cutoff == 1) {
    return BesideKind(
        "mode", "age_cutoff",
        "[mode] age_cutoff must be 0 or at least 2 with kind 'delayed': whatever is trained "
        "ahead has missed one entry, so from 1 on none of it would count");
  }
  if (rule == "cgad" && c.mode.age_decay == 0 && c.mode.age_cutoff == 0) {
    return BesideKind(
        "outer", "rule",
        "[outer] rule 'cgad' needs [mode] age_decay or age_cutoff, which are for kinds "
        "'delayed' and 'async': without them it is 'adam'");
  }
  return {};
}

// Rounds of "async" consist of the peers that arrive, so rules that depend on who is in a round are
// excluded.
ConfigFault FaultOfAsync(const Config& c) {
  if (c.mode.kind != "async") return {};
  const auto fault = [](const char* section, const char* key, const std::string& why) {
    return BesideKind(section, key,
                      absl::StrCat("[", section, "] ", key, " and [mode] kind 'async': ", why));
  };
  if (c.privacy.masked) {
    return fault(
        "privacy", "masked",
        "masks can be removed only from a sum of several updates, and an entry may have just one");
  }
  if (c.privacy.clip != 0) {
    return fault("privacy", "clip",
                 "the budget counts how often a party is in a round, and a fast one is in more of "
                 "them than a slow one");
  }
  if (c.inner.control_variates) {
    return fault("inner", "control_variates",
                 "a party's variate is made with the common one of the state that it began from, "
                 "and that one has moved meanwhile");
  }
  if (c.federation.participation != 1 || c.federation.drop != 0) {
    return fault("federation", c.federation.drop != 0 ? "drop" : "participation",
                 "an entry takes the updates that come, and no peers are drawn for it");
  }
  const absl::StatusOr<AggregationRule> rule = AggregationOf(c);
  const size_t least = rule.ok() ? rule->LeastContributors() : 1;
  if (least > c.run.quorum && least > 1) {
    return fault("exchange", "aggregation",
                 absl::StrCat("'", c.exchange.aggregation, "' needs ", least,
                              " updates in each entry; with [run] quorum = ", least,
                              " an entry waits for that many"));
  }
  return {};
}

// Checks for keys that have no meaning for an entry that covers only some of the values.
// CheckFragments refuses the same for a run whose config was not checked.
ConfigFault FaultOfFragments(const Config& c) {
  if (c.mode.kind != "streaming" || c.mode.fragments <= 1) return {};
  const auto must = [&](absl::string_view key, absl::string_view right, absl::string_view why) {
    return BesideKind("mode", "fragments",
                      absl::StrCat(key, " must be ", right,
                                   " with [mode] fragments = ", c.mode.fragments, ": ", why));
  };
  if (c.run.rounds < c.mode.fragments) {
    return must("[run] rounds", absl::StrCat("at least ", c.mode.fragments),
                "a fragment that is never exchanged stays as it was in version 0");
  }
  const absl::StatusOr<AggregationRule> rule = AggregationOf(c);
  if (rule.ok() && rule->has_centre()) {
    return must("[exchange] aggregation", "a rule without a centre",
                absl::StrCat("'", c.exchange.aggregation,
                             "' measures updates from the mean of the entry before, which covers "
                             "other values"));
  }
  if (c.outer.rule == "delayed_nesterov") {
    return must("[outer] rule", "another than 'delayed_nesterov'",
                "its momentum moves as soon as [outer] buffer updates have been gathered, and here "
                "the updates of one entry are of other values than those of the next");
  }
  if (c.inner.control_variates) {
    return must("[inner] control_variates", "false",
                "the common variate is made of the mean of all values in every round");
  }
  if (c.privacy.masked) {
    return must("[privacy] masked", "false",
                "the steps of masked values follow from the mean of the entry before, which covers "
                "other values");
  }
  if (c.privacy.clip != 0) {
    return must("[privacy] clip", "0",
                "a party's update is cut to one length over all values, and its budget is counted "
                "by whole updates");
  }
  return {};
}

// Checks for keys that cannot work with a training that begins before the previous entry exists, or
// that continues from a worker's own parameters.
ConfigFault GoesOnFault(const Config& config) {
  const std::string& kind = config.mode.kind;
  if (kind != "streaming" && kind != "eager" && kind != "delayed") return {};
  struct Without {
    bool broken;
    const char* what;
  };
  const FederationConfig& federation = config.federation;
  for (const Without& one : std::vector<Without>{
           {config.inner.control_variates,
            "[inner] control_variates = false: a party's own variate moves when an entry has taken "
            "its update, and the next training has begun by then"},
           {config.privacy.masked,
            "[privacy] masked = false: a party masks an update for one attempt after another, and "
            "this one is of a training that must not wait for them"},
           {federation.participation != 1 || federation.drop != 0,
            "[federation] participation = 1 and drop = 0: who takes part in a round is drawn when "
            "the entry before it is committed, and peers train for it by then"},
           {config.parties.hosted != 0,
            "[parties] hosted = 0: virtual parties take turns on one worker, which goes on from "
            "its own last round"}}) {
    if (one.broken)
      return BesideKind("mode", "kind", absl::StrCat("[mode] kind '", kind, "' needs ", one.what));
  }
  return {};
}

}  // namespace

ConfigFault FaultOfMode(const Config& config) {
  const ModeConfig& m = config.mode;
  if (m.kind == "streaming" && m.overlap > config.inner.steps) {
    return BesideKind(
        "mode", "overlap",
        absl::StrCat("[mode] overlap ", m.overlap, " is above [inner] steps, ", config.inner.steps,
                     ": an entry is merged before the next round ends"));
  }
  if (m.kind == "streaming" && m.fragments <= 1 && m.merge == 0 && m.overlap > 0 &&
      m.overlap == config.inner.steps) {
    return BesideKind(
        "mode", "merge",
        absl::StrCat("[mode] merge = 0 with one fragment and an overlap of the whole round, ",
                     Counted(m.overlap, "step"),
                     ", would drop all that a peer has learnt in a round just before it hands over "
                     "its update: take three fragments or more, an overlap below [inner] steps, or "
                     "a merge of 0.5"));
  }
  for (const ConfigFault& fault :
       {FaultOfRule(config), FaultOfAsync(config), FaultOfFragments(config), GoesOnFault(config)}) {
    if (!fault.what.empty()) return fault;
  }
  return {};
}

}  // namespace atolld
