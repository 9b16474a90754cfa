#include "daemon/experiment/run_result.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "compression/base/status_macros.h"
#include "daemon/figures/figures.h"
#include "daemon/figures/status_json.h"

namespace atolld {
namespace {

using Json = nlohmann::ordered_json;

std::optional<double> NumberAt(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found == json.end() ? std::nullopt : FigureOf(*found);
}

std::string TextAt(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found == json.end() || !found->is_string() ? "" : found->get<std::string>();
}

uint64_t CountAt(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found == json.end() || !found->is_number_unsigned() ? 0 : found->get<uint64_t>();
}

Json Parsed(absl::string_view text) {
  return Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
}

// Reads what the report of `atoll local` and a line of results.jsonl call by the same names.
RunResult WithoutRows(const Json& json, const std::string& setting, uint64_t seed,
                      const std::string& id) {
  RunResult result;
  result.setting = setting;
  result.seed = seed;
  result.id = id;
  result.parameters = CountAt(json, "parameters");
  result.codec = TextAt(json, "codec");
  result.state_digest = TextAt(json, "state_digest");
  result.loss_unit = TextAt(json, "loss_unit");
  result.wall_seconds = NumberAt(json, "wall_seconds");
  result.least_busy = NumberAt(json, "least_busy");
  return result;
}

// The figures that a row has if they are known, and their names.
struct NamedFigure {
  const char* in_metrics;
  const char* in_results;
  std::optional<double> ResultRow::*figure;
};
constexpr NamedFigure kFigures[] = {
    {"time/elapsed_seconds", "seconds", &ResultRow::seconds},
    {"train/total_tokens", "tokens", &ResultRow::tokens},
    {"validation/loss", "loss", &ResultRow::loss},
    {"train/loss", "train_loss", &ResultRow::train_loss},
    {"validation/own_mean", "own_mean", &ResultRow::own_mean},
    {"validation/own_tenth", "own_tenth", &ResultRow::own_tenth},
    {"validation/own_ninetieth", "own_ninetieth", &ResultRow::own_ninetieth},
    {"privacy/epsilon", "epsilon", &ResultRow::epsilon},
    {"time/compute_utilization", "utilisation", &ResultRow::utilisation},
};

}  // namespace

std::optional<double> RunResult::Newest(std::optional<double> ResultRow::*figure) const {
  for (auto row = rows.rbegin(); row != rows.rend(); ++row) {
    if (((*row).*figure).has_value()) return (*row).*figure;
  }
  return std::nullopt;
}

std::optional<double> RunResult::Mean(std::optional<double> ResultRow::*figure) const {
  double sum = 0;
  size_t known = 0;
  for (const ResultRow& row : rows) {
    if (!(row.*figure)) continue;
    sum += *(row.*figure);
    ++known;
  }
  if (known == 0) return std::nullopt;
  return sum / static_cast<double>(known);
}

const ResultRow* RunResult::Reaching(double target) const {
  for (const ResultRow& row : rows) {
    if (row.loss && *row.loss <= target) return &row;
  }
  return nullptr;
}

bool IsSealedReport(absl::string_view report) {
  const Json json = Parsed(report);
  return json.is_object() && !TextAt(json, "state_digest").empty();
}

absl::StatusOr<RunResult> MakeRunResult(const std::string& setting, uint64_t seed,
                                        const std::string& id, absl::string_view report,
                                        absl::string_view metrics) {
  const Json json = Parsed(report);
  if (!json.is_object()) {
    return absl::DataLossError(absl::StrCat(id, ": the report of `atoll local` is damaged"));
  }
  RunResult result = WithoutRows(json, setting, seed, id);
  const std::optional<double> sent = NumberAt(json, "bytes_sent_per_peer_per_round");
  double contributions = 0;
  for (const absl::string_view line : absl::StrSplit(metrics, '\n', absl::SkipEmpty())) {
    const Json figures = Parsed(line);
    if (!figures.is_object() || !figures.contains("version")) {
      return absl::DataLossError(absl::StrCat(id, ": metrics.jsonl of the run is damaged"));
    }
    ResultRow row;
    row.version = CountAt(figures, "version");
    contributions += NumberAt(figures, "train/contributors").value_or(0);
    if (sent) row.bytes = contributions * *sent;
    for (const NamedFigure& one : kFigures) row.*one.figure = NumberAt(figures, one.in_metrics);
    result.rows.push_back(row);
  }
  return result;
}

std::string ResultLine(const RunResult& result) {
  Json json = {{"setting", result.setting},
               {"seed", result.seed},
               {"id", result.id},
               {"parameters", result.parameters == 0 ? Json() : Json(result.parameters)},
               {"codec", result.codec},
               {"state_digest", result.state_digest},
               {"loss_unit", result.loss_unit},
               {"wall_seconds", OrNull(result.wall_seconds)},
               {"least_busy", OrNull(result.least_busy)},
               {"rows", Json::array()}};
  for (const ResultRow& row : result.rows) {
    Json one = {{"version", row.version}, {"bytes", OrNull(row.bytes)}};
    for (const NamedFigure& named : kFigures) one[named.in_results] = OrNull(row.*named.figure);
    json["rows"].push_back(std::move(one));
  }
  return JsonLine(json);
}

absl::StatusOr<RunResult> ParseResultLine(absl::string_view line) {
  const Json json = Parsed(line);
  if (!json.is_object() || !json.contains("rows") || !json["rows"].is_array()) {
    return absl::DataLossError("a line of results.jsonl is damaged");
  }
  RunResult result =
      WithoutRows(json, TextAt(json, "setting"), CountAt(json, "seed"), TextAt(json, "id"));
  for (const Json& one : json["rows"]) {
    if (!one.is_object()) return absl::DataLossError("a line of results.jsonl is damaged");
    ResultRow row;
    row.version = CountAt(one, "version");
    row.bytes = NumberAt(one, "bytes");
    for (const NamedFigure& named : kFigures) row.*named.figure = NumberAt(one, named.in_results);
    result.rows.push_back(row);
  }
  return result;
}

}  // namespace atolld
