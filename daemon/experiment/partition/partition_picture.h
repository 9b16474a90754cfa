// Draws a partition as a picture: one self-contained SVG, in light or dark colours as the viewer
// prefers.
//
// Up to kMostBars parties are shown as bars that are coloured by label. More parties are shown as a
// histogram of their sizes and, below it, a strip with the parties, ordered by size, from left to
// right and the labels from top to bottom; a field is darker if the label has a larger share of the
// parties' samples. Pure. May be called from any thread.
#pragma once

#include <string>

#include "daemon/experiment/partition/partition_report.h"

namespace atolld {

inline constexpr size_t kMostBars = 60;

std::string PartitionSvg(const PartitionReport& report);

}  // namespace atolld
