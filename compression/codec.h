// Codec: converts floats to bytes and back. Outer updates cross the network and are logged as these
// bytes.
//
// A codec is a pure function that gives the same bits on every CPU: replicas that decode the same
// bytes hold the same floats (docs/protocol.md: a payload is encoded once, and all peers use it). A
// decoder accepts any bytes and gives either values or an error Status; the memory that it
// allocates depends on the shape that the caller expects, never on the bytes. Codecs are stateless,
// therefore thread-safe.
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
  absl::Span<const uint8_t> bytes;  // the encoded values
  float weight = 0;
};

class Codec {
 public:
  virtual ~Codec() = default;

  // The name in configs, headers and benchmarks, such as "fp32", "int8" or "topk".
  virtual absl::string_view name() const = 0;

  // The greatest number of bytes to which `elements` values can be encoded, as an update or as a
  // mean. If has_fixed_rate(), every encoding has exactly this number of bytes.
  virtual size_t MaxEncodedBytes(size_t elements) const = 0;
  virtual bool has_fixed_rate() const { return true; }

  // Encodes into `out`, which is at least MaxEncodedBytes long, and returns the number of bytes
  // used. Fails with INVALID_ARGUMENT if a value is not finite; the message names its index.
  virtual absl::StatusOr<size_t> Encode(absl::Span<const float> values,
                                        absl::Span<uint8_t> out) const = 0;

  // Encodes a mean of decoded chunks; otherwise like Encode. The form differs from that of an
  // update only in topk, which keeps every index of a mean. Decode reads both forms.
  virtual absl::StatusOr<size_t> EncodeMean(absl::Span<const float> values,
                                            absl::Span<uint8_t> out) const;

  // Does the same as Encode, but rounds stochastically with `key`, which must be the result of
  // ChunkKey() (scaled_kernels.h has the arithmetic). Fails with INVALID_ARGUMENT unless
  // has_stochastic_rounding().
  virtual bool has_stochastic_rounding() const { return false; }
  virtual absl::StatusOr<size_t> EncodeStochastic(absl::Span<const float> values, uint64_t key,
                                                  absl::Span<uint8_t> out) const;

  // Returns the error that Decode would return for these bytes and `elements` values, without
  // making the values.
  virtual absl::Status Check(absl::Span<const uint8_t> bytes, size_t elements) const = 0;

  // Decodes exactly values.size() values. Fails with INVALID_ARGUMENT if the bytes are not valid;
  // the message says why, and `values` is then unspecified.
  virtual absl::Status Decode(absl::Span<const uint8_t> bytes, absl::Span<float> values) const = 0;

  // Does the same as Decode, for more values than fit in the caches. It writes directly to memory
  // where that saves time.
  virtual absl::Status DecodeToMemory(absl::Span<const uint8_t> bytes,
                                      absl::Span<float> values) const;

  // Returns the squared norm of the decoded values. Only codecs that use integer codes with one
  // scale a block have this function. They compute
  //   sum = +0, then for each block in order: sum = sum + (scale * scale) * (sum of code * code)
  // in double, where the square of the scale and the sum of codes are exact. Fails with the errors
  // of Decode, and with INVALID_ARGUMENT unless has_squared_norm().
  virtual bool has_squared_norm() const { return false; }
  virtual absl::StatusOr<double> SquaredNorm(absl::Span<const uint8_t> bytes,
                                             size_t elements) const;

  // Decodes and adds in one pass: sum[i] = sum[i] + weight * value[i], where each operation is
  // rounded to fp32 on its own. `sum` is unchanged on error.
  virtual absl::Status DecodeAccumulate(absl::Span<const uint8_t> bytes, float weight,
                                        absl::Span<float> sum) const = 0;

  // Computes the weighted sum of all chunks in one pass:
  //   sum[i] = +0, then for each chunk in order: sum[i] = sum[i] + weight * value[i]
  //   sum[i] = sum[i] * factor
  // Each operation is rounded to fp32 on its own, so the result has the same bits as a call of
  // DecodeAccumulate for each chunk. Fails if a weight is not finite or if Check would refuse a
  // chunk; `sum` is then unspecified.
  virtual absl::Status DecodeSum(absl::Span<const WeightedChunk> chunks, float factor,
                                 absl::Span<float> sum) const;

  // Computes DecodeSum of `elements` values and encodes the result into `out` with EncodeMean. A
  // codec may do this without having the whole sum in memory at any time. Fails with the errors of
  // both; `out` is then unspecified.
  virtual absl::StatusOr<size_t> EncodeSum(absl::Span<const WeightedChunk> chunks, float factor,
                                           size_t elements, absl::Span<uint8_t> out) const;
};

// The way in which an encoder rounds: stochastically with `key`, or to nearest even.
struct Rounding {
  bool stochastic = false;
  uint64_t key = 0;
};

// RoundingKey returns the key for one encoding of all chunks; `part` distinguishes the peers that
// encode on the same occasion. ChunkKey returns the key for one chunk of that encoding. Both apply
// SplitMix64's finaliser (Steele, Lea, Flood 2014) to each argument in turn.
uint64_t RoundingKey(uint64_t seed, uint64_t occasion, uint64_t part);
uint64_t ChunkKey(uint64_t key, uint64_t chunk);

// Returns the codec of that name, which is never destroyed. Fails with INVALID_ARGUMENT if there is
// no such codec; the message lists the known names and the nearest one.
absl::StatusOr<const Codec*> FindCodec(absl::string_view name);
std::vector<std::string> CodecNames();

// These functions return the errors that several codecs have, so that the wording is always the
// same.

// Returns an error that names the first value from `begin` on that is NaN or infinite. There must
// be such a value. The named index is `offset` plus the value's place in `values`.
absl::Status FirstNotFinite(absl::Span<const float> values, size_t begin, size_t offset = 0);

absl::Status OutputTooSmall(size_t bytes, size_t needed);
absl::Status WrongLength(size_t bytes, size_t needed, size_t elements);
absl::Status WeightNotFinite();

// Fails if the scale of one of `blocks` blocks is neither +0 nor between 2^-100 and `greatest`; the
// message names the first such scale. Scales are fp32 little-endian.
absl::Status CheckScales(const uint8_t* scales, size_t blocks, float greatest);

}  // namespace atolld
