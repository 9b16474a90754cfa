// Lane: which of a pair's streams carries a chunk, its contribution up and its mean down.
//
// One TCP connection holds some 18 MB in flight (what gRPC lets a receiver announce), and what it
// loses it makes up for slowly: a fat long link needs several, each a stream with every n-th chunk.
// The side that dials says how many; the other one takes what it is told. Values.
#pragma once

#include <cstdint>
#include <tuple>

namespace atolld {

struct Lane {
  // More connections than any link needs, and few enough that nobody can open thousands.
  static constexpr uint32_t kMost = 16;

  uint32_t number = 0;
  uint32_t count = 1;

  bool Carries(uint32_t chunk) const { return chunk % count == number; }
  bool Valid() const { return count >= 1 && count <= kMost && number < count; }
  bool operator<(const Lane& other) const {
    return std::tie(count, number) < std::tie(other.count, other.number);
  }
};

}  // namespace atolld
