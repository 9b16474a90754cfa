#include "daemon/config/exchange_rules.h"

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compression/wire_codec.h"
#include "optimizer/aggregation_rule.h"

namespace atolld {
namespace {

// Checks what an aggregation rule needs from the run.
ExchangeFault AggregationFaultOf(const Config& c) {
  const std::string& rule = c.exchange.aggregation;
  AggregationSettings settings;
  settings.rule = rule;
  settings.faulty = c.exchange.faulty;
  const absl::StatusOr<AggregationRule> made = AggregationRule::Make(settings);
  if (!made.ok()) {
    return {{{"exchange", "faulty"}, {"exchange", "aggregation"}},
            absl::StrCat("[exchange] aggregation: ", made.status().message())};
  }
  if (made->has_centre() && c.exchange.clip == 0) {
    return {{{"exchange", "clip"}, {"exchange", "aggregation"}},
            absl::StrCat("[exchange] clip must be above 0 with aggregation '", rule,
                         "', which is the mean without")};
  }
  if (rule != "mean" && c.exchange.plan == "regions") {
    return {{{"exchange", "plan"}, {"exchange", "aggregation"}},
            absl::StrCat("[exchange] plan must be 'flat' or 'auto' with aggregation '", rule,
                         "': what a region has averaged cannot be judged")};
  }
  const size_t least = made->LeastContributors();
  const bool all = c.run.quorum == 0;
  if ((all ? c.run.peers : c.run.quorum) < least) {
    return {{{"run", all ? "peers" : "quorum"}, {"exchange", "aggregation"}},
            absl::StrCat("[run] ", all ? "peers" : "quorum", " must be at least ", least,
                         " with aggregation '", rule, "' and faulty = ", c.exchange.faulty,
                         ", not ", all ? c.run.peers : c.run.quorum)};
  }
  if (c.membership.outsized > 0 && c.membership.outsized <= 1) {
    return {
        {{"membership", "outsized"}},
        absl::StrCat("[membership] outsized must be 0 or above 1, not ", c.membership.outsized)};
  }
  if (c.membership.offences > c.membership.offence_rounds) {
    return {{{"membership", "offences"}, {"membership", "offence_rounds"}},
            absl::StrCat("[membership] offences must be at most offence_rounds (",
                         c.membership.offence_rounds, "), not ", c.membership.offences)};
  }
  return {};
}

ExchangeFault SlowCodecFaultOf(const Config& c, const LevelCodecs& codecs) {
  const std::string& slow = c.exchange.slow_codec;
  if (slow.empty()) return {};
  if (absl::EndsWith(slow, "+zstd") && !codecs.updates.zstd) {
    return {{{"exchange", "slow_codec"}, {"exchange", "codec"}},
            absl::StrCat("[exchange] slow_codec must be a codec without '+zstd' beside codec '",
                         c.exchange.codec, "', not '", slow,
                         "': updates are compressed once more by all or by nobody")};
  }
  if (c.privacy.masked) {
    return {{{"exchange", "slow_codec"}, {"privacy", "masked"}},
            "[exchange] slow_codec must be empty with [privacy] masked = true: what is sent then "
            "are sums of ring elements, which have one form"};
  }
  const absl::Status fits = CheckSlowCodec(codecs, *ParseCodecName(slow)->codec);
  if (fits.ok()) return {};
  return {{{"exchange", "slow_codec"}, {"exchange", "codec"}},
          absl::StrCat("[exchange] slow_codec: ", fits.message())};
}

}  // namespace

ExchangeFault ExchangeFaultOf(const Config& c) {
  const absl::StatusOr<LevelCodecs> codecs = ParseLevels(c.exchange.codec, c.exchange.upper_codec);
  if (!codecs.ok()) {
    return {{{"exchange", "upper_codec"}, {"exchange", "codec"}},
            absl::StrCat("[exchange] upper_codec: ", codecs.status().message())};
  }
  const ExchangeFault slow = SlowCodecFaultOf(c, *codecs);
  if (!slow.what.empty()) return slow;
  const ExchangeFault aggregation = AggregationFaultOf(c);
  if (!aggregation.what.empty()) return aggregation;
  if (c.exchange.rounding == "nearest" || codecs->updates.codec->has_stochastic_rounding() ||
      codecs->means.codec->has_stochastic_rounding()) {
    return {};
  }
  return {{{"exchange", "rounding"}, {"exchange", "codec"}},
          absl::StrCat("[exchange] rounding must be 'nearest' with codec '", codecs->name(),
                       "', which has no other, not '", c.exchange.rounding, "'")};
}

}  // namespace atolld
