// Recomputes, for the oracle, which values of the flat vector belong to each fragment. It follows
// docs/modes.md in the plainest form and shares no code with membership/history/fragment.h. Pure.
// Slow where slow code is simpler.
#pragma once

#include <cstddef>
#include <vector>

#include "atoll/v1/run.pb.h"

namespace atolld {

// Returns the positions of each fragment's values, ascending, or an empty vector if everything is
// one fragment.
std::vector<std::vector<size_t>> OracleFragments(const v1::RunSpec& spec,
                                                 const v1::Manifest& manifest);

}  // namespace atolld
