// The table of an experiment: the figures of each setting, as the mean and the spread over its
// seeds.
//
// The mean is the sum divided by n. The spread is the sample standard deviation, that is, the
// square root of the sum of squared distances from the mean divided by n - 1; a single seed has no
// spread. If the figure of any seed is not finite, the mean is NaN, and the table says how many
// seeds these are. Pure. May be called from any thread.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "daemon/experiment/run_result.h"

namespace atolld {

struct MeanAndSpread {
  size_t count = 0;
  size_t not_finite = 0;  // the number of values, of `count`, that are not finite
  double mean = 0;
  double spread = 0;  // 0 for fewer than two values
};
MeanAndSpread Summarise(absl::Span<const double> values);

struct SettingRow {
  std::string setting;
  size_t seeds = 0;    // the number of seeds that have a result
  size_t planned = 0;  // the number of seeds of the experiment
  MeanAndSpread loss, own_mean, own_tenth, own_ninetieth, tokens, bytes, wall_seconds, epsilon,
      utilisation, least_busy;
  // The cost of reaching the target loss, over the seeds that have reached it.
  MeanAndSpread target_rounds, target_tokens, target_bytes;
};

// Returns a row for each of `settings`, in their order, even if a setting has no result. `planned`
// is the number of seeds. A `target_loss` of 0 means no target.
std::vector<SettingRow> MakeTable(const std::vector<std::string>& settings, size_t planned,
                                  absl::Span<const RunResult> results, double target_loss);

struct TableText {
  std::vector<std::string> headings;
  std::vector<std::vector<std::string>> rows;
};
// Returns the table without the columns that have no value in any row. A cell is
// "1.2345 ± 0.0123"; "NaN" if no value is finite, or "NaN (1 of 2)" if only some are not; "-" if
// there is no value.
TableText TextOf(absl::Span<const SettingRow> table, double target_loss);

// Returns lines for a terminal.
std::vector<std::string> TableLines(const TableText& table);

nlohmann::ordered_json TableJson(absl::Span<const SettingRow> table);

}  // namespace atolld
