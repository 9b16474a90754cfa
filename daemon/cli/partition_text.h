// A partition as `atoll experiment partition` prints it: a table of parties, and what the whole
// measures. Pure.
#pragma once

#include <string>
#include <vector>

#include "daemon/experiment/partition/partition_report.h"

namespace atolld {

// Of more than `most_parties`, the first ones and how many are left out.
std::vector<std::string> PartitionText(const PartitionReport& report, size_t most_parties);

}  // namespace atolld
