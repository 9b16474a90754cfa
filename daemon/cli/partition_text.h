// A partition as `atoll experiment partition` prints it: a table of the parties, and measures of
// the whole partition. Pure. May be called from any thread.
#pragma once

#include <string>
#include <vector>

#include "daemon/experiment/partition/partition_report.h"

namespace atolld {

// Returns the table. If there are more than `most_parties`, it shows the first ones and says how
// many are left out.
std::vector<std::string> PartitionText(const PartitionReport& report, size_t most_parties);

// Returns a text such as "5 samples of 205 have no label 'topic' and count as 'none'; ...", or an
// empty text if all samples have a label.
std::string UnlabelledText(const PartitionReport& report);

}  // namespace atolld
