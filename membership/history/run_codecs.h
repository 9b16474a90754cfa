// RunCodecs: the codecs that a run uses, the sizes to which they encode its vector, and the rule
// that combines its updates.
//
// A run has two codecs, which may be the same. Contributors send their updates in one of them;
// means and partial means, and therefore payloads and the log, use the other. Pure. May be called
// from any thread.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "atoll/v1/run.pb.h"
#include "compression/wire_codec.h"
#include "optimizer/aggregation_rule.h"

namespace atolld {

// Returns both codecs. The codec of updates can decode the updates of every contributor, also of
// those with slow lines. Fails with INVALID_ARGUMENT if a codec is unknown or two codecs cannot be
// combined.
absl::StatusOr<LevelCodecs> CodecsOf(const v1::ExchangeSpec& exchange);

// Returns the codec in which a peer encodes its updates, which depends on whether its line is slow.
// Fails like CodecsOf.
absl::StatusOr<const Codec*> EncoderOf(const v1::ExchangeSpec& exchange, bool slow);

// Returns the codecs of the data in an exchange. These are the result of CodecsOf or, if updates
// are masked, a codec for sums of ring elements at both levels. Fails like CodecsOf.
absl::StatusOr<LevelCodecs> CarriedCodecsOf(const v1::RunSpec& spec);

// Returns the codec of payloads. The spec must have passed CheckGenesis.
const Codec& PayloadCodec(const v1::ExchangeSpec& exchange);

// Returns the codecs as text: "int8+zstd" if there is only one, "bf16/int4" for different codecs of
// updates and means, or "int8|int4" if updates over slow lines have their own codec. Does not check
// the names.
std::string CodecText(const v1::ExchangeSpec& exchange);

// The sizes to which the codecs encode the vector.
struct EncodedSize {
  uint64_t parameters = 0;
  // The size of the whole vector when a contributor encodes it.
  double update_bytes = 0;
  // The size of the whole vector when relays and reducers encode it.
  double mean_bytes = 0;
  // The size of the whole vector when a contributor with a slow line encodes it.
  double slow_bytes = 0;
};

// Returns the most bytes to which the codecs encode this many values, chunk by chunk.
EncodedSize EncodedSizeOf(uint64_t values, uint32_t chunk_elements, const LevelCodecs& codecs);

// Returns the rule by which reducers combine updates. It does not clip updates, because the plan's
// scales do that. Fails with INVALID_ARGUMENT if the rule is unknown or an exchange cannot apply
// it.
absl::StatusOr<AggregationRule> RuleOf(const v1::ExchangeSpec& exchange);

}  // namespace atolld
