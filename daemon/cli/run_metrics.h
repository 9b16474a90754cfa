// The figures of a run, in one row for each version, for notebooks and for tools that draw curves.
//
// The columns are those of the status table (figures.h), train/total_tokens (the tokens up to and
// including the round) and exchange/plan (the kind of the plan). Their names consist of a family, a
// slash and a figure, as in training tools. docs/metrics.md lists them.
//
// A figure that is not known is an empty field of CSV and null in JSON; a figure that is not finite
// is a word in both. ReadMetrics blocks. All other functions are pure, and may be called from any
// thread.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "atoll/v1/admin.pb.h"
#include "daemon/cli/run_watcher.h"
#include "daemon/env/env.h"

namespace atolld {

// Makes the rows from pages of ShowRun, which must be in ascending order, without a gap, and end
// with the run's newest version. The totals are counted back from the `tokens` of the newest
// status. Returns one object for each version; each has all columns.
std::vector<nlohmann::ordered_json> RunMetrics(absl::Span<const v1::RunStatus> pages);

// Makes the rows from the history that a watcher has collected.
std::vector<nlohmann::ordered_json> RunMetrics(const RunHistory& history);

// The file (JSON Lines) that `atoll local` leaves in the run's folder at its end. It keeps the
// losses, which only the coordinator knows, after the coordinator has ended. ReadMetrics fails with
// NOT_FOUND if the file does not exist because `atoll local` did not end in order, and with
// DATA_LOSS if the file cannot be read.
inline constexpr char kMetricsFile[] = "metrics.jsonl";
// The file with the object of `atoll local --json`. It lies beside kMetricsFile if `atoll run watch
// --results` has written both.
inline constexpr char kReportOfRun[] = "report.json";
absl::StatusOr<std::vector<nlohmann::ordered_json>> ReadMetrics(Files& files,
                                                                const std::string& dir);

// Return one line for each row: JSON Lines, or CSV (RFC 4180) below a line with the names of the
// columns.
std::string MetricsJsonLines(const std::vector<nlohmann::ordered_json>& rows);
std::string MetricsCsv(const std::vector<nlohmann::ordered_json>& rows);

}  // namespace atolld
