// The table of an experiment: each setting's figures as mean and spread over its seeds.
//
// Mean: the sum over n. Spread: the sample standard deviation, the square root of the sum of
// squared distances from the mean over n - 1; of one seed there is none. Pure, any thread.
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
  double mean = 0;
  double spread = 0;  // 0 of fewer than two
};
MeanAndSpread Summarise(absl::Span<const double> values);

struct SettingRow {
  std::string setting;
  size_t seeds = 0;    // that have a result
  size_t planned = 0;  // of the experiment
  MeanAndSpread loss, own_mean, own_tenth, own_ninetieth, tokens, bytes, wall_seconds, epsilon,
      utilisation, least_busy;
  // To the target loss, over the seeds that reached it.
  MeanAndSpread target_rounds, target_tokens, target_bytes;
};

// In the order of `settings`. A setting without any result has a row too. `target_loss` 0: none.
std::vector<SettingRow> MakeTable(const std::vector<std::string>& settings, size_t planned,
                                  absl::Span<const RunResult> results, double target_loss);

// A cell, for people: "1.2345 ± 0.0123", or "-" of no value.
std::string LossCell(const MeanAndSpread& figure);

struct TableText {
  std::vector<std::string> headings;
  std::vector<std::vector<std::string>> rows;
};
// Columns that no row knows anything of are left out.
TableText TextOf(absl::Span<const SettingRow> table, double target_loss);

// Lines for a terminal.
std::vector<std::string> TableLines(const TableText& table);

nlohmann::ordered_json TableJson(absl::Span<const SettingRow> table);

}  // namespace atolld
