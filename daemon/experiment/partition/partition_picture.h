// A partition as a picture: one SVG that needs nothing else, light or dark as its reader prefers.
//
// Up to 60 parties are bars, coloured by label. More are a histogram of sizes and, below it, a
// strip: parties by size from left to right, labels from top to bottom, the darker the larger a
// label's share in those parties. Pure.
#pragma once

#include <string>

#include "daemon/experiment/partition/partition_report.h"

namespace atolld {

inline constexpr size_t kMostBars = 60;

std::string PartitionSvg(const PartitionReport& report);

}  // namespace atolld
