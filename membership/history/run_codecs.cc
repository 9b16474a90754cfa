#include "membership/history/run_codecs.h"

#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "compression/base/check.h"
#include "compression/base/status_macros.h"
#include "compression/either_codec.h"
#include "compression/ring_sum_codec.h"

namespace atolld {
namespace {

double EncodedBytes(uint64_t values, uint32_t chunk_elements, const Codec& codec) {
  const uint64_t rest = values % chunk_elements;
  return static_cast<double>(values / chunk_elements) *
             static_cast<double>(codec.MaxEncodedBytes(chunk_elements)) +
         (rest > 0 ? static_cast<double>(codec.MaxEncodedBytes(rest)) : 0);
}

}  // namespace

absl::StatusOr<LevelCodecs> CodecsOf(const v1::ExchangeSpec& exchange) {
  ASSIGN_OR_RETURN(const Codec* const updates, FindCodec(exchange.codec()));
  LevelCodecs codecs{{updates, exchange.zstd()}, {updates, exchange.zstd()}};
  if (!exchange.upper_codec().empty()) {
    ASSIGN_OR_RETURN(const Codec* const means, FindCodec(exchange.upper_codec()));
    RETURN_IF_ERROR(CheckLevels(*updates, *means));
    codecs.means = {means, exchange.upper_zstd()};
  }
  if (exchange.slow_codec().empty()) return codecs;
  ASSIGN_OR_RETURN(const Codec* const slow, FindCodec(exchange.slow_codec()));
  return WithSlowCodec(codecs, *slow);
}

absl::StatusOr<const Codec*> EncoderOf(const v1::ExchangeSpec& exchange, bool slow) {
  ASSIGN_OR_RETURN(const Codec* const updates, FindCodec(exchange.codec()));
  if (exchange.slow_codec().empty()) return updates;
  ASSIGN_OR_RETURN(const Codec* const other, FindCodec(exchange.slow_codec()));
  return &FindEitherCodec(*updates, *other, slow);
}

absl::StatusOr<LevelCodecs> CarriedCodecsOf(const v1::RunSpec& spec) {
  if (!spec.privacy().masked()) return CodecsOf(spec.exchange());
  const WireCodec sums{&MaskedSumCodec(), false};
  return LevelCodecs{sums, sums};
}

const Codec& PayloadCodec(const v1::ExchangeSpec& exchange) {
  const absl::StatusOr<LevelCodecs> codecs = CodecsOf(exchange);
  CHECK_OK(codecs.status());
  return *codecs->means.codec;
}

absl::StatusOr<AggregationRule> RuleOf(const v1::ExchangeSpec& exchange) {
  AggregationSettings settings;
  if (!exchange.aggregation().empty()) settings.rule = exchange.aggregation();
  settings.faulty = exchange.faulty();
  ASSIGN_OR_RETURN(const AggregationRule rule, AggregationRule::Make(settings));
  float clip = 0;
  const uint32_t bits = exchange.clip_bits();
  std::memcpy(&clip, &bits, sizeof(clip));
  if (!std::isfinite(clip) || clip < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("clip is ", clip, ", not a factor above 0, or 0 for none"));
  }
  if (rule.has_centre() && clip == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("the rule ", settings.rule, " without clip is the mean"));
  }
  if (exchange.clipping_steps() > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("clipping_steps is ", exchange.clipping_steps(),
                     ": an exchange makes 1, since each step needs distances of whole updates"));
  }
  return rule;
}

std::string CodecText(const v1::ExchangeSpec& exchange) {
  const std::string& slow = exchange.slow_codec();
  const std::string updates =
      absl::StrCat(exchange.codec(), slow.empty() ? "" : "|", slow, exchange.zstd() ? "+zstd" : "");
  if (exchange.upper_codec().empty()) return updates;
  return absl::StrCat(updates, "/", exchange.upper_codec(), exchange.upper_zstd() ? "+zstd" : "");
}

EncodedSize EncodedSizeOf(uint64_t values, uint32_t chunk_elements, const LevelCodecs& codecs) {
  EncodedSize size{values, EncodedBytes(values, chunk_elements, *codecs.updates.codec),
                   EncodedBytes(values, chunk_elements, *codecs.means.codec), 0};
  size.slow_bytes = size.update_bytes;
  if (codecs.slow == nullptr) return size;
  // Each chunk has one more byte, which says which of the two codecs it uses.
  const auto chunks = static_cast<double>((values + chunk_elements - 1) / chunk_elements);
  size.slow_bytes = EncodedBytes(values, chunk_elements, *codecs.slow) + chunks;
  return size;
}

}  // namespace atolld
