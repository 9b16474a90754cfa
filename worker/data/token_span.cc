#include "worker/data/token_span.h"

#include <algorithm>
#include <cstring>

namespace atolld {
namespace {

template <typename T>
void Copy(const uint8_t* from, absl::Span<int64_t> out) {
  for (int64_t& one : out) {
    T value;
    std::memcpy(&value, from, sizeof value);
    one = static_cast<int64_t>(value);
    from += sizeof value;
  }
}

}  // namespace

void TokenSpan::Read(uint64_t first, absl::Span<int64_t> out) const {
  const uint8_t* from = bytes_.subspan(first * width_, out.size() * width_).data();
  switch (width_) {
    case 1:
      return Copy<uint8_t>(from, out);
    case 2:
      return Copy<uint16_t>(from, out);
    case 4:
      return Copy<uint32_t>(from, out);
    default:
      return Copy<uint64_t>(from, out);
  }
}

uint64_t TokenSpan::Largest() const {
  uint64_t largest = 0;
  for (uint64_t at = FindAtLeast(1); at < size(); at += From(at).FindAtLeast(largest + 1)) {
    largest = this->at(at);
  }
  return largest;
}

uint64_t TokenSpan::at(uint64_t index) const {
  int64_t value = 0;
  Read(index, absl::MakeSpan(&value, 1));
  return static_cast<uint64_t>(value);
}

uint64_t TokenSpan::FindAtLeast(uint64_t limit) const {
  if (width_ < 8 && limit >> (8 * width_) != 0) return size();
  constexpr uint64_t kBlock = 4096;
  int64_t block[kBlock];
  for (uint64_t first = 0; first < size(); first += kBlock) {
    const uint64_t count = std::min(kBlock, size() - first);
    Read(first, absl::MakeSpan(block, count));
    const auto bad = std::find_if(
        block, block + count, [limit](int64_t id) { return static_cast<uint64_t>(id) >= limit; });
    if (bad != block + count) return first + static_cast<uint64_t>(bad - block);
  }
  return size();
}

}  // namespace atolld
