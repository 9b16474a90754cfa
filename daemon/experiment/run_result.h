// What a finished run of an experiment has come to, from what `atoll local` leaves: its report and
// its figures by version.
//
// DIR/results.jsonl holds one a line. Pure functions, any thread.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace atolld {

// One version of the model.
struct ResultRow {
  uint64_t version = 0;
  double seconds = 0;          // of the run, when it was committed
  double tokens = 0;           // trained on by all, up to and with it
  double bytes = 0;            // sent by all peers in exchanges, up to and with it
  std::optional<double> loss;  // on the common held-out set
  std::optional<double> train_loss;
  // On each party's own held-out data: mean, and 10th and 90th percentile over the parties.
  std::optional<double> own_mean, own_tenth, own_ninetieth;
  std::optional<double> epsilon;      // of differential privacy, spent so far
  std::optional<double> utilisation;  // share of the contributors' time that was inner steps
};

struct RunResult {
  std::string setting;
  uint64_t seed = 0;
  std::string id;
  uint64_t parameters = 0;
  std::string codec;
  std::string state_digest;  // hex
  double wall_seconds = 0;
  std::optional<double> least_busy;  // the least share of the time that one peer trained
  std::vector<ResultRow> rows;       // by version, ascending

  // The newest that is known.
  std::optional<double> Newest(std::optional<double> ResultRow::*figure) const;
  // Over the versions of which it is known; nothing: of none.
  std::optional<double> Mean(std::optional<double> ResultRow::*figure) const;
  double rounds() const { return rows.empty() ? 0 : static_cast<double>(rows.back().version); }
  double tokens() const { return rows.empty() ? 0 : rows.back().tokens; }
  double bytes() const { return rows.empty() ? 0 : rows.back().bytes; }
  // The first version whose loss is at most `target`; null: none is.
  const ResultRow* Reaching(double target) const;
};

// Whether the report of `atoll local` is of a run that is sealed.
bool IsSealedReport(absl::string_view report);

// `report`: the text that `atoll local --json` wrote; `metrics`: that of its metrics.jsonl. What
// peers have sent up to a version is counted from the mean a peer a round, which the report tells.
// DATA_LOSS: they are none of that.
absl::StatusOr<RunResult> MakeRunResult(const std::string& setting, uint64_t seed,
                                        const std::string& id, absl::string_view report,
                                        absl::string_view metrics);

// A line of results.jsonl, and back. DATA_LOSS: it is none.
std::string ResultLine(const RunResult& result);
absl::StatusOr<RunResult> ParseResultLine(absl::string_view line);

}  // namespace atolld
