#include "worker/data/sample_order.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"
#include "compression/base/words.h"

namespace atolld {
namespace {

// Four rounds make a Feistel network a permutation that looks random; two are a reserve.
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
    return absl::InvalidArgumentError(absl::StrCat("the training split has ",
                                                   Counted(tokens, "token"),
                                                   "; one sequence needs ", uint64_t{context} + 1));
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

uint64_t PassOf(uint64_t seed, uint64_t party, uint64_t version) {
  return Mix(seed ^ Mix(party ^ Mix(version))) >> 32;
}

namespace {

// Returns positive whole numbers that sum to the cycle, as close to the weights as possible.
std::vector<uint64_t> Deal(absl::Span<const double> weights) {
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<uint64_t> slots;
  uint64_t dealt = 0;
  for (const double weight : weights) {
    const double exact = weight / total * static_cast<double>(SampleMixture::kCycle);
    slots.push_back(std::max<uint64_t>(1, static_cast<uint64_t>(exact)));
    dealt += slots.back();
  }
  // What rounding down left goes to the largest, and what the ones took comes from it.
  uint64_t& largest = *std::max_element(slots.begin(), slots.end());
  largest += SampleMixture::kCycle - dealt;
  return slots;
}

}  // namespace

absl::StatusOr<SampleMixture> SampleMixture::Make(uint64_t seed, absl::Span<const uint64_t> tokens,
                                                  absl::Span<const double> weights,
                                                  uint32_t context) {
  if (tokens.empty() || tokens.size() != weights.size() || tokens.size() > kCycle / 16) {
    return absl::InvalidArgumentError(absl::StrCat(tokens.size(), " sources and ", weights.size(),
                                                   " weights; there must be one each, 1 to ",
                                                   kCycle / 16));
  }
  SampleMixture mixture;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (!(weights[i] > 0) || !std::isfinite(weights[i])) {
      return absl::InvalidArgumentError(
          absl::StrCat("the weight of source ", i + 1, " is ", weights[i], "; it must be above 0"));
    }
    auto order = SampleOrder::Make(seed + i, tokens[i], context);
    const std::string name = absl::StrCat("source ", i + 1);
    RETURN_IF_ERROR(tokens.size() == 1 ? order.status() : Annotate(order.status(), name));
    mixture.orders_.push_back(*order);
  }
  mixture.slots_ = Deal(weights);
  // Each slot goes to the source whose next one is due first: rank r of n is due at (r + 1/2) / n.
  std::vector<uint32_t> dealt(tokens.size(), 0);
  while (tokens.size() > 1 && mixture.cycle_.size() < kCycle) {
    size_t next = 0;
    for (size_t i = 1; i < dealt.size(); ++i) {
      if ((2 * dealt[i] + 1) * mixture.slots_[next] < (2 * dealt[next] + 1) * mixture.slots_[i]) {
        next = i;
      }
    }
    mixture.cycle_.push_back({static_cast<uint32_t>(next), dealt[next]++});
  }
  return mixture;
}

SampleMixture::Place SampleMixture::Of(uint64_t sample) const {
  if (cycle_.empty()) return {0, orders_[0].FirstToken(sample)};
  const Slot slot = cycle_[sample % kCycle];
  const uint64_t own = sample / kCycle * slots_[slot.source] + slot.rank;
  return {slot.source, orders_[slot.source].FirstToken(own)};
}

uint64_t SampleMixture::samples() const {
  uint64_t all = 0;
  for (const SampleOrder& order : orders_) all += order.windows();
  return all;
}

double SampleMixture::Epochs(uint64_t samples) const {
  double most = 0;
  for (size_t i = 0; i < orders_.size(); ++i) {
    const double share = static_cast<double>(slots_[i]) / static_cast<double>(kCycle);
    most = std::max(
        most, static_cast<double>(samples) * share / static_cast<double>(orders_[i].windows()));
  }
  return most;
}

}  // namespace atolld
