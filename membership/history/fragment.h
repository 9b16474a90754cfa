// Fragments: in mode "streaming", entry v covers fragment (v - 1) mod P of the flat vector, and no
// other value.
//
// A fragment is a set of ranges of the flat vector: whole tensors, and pieces of those that are too
// large. It follows from the run's spec and manifest alone, by whole numbers, so that it is the
// same on every machine. The *entry's vector* is its fragment's ranges, one after another; whatever
// an exchange does (the grid of chunks, shards, norms, the payload), it does to that vector.
// Without fragments it is the flat vector. Pure functions, any thread.
//
// How tensors are dealt out: tensors of one layer stay together (a layer: those whose names share
// all up to the first whole number between dots, as "h.3." or "model.layers.12."; each other tensor
// is one of its own); layer i goes to fragment i mod P, strided, as arXiv:2501.18512 has it. Then,
// while the largest fragment has more than the mean and a sixteenth: the largest tensor that helps
// moves, whole, from the largest to the smallest fragment; and where none does, a piece of the
// largest tensor there, a multiple of 4,096 values off its end.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "atoll/v1/run.pb.h"

namespace atolld {

struct FragmentRange {  // values of the flat vector: [first, first + count)
  uint64_t first = 0;
  uint64_t count = 0;

  bool operator==(const FragmentRange& other) const {
    return first == other.first && count == other.count;
  }
};

// What is cut off a tensor is a multiple of so many values: whole blocks of every codec, and pages.
inline constexpr uint64_t kFragmentStep = 4096;

// No fragment has more values than the mean, a (this number)th of it, and kFragmentStep for each
// fragment.
inline constexpr uint64_t kFragmentSlack = 16;

inline constexpr uint32_t kMostFragments = 64;

// Of a run: 1 where an entry covers everything.
uint32_t FragmentsOf(const v1::RunSpec& spec);

// Of entry `version`, from 1 on: 0 to FragmentsOf - 1.
uint32_t FragmentOf(const v1::RunSpec& spec, uint64_t version);

// All fragments of a sound manifest, each ascending; they tile the vector. INVALID_ARGUMENT: so
// many cannot be made, and how many can.
absl::StatusOr<std::vector<std::vector<FragmentRange>>> DivideIntoFragments(
    const v1::Manifest& manifest, uint32_t fragments);

// Where the values of an entry lie in the flat vector.
class FragmentMap {
 public:
  FragmentMap() = default;
  // Ascending, and none that touch each other.
  explicit FragmentMap(std::vector<FragmentRange> ranges);

  const std::vector<FragmentRange>& ranges() const { return ranges_; }
  uint64_t elements() const { return elements_; }

  // Values that follow each other in both: `count` of them, in the flat vector from `first` on and
  // in the entry's vector from `at` on.
  struct Piece {
    uint64_t first = 0;
    uint64_t at = 0;
    uint64_t count = 0;
  };
  // Of the entry's values [at, at + count), which it has. Ascending, as the next.
  std::vector<Piece> Pieces(uint64_t at, uint64_t count) const;
  // Of those that are in [first, first + count) of the flat vector.
  std::vector<Piece> Meeting(uint64_t first, uint64_t count) const;

 private:
  std::vector<FragmentRange> ranges_;
  std::vector<uint64_t> starts_;  // of each range in the entry's vector
  uint64_t elements_ = 0;
};

// The entry's vector out of a flat one, and back into it; all else there stays.
std::vector<float> GatherEntry(const FragmentMap& covers, absl::Span<const float> flat);
void ScatterEntry(const FragmentMap& covers, absl::Span<const float> entry, absl::Span<float> flat);

// The fragments of one run, divided once. Of a genesis that has passed CheckFragments.
class Fragments {
 public:
  Fragments() = default;
  Fragments(const v1::RunSpec& spec, const v1::Manifest& manifest);

  bool several() const { return maps_.size() > 1; }
  const FragmentMap& Of(uint64_t version) const;  // of entry `version`
  uint64_t elements() const;                      // of the flat vector

 private:
  std::vector<FragmentMap> maps_;
};

// The ranges of entry `version`, and how many values they are. Of a genesis that has passed
// CheckFragments; who asks for many versions keeps a Fragments.
std::vector<FragmentRange> FragmentRanges(const v1::RunSpec& spec, const v1::Manifest& manifest,
                                          uint64_t version);
uint64_t FragmentElements(const v1::RunSpec& spec, const v1::Manifest& manifest, uint64_t version);

// The most values that an entry covers; of a genesis that has not passed: no fewer than all.
uint64_t MostEntryElements(const v1::RunSpec& spec, const v1::Manifest& manifest);

// INVALID_ARGUMENT: the manifest, which is sound, cannot be divided as the spec says, or what the
// spec says beside it does not go with fragments.
absl::Status CheckFragments(const v1::RunSpec& spec, const v1::Manifest& manifest);

}  // namespace atolld
