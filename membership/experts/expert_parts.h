// The parts of a run's flat vector when peers own experts (ExpertsSpec): part 0 has the tensors
// that all peers train, and each other part has the tensors of one expert, in all layers. The
// slices of adapters are experts in this sense too (ModelSpec.lora_slice); part 0 is then empty.
//
// Peers that own few experts need memory, time and bytes for these and for the shared part alone
// (Learning@home, arXiv:2002.04013; SPES, arXiv:2602.11543). The entry's vector then has the parts
// one after another, each from a chunk's boundary on, so no chunk belongs to two parts. The values
// between two parts are zeros that belong to no tensor. Pure. May be called from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "atoll/v1/run.pb.h"

namespace atolld {

inline constexpr uint32_t kMostExperts = 4096;

// Enough for any naming of tensors, and so few that comparing each pattern with the name of each
// tensor takes a moment whatever a record says.
inline constexpr size_t kMostExpertPatterns = 16;
inline constexpr size_t kLongestExpertPattern = 256;  // bytes

// The values [first, first + count) of the flat vector: one tensor, or several that touch.
struct PartRange {
  uint64_t first = 0;
  uint64_t count = 0;

  bool operator==(const PartRange& other) const {
    return first == other.first && count == other.count;
  }
};

struct ExpertParts {
  // The numbers of the experts, ascending. Bit i of an `owned` bitmap and part 1 + i stand for
  // numbers[i].
  std::vector<uint32_t> numbers;
  // Each ascending; together they tile the vector. parts[0] may be empty with slices of adapters.
  std::vector<std::vector<PartRange>> parts;

  uint32_t experts() const { return static_cast<uint32_t>(numbers.size()); }
};

// Returns true if peers own experts, or train slices of adapters, in this run.
bool HasExperts(const v1::RunSpec& spec);

// Returns true if each peer of the run says itself which parts it trains: slices of adapters.
bool HasSlices(const v1::RunSpec& spec);

// Fails with INVALID_ARGUMENT if the pattern has not exactly one "#", or is longer than
// kLongestExpertPattern.
absl::Status CheckExpertPattern(absl::string_view pattern);

// Fails with INVALID_ARGUMENT if there are more than kMostExpertPatterns.
absl::Status CheckExpertPatternCount(size_t patterns);

// Returns true if `name` matches the pattern, and sets `number` to what "#" stands for.
bool MatchesExpert(absl::string_view pattern, absl::string_view name, uint32_t* number);

// Divides the tensors of a valid manifest. Fails with INVALID_ARGUMENT if the two functions above
// refuse the patterns or their number, if a pattern matches no tensor, if there are fewer than two
// experts or more than kMostExperts, or if no tensor is shared in a run whose experts have owners.
absl::StatusOr<ExpertParts> DivideIntoExperts(const v1::ExpertsSpec& spec,
                                              const v1::Manifest& manifest);

// Returns true if `owned` is a bitmap of this many experts, perhaps with no bit set.
bool ValidOwned(absl::string_view owned, uint32_t experts);
std::string OwnsNothing(uint32_t experts);
std::string OwnsAll(uint32_t experts);
std::string OwnsFirst(uint32_t first, uint32_t experts);  // the first so many of them

// Returns true if an update with these owned experts covers the part. An empty bitmap covers
// everything: the run has no experts.
bool Covers(absl::string_view owned, uint32_t part);

// Returns what a peer that owns these experts does not train, ascending, adjacent ranges joined.
std::vector<PartRange> FrozenRanges(const ExpertParts& parts, absl::string_view owned);

// Returns the names of the experts, such as "0, 2-4"; "none" if no bit is set.
std::string NameOwned(const std::vector<uint32_t>& numbers, absl::string_view owned);

}  // namespace atolld
