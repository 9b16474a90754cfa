// Recomputes, for the oracle, which values of the flat vector belong to each fragment:
// docs/modes.md in its plainest form, without code shared with membership/history/fragment.h. Pure;
// slow where that is simpler.
#pragma once

#include <cstddef>
#include <vector>

#include "atoll/v1/run.pb.h"

namespace atolld {

// Returns the places of each fragment's values, ascending; empty if everything is one fragment.
std::vector<std::vector<size_t>> OracleFragments(const v1::RunSpec& spec,
                                                 const v1::Manifest& manifest);

}  // namespace atolld
