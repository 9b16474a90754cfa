#include "worker/data/sample_order.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace atolld {
namespace {

// four make a Feistel network a permutation that looks random; two in reserve
constexpr int kRounds = 6;

// The finaliser of SplitMix64 (Steele, Lea, Flood 2014).
uint64_t Mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

}  // namespace

SampleOrder::SampleOrder(uint64_t seed, uint64_t tokens, uint32_t context)
    : seed_(seed), context_(context) {
  // One window less than fits leaves room for the phase; a corpus too short for that keeps its only
  // window.
  windows_ = std::max<uint64_t>(1, tokens / context_ - 1);
  phases_ = std::min<uint64_t>(context_, tokens - windows_ * context_);
  half_bits_ = 1;
  while (half_bits_ < 31 && (uint64_t{1} << (2 * half_bits_)) < windows_) ++half_bits_;
}

absl::StatusOr<SampleOrder> SampleOrder::Make(uint64_t seed, uint64_t tokens, uint32_t context) {
  if (context == 0 || tokens < uint64_t{context} + 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the training split has ", tokens, " tokens; one sequence needs ", uint64_t{context} + 1));
  }
  return SampleOrder(seed, tokens, context);
}

uint64_t SampleOrder::Window(uint64_t epoch, uint64_t position) const {
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  const uint64_t key = Mix(seed_ ^ Mix(epoch));
  uint64_t block = position;
  // The network permutes a power of four that is at most four times too large: walk until back
  // inside.
  do {
    uint64_t left = block >> half_bits_, right = block & mask;
    for (uint64_t round = 0; round < kRounds; ++round) {
      const uint64_t next = left ^ (Mix(key + (round << 56) + right) & mask);
      left = right;
      right = next;
    }
    block = (left << half_bits_) | right;
  } while (block >= windows_);
  return block;
}

uint64_t SampleOrder::Phase(uint64_t epoch) const { return Mix(~seed_ ^ Mix(epoch)) % phases_; }

uint64_t SampleOrder::FirstToken(uint64_t sample) const {
  const uint64_t epoch = sample / windows_;
  return Phase(epoch) + Window(epoch, sample % windows_) * context_;
}

}  // namespace atolld
