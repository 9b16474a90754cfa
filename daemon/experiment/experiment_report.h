// The report of an experiment: one HTML file that needs nothing else, neither a network nor a
// script.
//
// It holds the table, the curves of the loss against rounds, tokens, bytes and time with a band of
// one standard deviation over the seeds, the parties' spread, who got which data, what each setting
// changes, the digests, the file itself and how to repeat it. Readable from 390 pixels on, in light
// and dark, and on paper. Pure functions, any thread.
#pragma once

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "daemon/experiment/experiment.h"
#include "daemon/experiment/report_chart.h"
#include "daemon/experiment/run_result.h"

namespace atolld {

// A partition that the experiment has made.
struct PartitionPicture {
  std::string title;  // "seed 1: Dirichlet, alpha 0.1"
  std::string svg;
};

struct ReportInput {
  std::vector<RunResult> results;
  std::vector<PartitionPicture> partitions;
  std::string version;  // of Atoll
  std::string command;  // that repeats it
};

std::string ReportHtml(const Experiment& experiment, const ReportInput& input);

// What the loss of a setting is over its seeds, at every version whose loss all of them know; `x`
// gives a version's place on the axis, of which the mean is taken.
std::vector<BandPoint> LossBand(absl::Span<const RunResult> results, const std::string& setting,
                                double (*x)(const ResultRow& row));

}  // namespace atolld
