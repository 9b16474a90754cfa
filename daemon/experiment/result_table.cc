#include "daemon/experiment/result_table.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compression/base/number_words.h"
#include "daemon/figures/figures.h"
#include "daemon/program/format.h"

namespace atolld {
namespace {

using Json = nlohmann::ordered_json;
using CellText = std::function<std::string(double)>;

std::string CellOf(const MeanAndSpread& figure, const CellText& text) {
  if (figure.count == 0) return "-";
  if (figure.not_finite > 0) {
    const std::string word = NumberText(figure.mean, 0);
    if (figure.not_finite == figure.count) return word;
    return absl::StrCat(word, " (", figure.not_finite, " of ", figure.count, ")");
  }
  if (figure.count == 1) return text(figure.mean);
  return absl::StrCat(text(figure.mean), " ± ", text(figure.spread));
}

std::string FourDigits(double value) { return absl::StrFormat("%.4f", value); }
std::string TwoDigits(double value) { return absl::StrFormat("%.2f", value); }
std::string OneDigit(double value) { return absl::StrFormat("%.1f", value); }
std::string CountText(double value) { return FormatRate(value); }

struct Column {
  const char* heading;
  const char* key;
  MeanAndSpread SettingRow::*figure;
  CellText text;
  bool of_target;
};

std::vector<Column> Columns() {
  return {
      {"loss", "loss", &SettingRow::loss, FourDigits, false},
      {"own loss", "own_mean", &SettingRow::own_mean, FourDigits, false},
      {"own, 10th", "own_tenth", &SettingRow::own_tenth, FourDigits, false},
      {"own, 90th", "own_ninetieth", &SettingRow::own_ninetieth, FourDigits, false},
      {"rounds to target", "target_rounds", &SettingRow::target_rounds, OneDigit, true},
      {"tokens to target", "target_tokens", &SettingRow::target_tokens, CountText, true},
      {"sent to target", "target_bytes", &SettingRow::target_bytes, FormatBytes, true},
      {"epsilon", "epsilon", &SettingRow::epsilon, TwoDigits, false},
      {"tokens", "tokens", &SettingRow::tokens, CountText, false},
      {"sent", "bytes", &SettingRow::bytes, FormatBytes, false},
      {"utilisation", "utilisation", &SettingRow::utilisation, FormatPercent, false},
      {"least busy", "least_busy", &SettingRow::least_busy, FormatPercent, false},
      {"time", "wall_seconds", &SettingRow::wall_seconds, FormatSeconds, false},
  };
}

Json JsonOf(const MeanAndSpread& figure) {
  if (figure.count == 0) return nullptr;
  Json json = {{"mean", FigureJson(figure.mean)}, {"spread", nullptr}, {"seeds", figure.count}};
  if (figure.count > 1) json["spread"] = FigureJson(figure.spread);
  if (figure.not_finite > 0) json["not_finite"] = figure.not_finite;
  return json;
}

MeanAndSpread Over(const std::vector<const RunResult*>& results,
                   const std::function<std::optional<double>(const RunResult&)>& figure) {
  std::vector<double> values;
  for (const RunResult* result : results) {
    const std::optional<double> value = figure(*result);
    if (value) values.push_back(*value);
  }
  return Summarise(values);
}

void FillTarget(const std::vector<const RunResult*>& results, double target, SettingRow* row) {
  const auto reached = [&](const std::function<std::optional<double>(const ResultRow&)>& figure) {
    return Over(results, [&](const RunResult& result) -> std::optional<double> {
      const ResultRow* const at = result.Reaching(target);
      if (at == nullptr) return std::nullopt;
      return figure(*at);
    });
  };
  row->target_rounds = reached([](const ResultRow& at) { return static_cast<double>(at.version); });
  row->target_tokens = reached([](const ResultRow& at) { return at.tokens; });
  row->target_bytes = reached([](const ResultRow& at) { return at.bytes; });
}

}  // namespace

MeanAndSpread Summarise(absl::Span<const double> values) {
  MeanAndSpread made;
  made.count = values.size();
  if (values.empty()) return made;
  for (const double value : values) {
    made.mean += value;
    made.not_finite += std::isfinite(value) ? 0 : 1;
  }
  made.mean /= static_cast<double>(values.size());
  if (values.size() < 2) return made;
  double squares = 0;
  for (const double value : values) squares += (value - made.mean) * (value - made.mean);
  made.spread = std::sqrt(squares / static_cast<double>(values.size() - 1));
  return made;
}

std::vector<SettingRow> MakeTable(const std::vector<std::string>& settings, size_t planned,
                                  absl::Span<const RunResult> results, double target_loss) {
  std::vector<SettingRow> table;
  for (const std::string& setting : settings) {
    std::vector<const RunResult*> own;
    for (const RunResult& result : results) {
      if (result.setting == setting) own.push_back(&result);
    }
    const auto newest = [&](std::optional<double> ResultRow::*figure) {
      return Over(own, [figure](const RunResult& result) { return result.Newest(figure); });
    };
    SettingRow row;
    row.setting = setting;
    row.seeds = own.size();
    row.planned = planned;
    row.loss = newest(&ResultRow::loss);
    row.own_mean = newest(&ResultRow::own_mean);
    row.own_tenth = newest(&ResultRow::own_tenth);
    row.own_ninetieth = newest(&ResultRow::own_ninetieth);
    row.epsilon = newest(&ResultRow::epsilon);
    row.utilisation =
        Over(own, [](const RunResult& result) { return result.Mean(&ResultRow::utilisation); });
    row.least_busy = Over(own, [](const RunResult& result) { return result.least_busy; });
    row.tokens = newest(&ResultRow::tokens);
    row.bytes = newest(&ResultRow::bytes);
    row.wall_seconds = Over(own, [](const RunResult& result) { return result.wall_seconds; });
    if (target_loss > 0) FillTarget(own, target_loss, &row);
    table.push_back(std::move(row));
  }
  return table;
}

TableText TextOf(absl::Span<const SettingRow> table, double target_loss) {
  TableText text;
  text.headings = {"setting", "seeds"};
  text.rows.resize(table.size());
  for (size_t i = 0; i < table.size(); ++i) {
    const SettingRow& row = table[i];
    text.rows[i] = {row.setting, row.seeds == row.planned
                                     ? absl::StrCat(row.seeds)
                                     : absl::StrCat(row.seeds, " of ", row.planned)};
  }
  for (const Column& column : Columns()) {
    if (column.of_target && target_loss <= 0) continue;
    const bool known = std::any_of(table.begin(), table.end(), [&](const SettingRow& row) {
      return (row.*column.figure).count > 0;
    });
    if (!known && !column.of_target) continue;
    text.headings.emplace_back(column.heading);
    for (size_t i = 0; i < table.size(); ++i) {
      const MeanAndSpread& figure = table[i].*column.figure;
      std::string cell = CellOf(figure, column.text);
      // That some seeds never came so far is part of the figure.
      if (column.of_target && figure.count > 0 && figure.count < table[i].seeds) {
        absl::StrAppend(&cell, " (", figure.count, " of ", table[i].seeds, ")");
      }
      text.rows[i].push_back(std::move(cell));
    }
  }
  return text;
}

std::vector<std::string> TableLines(const TableText& table) {
  std::vector<std::vector<std::string>> rows = {table.headings};
  rows.insert(rows.end(), table.rows.begin(), table.rows.end());
  std::string alignment(table.headings.size(), '>');
  alignment[0] = '<';
  return AlignColumns(rows, alignment);
}

Json TableJson(absl::Span<const SettingRow> table) {
  Json json = Json::array();
  for (const SettingRow& row : table) {
    Json one = {{"setting", row.setting}, {"seeds", row.seeds}, {"planned", row.planned}};
    for (const Column& column : Columns()) one[column.key] = JsonOf(row.*column.figure);
    json.push_back(std::move(one));
  }
  return json;
}

}  // namespace atolld
