#include "daemon/cli/run_metrics.h"

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "compression/base/status_macros.h"
#include "daemon/figures/figures.h"
#include "daemon/figures/status_json.h"

namespace atolld {
namespace {

using Json = nlohmann::ordered_json;

// The columns that are not in the status table: a sum over it, and a word.
constexpr char kTotalTokens[] = "train/total_tokens";
constexpr char kPlan[] = "exchange/plan";

template <typename Of>
void NameColumns(absl::Span<const Figure<Of>> figures, Json* row) {
  for (const Figure<Of>& figure : figures) {
    if (figure.column != nullptr) row->emplace(figure.column, nullptr);
  }
}

// Returns every column, with what is known about a version without a round.
Json EmptyRow(uint64_t version) {
  // What is looked at most comes first.
  Json row = {{"version", version},      {"time/elapsed_seconds", nullptr},
              {"train/loss", nullptr},   {"validation/loss", nullptr},
              {"train/tokens", nullptr}, {kTotalTokens, nullptr}};
  NameColumns(RoundFigures(), &row);
  row.emplace(kPlan, nullptr);
  NameColumns(EvaluationFigures(), &row);
  return row;
}

// Keeps the values that are known already: a version's time is its round's, not its later
// evaluation's.
template <typename Of>
void Fill(absl::Span<const Figure<Of>> figures, const Of& of, Json* row) {
  for (const Figure<Of>& figure : figures) {
    if (figure.column == nullptr) continue;
    Json& field = (*row)[figure.column];
    if (field.is_null()) field = figure.ToJson(of);
  }
}

// The limit of kMetricsFile, whose lines have about 400 bytes.
constexpr uint64_t kMostBytes = uint64_t{1} << 30;

std::string CsvField(const Json& value) {
  if (value.is_null()) return "";
  if (!value.is_string()) return value.dump();
  const auto& text = value.get_ref<const std::string&>();
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  return absl::StrCat("\"", absl::StrReplaceAll(text, {{"\"", "\"\""}}), "\"");
}

}  // namespace

std::vector<Json> RunMetrics(absl::Span<const v1::RunStatus> pages) {
  std::map<uint64_t, Json> rows;
  const auto row = [&rows](uint64_t version) -> Json& {
    return rows.try_emplace(version, EmptyRow(version)).first->second;
  };
  for (const v1::RunStatus& page : pages) {
    for (const v1::RoundRecord& round : page.rounds()) {
      Json& figures = row(round.version());
      Fill(RoundFigures(), round, &figures);
      if (!round.plan().empty()) figures[kPlan] = round.plan();
    }
    for (const v1::EvaluationRecord& evaluation : page.evaluations()) {
      Fill(EvaluationFigures(), evaluation, &row(evaluation.version()));
    }
  }
  // From the newest version back, so that it does not matter where the pages begin.
  uint64_t total = pages.empty() ? 0 : pages.back().tokens();
  std::vector<Json> ordered;
  for (auto at = rows.rbegin(); at != rows.rend(); ++at) {
    Json& figures = at->second;
    figures[kTotalTokens] = total;
    if (!figures["train/tokens"].is_null()) total -= figures["train/tokens"].get<uint64_t>();
  }
  for (auto& [version, figures] : rows) ordered.push_back(std::move(figures));
  return ordered;
}

std::vector<Json> RunMetrics(const RunHistory& history) {
  v1::RunStatus status;
  status.set_tokens(history.newest().tokens());
  for (const auto& [version, round] : history.rounds()) *status.add_rounds() = round;
  for (const auto& [version, evaluation] : history.evaluations()) {
    *status.add_evaluations() = evaluation;
  }
  return RunMetrics(absl::MakeConstSpan(&status, 1));
}

absl::StatusOr<std::vector<Json>> ReadMetrics(Files& files, const std::string& dir) {
  const std::string path = absl::StrCat(dir, "/", kMetricsFile);
  absl::StatusOr<std::string> text = ReadFile(files, path, kMostBytes);
  if (absl::IsNotFound(text.status())) {
    return absl::NotFoundError(absl::StrCat(
        path,
        " is not there: `atoll local` writes it at the run's end; while the run goes on, its "
        "coordinator tells the figures"));
  }
  RETURN_IF_ERROR(text.status());
  std::vector<Json> rows;
  for (const absl::string_view line : absl::StrSplit(*text, '\n', absl::SkipEmpty())) {
    rows.push_back(Json::parse(line, nullptr, /*allow_exceptions=*/false));
    const Json& row = rows.back();
    if (row.is_object() && row.contains("version") && row["version"].is_number_unsigned()) continue;
    return absl::DataLossError(
        absl::StrCat(path, ": line ", rows.size(), " is not of `atoll run metrics`"));
  }
  return rows;
}

std::string MetricsJsonLines(const std::vector<Json>& rows) {
  std::string text;
  for (const Json& row : rows) absl::StrAppend(&text, JsonLine(row));
  return text;
}

std::string MetricsCsv(const std::vector<Json>& rows) {
  std::string text;
  const auto line = [&text](const std::vector<std::string>& fields) {
    absl::StrAppend(&text, absl::StrJoin(fields, ","), "\n");
  };
  std::vector<std::string> fields;
  const Json columns = EmptyRow(0);
  for (const auto& [name, value] : columns.items()) fields.push_back(name);
  line(fields);
  for (const Json& row : rows) {
    fields.clear();
    for (const auto& [name, value] : row.items()) fields.push_back(CsvField(value));
    line(fields);
  }
  return text;
}

}  // namespace atolld
