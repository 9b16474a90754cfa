// Checks what must hold for a codec's decoder and any bytes. If it does not hold, the process
// aborts, as fuzzers expect.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "compression/codec.h"
#include "compression/simd.h"
#include "tests/fuzz/fuzz_input.h"

namespace atolld {

// Returns the codec that the environment names; one program serves all codecs because they take
// long to compile.
inline const Codec& FuzzedCodec() {
  const char* const name = std::getenv("ATOLL_FUZZED_CODEC");
  const absl::StatusOr<const Codec*> codec = FindCodec(name == nullptr ? "" : name);
  if (!codec.ok()) {
    std::fprintf(stderr, "ATOLL_FUZZED_CODEC: %s\n", std::string(codec.status().message()).c_str());
    std::exit(2);
  }
  return **codec;
}

inline bool SameFloatBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

inline void CheckDecoderLaws(const Codec& codec, absl::Span<const uint8_t> bytes, size_t elements) {
  std::vector<float> first_values;
  std::vector<float> first_sum;
  double first_norm = 0;
  bool first = true;
  bool first_ok = false;
  for (const std::string& target : SimdTargetNames()) {
    const ScopedSimdTarget pinned(target);
    std::vector<float> values(elements);
    const std::vector<float> start(elements, 0.25f);
    std::vector<float> sum = start;
    const bool ok = codec.Decode(bytes, absl::MakeSpan(values)).ok();
    const bool accumulated = codec.DecodeAccumulate(bytes, 0.3f, absl::MakeSpan(sum)).ok();
    Require(ok == accumulated, "Decode and DecodeAccumulate agree");
    Require(ok == codec.Check(bytes, elements).ok(), "Decode and Check agree");
    Require(accumulated || SameFloatBits(sum, start), "the sum is unchanged on error");
    std::vector<float> streamed(elements);
    Require(ok == codec.DecodeToMemory(bytes, absl::MakeSpan(streamed)).ok(),
            "Decode and DecodeToMemory agree");
    std::vector<float> summed(elements, 42.0f);
    const WeightedChunk twice[] = {{bytes, 0.3f}, {bytes, -0.7f}};
    Require(ok == codec.DecodeSum(twice, 0.5f, absl::MakeSpan(summed)).ok(),
            "Decode and DecodeSum agree");
    std::vector<uint8_t> mean(codec.MaxEncodedBytes(elements));
    const absl::StatusOr<size_t> mean_bytes =
        codec.EncodeSum(twice, 0.5f, elements, absl::MakeSpan(mean));
    Require(ok || !mean_bytes.ok(), "nothing is made of what cannot be decoded");
    const absl::StatusOr<double> norm = codec.SquaredNorm(bytes, elements);
    Require(norm.ok() == (ok && codec.has_squared_norm()), "Decode and SquaredNorm agree");
    Require(!norm.ok() || (std::isfinite(*norm) && *norm >= 0), "a norm is a number from 0 on");
    if (ok) {
      Require(SameFloatBits(streamed, values), "DecodeToMemory gives the same bits");
      for (const float value : values) Require(std::isfinite(value), "decoded values are finite");
      std::vector<float> one_by_one(elements);
      for (const WeightedChunk& chunk : twice) {
        Require(codec.DecodeAccumulate(chunk.bytes, chunk.weight, absl::MakeSpan(one_by_one)).ok(),
                "what was taken once is taken again");
      }
      for (float& value : one_by_one) value = value * 0.5f;
      Require(SameFloatBits(summed, one_by_one), "DecodeSum is one DecodeAccumulate after another");
      std::vector<uint8_t> expected(mean.size());
      const absl::StatusOr<size_t> used = codec.EncodeMean(summed, absl::MakeSpan(expected));
      Require(used.ok() == mean_bytes.ok(), "EncodeSum takes what EncodeMean takes");
      Require(!used.ok() || *used == *mean_bytes, "and makes as much of it");
      Require(
          !used.ok() || std::equal(mean.begin(), mean.begin() + static_cast<std::ptrdiff_t>(*used),
                                   expected.begin()),
          "and the same bytes");
    }
    if (!first) {
      Require(ok == first_ok, "all targets agree");
      Require(!ok || SameFloatBits(values, first_values), "all targets decode the same bits");
      Require(!ok || SameFloatBits(sum, first_sum), "all targets accumulate the same bits");
      Require(!norm.ok() || *norm == first_norm, "all targets take the same norm");
    }
    first = false;
    first_ok = ok;
    first_values = values;
    first_sum = sum;
    first_norm = norm.value_or(0);
  }
}

// Does the same for bytes that are nearly right: an update or a mean that an encoder has written,
// and that is then damaged.
inline void CheckDamagedLaws(const Codec& codec, FuzzInput input) {
  const bool mean = input.Byte() % 2 == 1;
  const std::vector<float> values = input.Values(1 + input.Below(3000));
  std::vector<uint8_t> bytes(codec.MaxEncodedBytes(values.size()));
  const absl::StatusOr<size_t> used = mean ? codec.EncodeMean(values, absl::MakeSpan(bytes))
                                           : codec.Encode(values, absl::MakeSpan(bytes));
  Require(used.ok(), "finite values are encoded");
  bytes.resize(*used);
  input.Damage(&bytes);
  CheckDecoderLaws(codec, bytes, values.size());
}

}  // namespace atolld
