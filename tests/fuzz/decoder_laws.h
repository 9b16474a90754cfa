// What must hold of a codec's decoder for any bytes. Dies, as fuzzers want it, where it does not.
#pragma once

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
#include "compression/simd_target.h"

namespace atolld {

inline void Require(bool law, const char* what) {
  if (law) return;
  std::fprintf(stderr, "broken law: %s\n", what);
  std::abort();
}

inline bool SameFloatBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

inline void CheckDecoderLaws(const Codec& codec, absl::Span<const uint8_t> bytes, size_t elements) {
  std::vector<float> first_values;
  std::vector<float> first_sum;
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
    if (ok) {
      for (const float value : values) Require(std::isfinite(value), "decoded values are finite");
    }
    if (!first) {
      Require(ok == first_ok, "all targets agree");
      Require(!ok || SameFloatBits(values, first_values), "all targets decode the same bits");
      Require(!ok || SameFloatBits(sum, first_sum), "all targets accumulate the same bits");
    }
    first = false;
    first_ok = ok;
    first_values = values;
    first_sum = sum;
  }
}

}  // namespace atolld
