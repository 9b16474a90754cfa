// Which values of the flat vector each fragment has, a second time, for the oracle: docs/modes.md
// in its plainest form, no code shared with membership/history/fragment.h. Pure; slow where that is
// simpler.
#pragma once

#include <cstddef>
#include <vector>

#include "atoll/v1/run.pb.h"

namespace atolld {

// The places of each fragment's values, ascending. None: everything is one fragment.
std::vector<std::vector<size_t>> OracleFragments(const v1::RunSpec& spec,
                                                 const v1::Manifest& manifest);

}  // namespace atolld
