// Codec: floats <-> bytes, the form in which outer updates cross the network and lie in the log.
//
// A codec is a pure function with the same bits on every CPU: replicas that decode the same bytes
// hold the same floats (docs/protocol.md: one payload, encoded once, taken by all). Decoders are
// total: any bytes in, values or a Status out; what is allocated depends on the caller's shape,
// never on the bytes. Codecs are stateless and may be used from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace atolld {

struct WeightedChunk {
  absl::Span<const uint8_t> bytes;  // encoded
  float weight = 0;
};

class Codec {
 public:
  virtual ~Codec() = default;

  // The name in configs, headers and benchmarks: "fp32", "int8", "topk".
  virtual absl::string_view name() const = 0;

  // Values that share a scale. A chunk's first value always starts a block.
  virtual size_t block_elements() const = 0;

  // The most bytes that `elements` values can take, as an update or as a mean; exact for codecs of
  // a fixed rate.
  virtual size_t MaxEncodedBytes(size_t elements) const = 0;
  virtual bool has_fixed_rate() const { return true; }

  // Encodes into `out` (at least MaxEncodedBytes long) and returns the bytes used.
  // INVALID_ARGUMENT if a value is not finite, naming its index.
  virtual absl::StatusOr<size_t> Encode(absl::Span<const float> values,
                                        absl::Span<uint8_t> out) const = 0;

  // As Encode, for a mean of decoded chunks. Another form only where a mean is made otherwise than
  // an update: topk keeps every index of it. Decode takes both.
  virtual absl::StatusOr<size_t> EncodeMean(absl::Span<const float> values,
                                            absl::Span<uint8_t> out) const;

  // As Encode, rounding stochastically by `key`, which is ChunkKey()'s (scaled_kernels.h has the
  // arithmetic). INVALID_ARGUMENT unless has_stochastic_rounding().
  virtual bool has_stochastic_rounding() const { return false; }
  virtual absl::StatusOr<size_t> EncodeStochastic(absl::Span<const float> values, uint64_t key,
                                                  absl::Span<uint8_t> out) const;

  // Whether Decode would take the bytes for so many values, without making those; the same errors.
  virtual absl::Status Check(absl::Span<const uint8_t> bytes, size_t elements) const = 0;

  // Decodes exactly values.size() values. INVALID_ARGUMENT names what is wrong with the bytes;
  // `values` is then unspecified.
  virtual absl::Status Decode(absl::Span<const uint8_t> bytes, absl::Span<float> values) const = 0;

  // As Decode, for more values than the caches hold: past them, where that saves time.
  virtual absl::Status DecodeToMemory(absl::Span<const uint8_t> bytes,
                                      absl::Span<float> values) const;

  // Codecs of integer codes under a scale a block: the squared norm of what the bytes stand for,
  //   sum = +0, then for each block in order: sum = sum + (scale * scale) * (sum of code * code)
  // in double; the square and the sum of codes are exact. The same errors as Decode's;
  // INVALID_ARGUMENT unless has_squared_norm().
  virtual bool has_squared_norm() const { return false; }
  virtual absl::StatusOr<double> SquaredNorm(absl::Span<const uint8_t> bytes,
                                             size_t elements) const;

  // sum[i] = sum[i] + weight * value[i], each operation rounded to fp32 on its own; one pass. `sum`
  // is unchanged on error.
  virtual absl::Status DecodeAccumulate(absl::Span<const uint8_t> bytes, float weight,
                                        absl::Span<float> sum) const = 0;

  // All chunks of a mean in one pass over it:
  //   sum[i] = +0, then for each chunk in order: sum[i] = sum[i] + weight * value[i]
  //   sum[i] = sum[i] * factor
  // each operation rounded to fp32 on its own: the bits of DecodeAccumulate for each. On error, a
  // weight that is not finite or a chunk that Check would refuse, `sum` is unspecified.
  virtual absl::Status DecodeSum(absl::Span<const WeightedChunk> chunks, float factor,
                                 absl::Span<float> sum) const;

  // DecodeSum of so many values, and EncodeMean of it into `out`, without all of the sum ever lying
  // in memory. The errors of both; `out` is then unspecified.
  virtual absl::StatusOr<size_t> EncodeSum(absl::Span<const WeightedChunk> chunks, float factor,
                                           size_t elements, absl::Span<uint8_t> out) const;
};

// How an encoder rounds: to nearest even, or by `key`.
struct Rounding {
  bool stochastic = false;
  uint64_t key = 0;
};

// The key of one encoding of all chunks: `part` tells those apart who encode on the same occasion.
// ChunkKey is that of one chunk. SplitMix64's finaliser (Steele, Lea, Flood 2014) over each in
// turn.
uint64_t RoundingKey(uint64_t seed, uint64_t occasion, uint64_t part);
uint64_t ChunkKey(uint64_t key, uint64_t chunk);

// The codec of that name; INVALID_ARGUMENT lists the known names and the nearest one. Lives
// forever.
absl::StatusOr<const Codec*> FindCodec(absl::string_view name);
std::vector<std::string> CodecNames();

// The refusals that all codecs share, in one wording.

// Names the first value from `begin` on that is NaN or infinite, as index `offset` + its place in
// `values`. There must be one.
absl::Status FirstNotFinite(absl::Span<const float> values, size_t begin, size_t offset = 0);

absl::Status OutputTooSmall(size_t bytes, size_t needed);
absl::Status WrongLength(size_t bytes, size_t needed, size_t elements);
absl::Status WeightNotFinite();

// The scales of `blocks` blocks, fp32 little-endian: each is +0, or from 2^-100 to `greatest`.
// Names the first that is not.
absl::Status CheckScales(const uint8_t* scales, size_t blocks, float greatest);

}  // namespace atolld
