// Makes the report of an experiment: one HTML file that needs no other files, no network and no
// scripts.
//
// It holds the table of results; the curves of the loss against rounds, tokens, bytes and time,
// with a band of one standard deviation over the seeds; the spread over the parties; the data of
// each party; the changes of each setting; the digests; the experiment's file; and the command that
// repeats the experiment. It is readable from a width of 390 pixels on, in light and dark mode, and
// on paper. Pure. May be called from any thread.
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
  std::string version;  // the version of Atoll
  std::string command;  // the command that repeats the experiment
};

std::string ReportHtml(const Experiment& experiment, const ReportInput& input);

// Returns the mean loss of a setting over its seeds, with its spread, at every version for which
// all seeds have a loss and a position on the x axis. `x` returns the position of a row; the mean
// over the seeds is used.
std::vector<BandPoint> LossBand(absl::Span<const RunResult> results, const std::string& setting,
                                std::optional<double> (*x)(const ResultRow& row));

}  // namespace atolld
