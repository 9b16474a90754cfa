// The vector of an entry: where each of its values lies in the flat vector.
//
// Fragments: in mode "streaming", entry v covers fragment (v - 1) mod P of the flat vector, and no
// other value.
//
// A fragment is a set of ranges of the flat vector: whole tensors, and pieces of those that are too
// large. It is computed from only the run's spec and manifest by integer arithmetic, so it is the
// same on every machine. The *entry's vector* consists of the ranges of the entry's fragment, one
// after another. Everything in an exchange (the grid of chunks, shards, norms, the payload) refers
// to that vector. In a run without fragments it is the flat vector, except in a run whose peers own
// experts: there it has the parts of the flat vector one after another, each from a chunk's
// boundary on, and zeros between them (membership/experts/expert_parts.h). Pure. May be called from
// any thread.
//
// How tensors are assigned: the tensors of one layer stay together. A layer is all tensors whose
// names are equal up to the first whole number between dots, such as "h.3." or "model.layers.12.";
// every other tensor is a layer of its own. Layer i goes to fragment i mod P, strided, as in
// arXiv:2501.18512. Then, while the largest fragment has more values than the mean plus a
// sixteenth, a whole tensor moves from the largest to the smallest fragment: the largest one whose
// move makes them more equal. If there is no such tensor, a multiple of 4,096 values moves, which
// is cut off the end of the largest tensor of that fragment.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "atoll/v1/run.pb.h"
#include "membership/experts/expert_parts.h"
#include "membership/history/payload.h"

namespace atolld {

using FragmentRange = PartRange;

// A piece that is cut off a tensor has a multiple of this many values, so it consists of whole
// blocks of every codec and of whole pages of memory.
inline constexpr uint64_t kFragmentStep = 4096;

// No fragment has more values than the mean + mean / kFragmentSlack + kFragmentStep x the number of
// fragments.
inline constexpr uint64_t kFragmentSlack = 16;

inline constexpr uint32_t kMostFragments = 64;

// Returns the number of fragments of a run; 1 if an entry covers everything.
uint32_t FragmentsOf(const v1::RunSpec& spec);

// Returns the number of the fragment that entry `version` covers, from 0 to FragmentsOf - 1. The
// versions of entries start at 1.
uint32_t FragmentOf(const v1::RunSpec& spec, uint64_t version);

// Returns all fragments of a valid manifest, each ascending; together they tile the vector. Fails
// with INVALID_ARGUMENT if that many fragments cannot be made; the message gives the greatest
// possible number.
absl::StatusOr<std::vector<std::vector<FragmentRange>>> DivideIntoFragments(
    const v1::Manifest& manifest, uint32_t fragments);

// Maps the values of an entry to their places in the flat vector.
class FragmentMap {
 public:
  FragmentMap() = default;
  // Puts the ranges one after another. They must be ascending, and no two may touch each other.
  explicit FragmentMap(const std::vector<FragmentRange>& ranges);
  // Puts the parts one after another, and each of them at a multiple of `step`, as the last one
  // ends. The ranges of a part must be ascending, and no range may meet another.
  FragmentMap(const std::vector<std::vector<FragmentRange>>& parts, uint64_t step);

  uint64_t elements() const { return elements_; }  // the size of the entry's vector
  // Returns true if the entry's vector is the flat vector of this size.
  bool IsFlat(uint64_t flat) const;

  // A sequence of `count` values that is contiguous in both vectors. It starts at `first` in the
  // flat vector and at `at` in the entry's vector.
  struct Piece {
    uint64_t first = 0;
    uint64_t at = 0;
    uint64_t count = 0;
  };
  const std::vector<Piece>& pieces() const { return by_first_; }  // ascending by `first`
  // Returns the pieces of the entry's values [at, at + count), ascending by `at`. These values must
  // exist; those that are in no piece are zeros between two parts.
  std::vector<Piece> Pieces(uint64_t at, uint64_t count) const;
  // Returns the pieces of the entry that lie in [first, first + count) of the flat vector,
  // ascending by `first`.
  std::vector<Piece> Meeting(uint64_t first, uint64_t count) const;
  // Removes the entry's values [at, at + count), which then are in no piece.
  void Remove(uint64_t at, uint64_t count);

 private:
  void Sort();

  std::vector<Piece> by_at_, by_first_;
  uint64_t elements_ = 0;
};

// Copy the entry's vector out of a flat vector and back into it. Other values of the flat vector do
// not change.
std::vector<float> GatherEntry(const FragmentMap& covers, absl::Span<const float> flat);
void ScatterEntry(const FragmentMap& covers, absl::Span<const float> entry, absl::Span<float> flat);

// The fragments of one run, computed once. The genesis must have passed CheckFragments.
class Fragments {
 public:
  Fragments() = default;
  Fragments(const v1::RunSpec& spec, const v1::Manifest& manifest);
  // Fails with INVALID_ARGUMENT if the manifest cannot be divided as the spec says.
  static absl::StatusOr<Fragments> Make(const v1::RunSpec& spec, const v1::Manifest& manifest);

  bool several() const { return maps_.size() > 1; }
  const FragmentMap& Of(uint64_t version) const;   // the map of entry `version`
  uint64_t elements() const { return elements_; }  // the size of the flat vector
  // The grid of the vector of entry `version`.
  ChunkGrid Grid(uint64_t version, uint32_t chunk_elements) const;
  // The parts of the flat vector; nullptr if peers own no experts.
  const ExpertParts* experts() const { return experts_.get(); }

 private:
  std::vector<FragmentMap> maps_;
  std::shared_ptr<const ExpertParts> experts_;
  std::shared_ptr<const std::vector<uint32_t>> part_of_;  // the part of each chunk, with experts
  uint64_t elements_ = 0;
};

// Return the ranges of entry `version`, and the number of their values. The genesis must have
// passed CheckFragments. A caller that needs many versions should keep a Fragments object.
std::vector<FragmentRange> FragmentRanges(const v1::RunSpec& spec, const v1::Manifest& manifest,
                                          uint64_t version);
uint64_t FragmentElements(const v1::RunSpec& spec, const v1::Manifest& manifest, uint64_t version);

// Returns the greatest number of values that an entry covers. If the genesis has not passed
// CheckFragments, this is the number of all values.
uint64_t MostEntryElements(const v1::RunSpec& spec, const v1::Manifest& manifest);

// Fails with INVALID_ARGUMENT if the manifest, which must be valid, cannot be divided into the
// number of fragments in the spec, or if another setting of the spec cannot be combined with
// fragments.
absl::Status CheckFragments(const v1::RunSpec& spec, const v1::Manifest& manifest);

}  // namespace atolld
