#include "daemon/config/masked_rules.h"

#include <algorithm>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/config/run_record.h"

namespace atolld {
namespace {

// With two parties, each knows the other's update from the sum and its own; places of shares are
// bytes.
constexpr uint32_t kFewestMasked = 3;
constexpr uint32_t kMostMasked = 255;

struct MaskedRule {
  bool broken;
  const char* section;
  const char* key;
  std::string what;
};

std::string Wanted(const std::string& key, const std::string& right, const std::string& why) {
  return absl::StrCat(key, " must be ", right, " with [privacy] masked = true: ", why);
}

// Returns the fewest updates in a sum.
uint32_t Fewest(const Config& config) { return std::max(kFewestMasked, config.privacy.threshold); }

std::vector<MaskedRule> OfTheExchange(const Config& c) {
  const Config::Exchange& e = c.exchange;
  const bool sparse = absl::StartsWith(e.codec, "topk") || absl::StartsWith(e.codec, "int2");
  return {
      {e.aggregation != "mean", "exchange", "aggregation",
       Wanted("[exchange] aggregation", "'mean'",
              "a robust rule compares single updates, and nobody sees one")},
      {e.clip != 0, "exchange", "clip",
       Wanted("[exchange] clip", "0",
              "an update is cut to a length where its length is seen; [privacy] clip cuts at the "
              "party")},
      {c.membership.outsized != 0, "membership", "outsized",
       Wanted("[membership] outsized", "0", "nobody sees how long an update is")},
      {e.audit_share != 0, "exchange", "audit_share",
       Wanted("[exchange] audit_share", "0",
              "an audit hands single updates on to those who recompute a mean")},
      {c.membership.weight_cap != 0, "membership", "weight_cap",
       Wanted("[membership] weight_cap", "0",
              "a party multiplies its weight in before it masks, and the cap is known after")},
      {sparse, "exchange", "codec",
       Wanted("[exchange] codec", "one of every value",
              absl::StrCat("'", e.codec, "' leaves values out, and masks cover all of them"))},
      {e.error_feedback, "exchange", "error_feedback",
       Wanted("[exchange] error_feedback", "false",
              "ring codes are fine enough that nothing worth keeping is left over")},
  };
}

std::vector<MaskedRule> OfTheFederation(const Config& c) {
  const uint32_t peers = c.run.peers;
  const PrivacyConfig& p = c.privacy;
  return {
      {peers < kFewestMasked || peers > kMostMasked, "run", "peers",
       Wanted("[run] peers", absl::StrCat(kFewestMasked, " to ", kMostMasked),
              "with two peers, each knows the other's update from the sum; a share's place is a "
              "byte")},
      {p.threshold > peers, "privacy", "threshold",
       absl::StrCat("[privacy] threshold must be at most [run] peers (", peers, "), not ",
                    p.threshold, ": no sum would ever be unmasked")},
      {p.roster != 0 && p.roster < kFewestMasked, "privacy", "roster",
       absl::StrCat("[privacy] roster must be 0 or at least ", kFewestMasked, ", not ", p.roster,
                    ": with two parties, each knows the other's update from the sum")},
      {p.roster > DrawnPeers(c), "privacy", "roster",
       absl::StrCat("[privacy] roster must be at most the ", DrawnPeers(c), " of the ", peers,
                    " peers that are drawn for a round, not ", p.roster,
                    ": masks would be shared among too few in every round")},
      {c.federation.weights == "loss", "federation", "weights",
       Wanted("[federation] weights", "'tokens', 'samples' or 'equal'",
              "a power of the loss has no bound that is known before, and the ring needs one")},
      {c.federation.normalised, "federation", "normalised",
       Wanted("[federation] normalised", "false",
              "the factor of an update is known only after all updates are there, and its party "
              "has masked it by then")},
      {c.federation.drop != 0, "federation", "drop",
       Wanted("[federation] drop", "0",
              "which updates are dropped is drawn for each round, and may leave fewer than a sum "
              "has, however long it waits")},
      {DrawnPeers(c) < Fewest(c), "federation", "participation",
       absl::StrCat("[federation] participation must be such that at least ", Fewest(c), " of the ",
                    peers, " peers are drawn, not ", DrawnPeers(c),
                    ": a masked sum needs that many")},
      {p.clip != 0 && p.place != "party", "privacy", "place",
       Wanted("[privacy] place", "'party'",
              "all unmask the same sum, so noise that is added to it is known to all")},
      {p.quantile != 0, "privacy", "quantile",
       Wanted("[privacy] quantile", "0",
              "whether an update is longer than the clip would be told of each party")},
      {c.inner.control_variates, "inner", "control_variates",
       Wanted("[inner] control_variates", "false",
              "they would travel beside the update, and tell what its mask hides")},
  };
}

}  // namespace

MaskedFault MaskedFaultOf(const Config& config) {
  if (!config.privacy.masked && config.privacy.closed) {
    return {"privacy", "closed",
            "[privacy] closed needs masked = true: it says which parties share masks"};
  }
  if (!config.privacy.masked) return {};
  std::vector<MaskedRule> rules = OfTheExchange(config);
  for (MaskedRule& rule : OfTheFederation(config)) rules.push_back(std::move(rule));
  for (const MaskedRule& rule : rules) {
    if (rule.broken) return {rule.section, rule.key, rule.what};
  }
  return {};
}

}  // namespace atolld
