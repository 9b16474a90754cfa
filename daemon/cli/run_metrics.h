// A run's figures, a line a version, for notebooks and for the tools that draw curves.
//
// The columns, named as training tools name theirs (a family, a slash, a figure):
//
//   version                   of the model; 0 is the one before any training
//   time/elapsed_seconds      of the run, when the version was committed
//   train/loss                mean over the contributors, weighted by tokens
//   validation/loss           nats a token (a byte, where tokens are bytes)
//   train/tokens              of this round
//   train/total_tokens        up to and with this round
//   train/contributors        number of peers whose updates count
//   time/train_seconds        mean over the contributors
//   time/exchange_seconds     from the plan to the agreement
//   time/predicted_seconds    of the exchange, when it began
//   time/audit_seconds        from the agreement to the commit
//   time/compute_utilization  share of the contributors' time that was inner steps, 0-1
//   exchange/hidden_bytes     of the exchange before, while workers trained; sent and received
//   exchange/waited_bytes     ... while workers waited
//   exchange/revisions        how many the plan had
//   exchange/plan             "flat", "regions", ...
//   noise/scale_tokens        gradient noise scale as known after this round
//   privacy/epsilon           of differential privacy, spent up to and with this round
//   privacy/clip              where it follows a quantile: as it is after this round
//
// A figure that is not known is an empty field of CSV and null in JSON. Pure, any thread, but for
// ReadMetrics.
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

// Of the pages that ShowRun gives, ascending and without a gap, up to the run's newest version: its
// `tokens` is what the totals are counted from. An object a version; each has all the columns.
std::vector<nlohmann::ordered_json> RunMetrics(absl::Span<const v1::RunStatus> pages);

// The same of all that a watcher has learned.
std::vector<nlohmann::ordered_json> RunMetrics(const RunHistory& history);

// What `atoll local` leaves in the run's folder at its end, JSON Lines, and what lies there. The
// coordinator, which alone records losses, is gone by then. NOT_FOUND: the run has not ended in
// order. DATA_LOSS: it cannot be read.
inline constexpr char kMetricsFile[] = "metrics.jsonl";
// Beside it where `atoll run watch --results` has left both: what `atoll local --json` writes.
inline constexpr char kReportOfRun[] = "report.json";
absl::StatusOr<std::vector<nlohmann::ordered_json>> ReadMetrics(Files& files,
                                                                const std::string& dir);

// A line each, with its line end: JSON Lines, or CSV (RFC 4180) under one line of names.
std::string MetricsJsonLines(const std::vector<nlohmann::ordered_json>& rows);
std::string MetricsCsv(const std::vector<nlohmann::ordered_json>& rows);

}  // namespace atolld
