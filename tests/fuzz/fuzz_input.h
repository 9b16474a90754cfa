// FuzzInput: reads a fuzzer's bytes as numbers and pieces. Require aborts the process, as fuzzers
// expect, if a law is broken.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "absl/types/span.h"

namespace atolld {

inline void Require(bool law, const char* what) {
  if (law) return;
  std::fprintf(stderr, "broken law: %s\n", what);
  std::abort();
}

// Reads from the front; past the end it reads zeros.
class FuzzInput {
 public:
  FuzzInput(const uint8_t* data, size_t size) : bytes_(data, size) {}

  bool empty() const { return bytes_.empty(); }
  size_t size() const { return bytes_.size(); }

  uint8_t Byte() {
    const absl::Span<const uint8_t> byte = Take(1);
    return byte.empty() ? uint8_t{0} : byte[0];
  }
  uint32_t Below(uint32_t limit) {
    const uint32_t low = Byte();
    return (low | static_cast<uint32_t>(Byte()) << 8) % limit;
  }
  // Returns fewer bytes if there are not enough.
  absl::Span<const uint8_t> Take(size_t size) {
    const absl::Span<const uint8_t> taken = bytes_.subspan(0, std::min(size, bytes_.size()));
    bytes_.remove_prefix(taken.size());
    return taken;
  }
  absl::Span<const uint8_t> Rest() { return Take(bytes_.size()); }

  // Returns finite values within +-4: an update that an honest peer could have.
  std::vector<float> Values(size_t count) {
    std::vector<float> values(count, 0.0f);
    for (float& value : values) {
      const int high = static_cast<int8_t>(Byte());
      value = static_cast<float>(high) / 32.0f;
    }
    return values;
  }

  // Changes up to four bytes, and cuts the end off or appends bytes. The next bytes of the input
  // decide which.
  void Damage(std::vector<uint8_t>* bytes) {
    const uint8_t how = Byte();
    for (int i = 0; i < how % 5 && !bytes->empty(); ++i) {
      const uint32_t at = Below(1 << 16);
      (*bytes)[at % bytes->size()] ^= Byte();
    }
    if (how >= 0xe0) bytes->resize(bytes->size() - std::min<size_t>(bytes->size(), Byte()));
    if (how >= 0xc0 && how < 0xe0) bytes->resize(bytes->size() + Byte(), how);
  }

 private:
  absl::Span<const uint8_t> bytes_;
};

}  // namespace atolld
