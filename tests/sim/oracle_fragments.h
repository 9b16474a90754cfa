// Recomputes, for the oracle, which values of the flat vector an entry has, by fragments or by
// experts. It follows docs/modes.md in the plainest form and shares no code with
// membership/history/fragment.h and membership/experts. Pure. Slow where slow code is simpler.
#pragma once

#include <cstddef>
#include <vector>

#include "atoll/v1/run.pb.h"

namespace atolld {

// The place of an entry's value that belongs to no tensor.
inline constexpr size_t kNoPlace = static_cast<size_t>(-1);

// Returns the positions of each fragment's values, ascending, or an empty vector if everything is
// one fragment. If the run has experts, there is one fragment: the shared part, then one part an
// expert, each from a chunk's boundary on, with kNoPlace in between.
std::vector<std::vector<size_t>> OracleFragments(const v1::RunSpec& spec,
                                                 const v1::Manifest& manifest);

// Returns the part of each chunk, which is 0 if it is shared and 1 + i if it belongs to the expert
// with the (i + 1)-th lowest number; empty if the run has no experts.
std::vector<size_t> OracleParts(const v1::RunSpec& spec, const v1::Manifest& manifest);

}  // namespace atolld
