// What a peer says when the run is sealed and nobody can give it the rest. Pure function.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "atoll/v1/membership.pb.h"
#include "atoll/v1/run.pb.h"

namespace atolld {

// One line: what `self` holds (`held`: the version, none: no state), what it lacks, who had it and
// what became of them, and `why` nobody gives it. Where the roster knows of nobody, those that made
// the last entry (`newest`) had it.
std::string StrandedLine(const v1::Seal& seal, const std::optional<uint64_t>& held,
                         const v1::Roster& roster, const v1::EntryHeader& newest,
                         const std::string& self, const std::string& why);

}  // namespace atolld
