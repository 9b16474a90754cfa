// RunCodecs: which codec each level of a run has, what they make of its vector, and the rule by
// which updates become one.
//
// Updates travel from their contributors in the one; partial means, and so payloads and the log,
// are in the other. Pure functions, any thread.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "atoll/v1/run.pb.h"
#include "compression/wire_codec.h"
#include "optimizer/aggregation_rule.h"

namespace atolld {

// That of updates decodes all of them, whoever has encoded them. INVALID_ARGUMENT: a codec is not
// known, or two do not go together.
absl::StatusOr<LevelCodecs> CodecsOf(const v1::ExchangeSpec& exchange);

// What encodes an update, of a peer whose line is slow or not. INVALID_ARGUMENT as CodecsOf.
absl::StatusOr<const Codec*> EncoderOf(const v1::ExchangeSpec& exchange, bool slow);

// Of what an exchange carries: those two, or, where updates are masked, sums of ring elements at
// both levels. INVALID_ARGUMENT: as CodecsOf.
absl::StatusOr<LevelCodecs> CarriedCodecsOf(const v1::RunSpec& spec);

// The codec of payloads. Of a spec that CheckGenesis has passed.
const Codec& PayloadCodec(const v1::ExchangeSpec& exchange);

// "int8+zstd", or "bf16/int4": updates, means; "int8|int4": updates, and those over slow lines.
// Whatever the names are.
std::string CodecText(const v1::ExchangeSpec& exchange);

// What the codecs make of the vector.
struct EncodedSize {
  uint64_t parameters = 0;
  double update_bytes = 0;  // of the whole vector, as a contributor encodes it
  double mean_bytes = 0;    // of the whole vector, as relays and reducers do
  double slow_bytes = 0;    // of the whole vector, as a contributor behind a slow line does
};

// Bytes that the codecs make of so many values, at most, chunk by chunk.
EncodedSize EncodedSizeOf(uint64_t values, uint32_t chunk_elements, const LevelCodecs& codecs);

// The rule that reducers follow. Clipping is no part of it: it is done by the plan's scales.
// INVALID_ARGUMENT: it is not known, or cannot be carried out by an exchange.
absl::StatusOr<AggregationRule> RuleOf(const v1::ExchangeSpec& exchange);

}  // namespace atolld
