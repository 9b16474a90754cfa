// The result of a finished run of an experiment, made from the files that `atoll local` leaves: its
// report and its figures by version.
//
// DIR/results.jsonl holds a result on each line. An unknown figure is nullopt in memory and null in
// the file. A loss that is not finite is NaN in memory and a word in the file
// (daemon/figures/figures.h). Pure. May be called from any thread.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace atolld {

// The figures of one version of the model.
struct ResultRow {
  uint64_t version = 0;
  std::optional<double> seconds;  // the time from the run's start to the commit
  std::optional<double> tokens;   // trained on by all peers, up to and including this version
  // Sent by all peers in exchanges, up to and including this version.
  std::optional<double> bytes;
  std::optional<double> loss;  // the loss on the common held-out data; NaN if it is not a number
  std::optional<double> train_loss;
  // The loss on each party's own held-out data: its mean, and its 10th and 90th percentile over the
  // parties.
  std::optional<double> own_mean, own_tenth, own_ninetieth;
  std::optional<double> epsilon;  // the epsilon of differential privacy that is spent so far
  // The share of the contributors' time that was spent on inner steps.
  std::optional<double> utilisation;
};

struct RunResult {
  std::string setting;
  uint64_t seed = 0;
  std::string id;
  uint64_t parameters = 0;  // 0 if they are not known
  std::string codec;
  std::string state_digest;  // hex
  std::string loss_unit;     // "nats a byte"; if empty, the unit of the run's own model
  std::optional<double> wall_seconds;
  // The smallest share of the time that any peer spent on training.
  std::optional<double> least_busy;
  std::vector<ResultRow> rows;  // the rows by ascending version

  // Returns the newest known value of a figure.
  std::optional<double> Newest(std::optional<double> ResultRow::*figure) const;
  // Returns the mean of a figure over the versions for which it is known, or nullopt if it is known
  // for none.
  std::optional<double> Mean(std::optional<double> ResultRow::*figure) const;
  double rounds() const { return rows.empty() ? 0 : static_cast<double>(rows.back().version); }
  // Returns the row of the first version whose loss is at most `target`, or null if there is none.
  const ResultRow* Reaching(double target) const;
};

// Returns true if this report of `atoll local` says that the run was sealed.
bool IsSealedReport(absl::string_view report);

// Makes a result. `report` is the text that `atoll local --json` wrote, and `metrics` is the text
// of metrics.jsonl. The bytes that peers have sent up to a version are computed from the report's
// mean per peer and round. Fails with DATA_LOSS if a text does not have the right form.
absl::StatusOr<RunResult> MakeRunResult(const std::string& setting, uint64_t seed,
                                        const std::string& id, absl::string_view report,
                                        absl::string_view metrics);

// ResultLine returns a line of results.jsonl, and ParseResultLine reads it back. ParseResultLine
// fails with DATA_LOSS if the line does not have this form.
std::string ResultLine(const RunResult& result);
absl::StatusOr<RunResult> ParseResultLine(absl::string_view line);

}  // namespace atolld
