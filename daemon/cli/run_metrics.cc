#include "daemon/cli/run_metrics.h"

#include <cmath>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "compression/base/status_macros.h"
#include "daemon/cli/status_json.h"
#include "membership/run/utilisation.h"

namespace atolld {
namespace {

using Json = nlohmann::ordered_json;

// 0 stands for a figure that was not measured.
Json Measured(double value) { return value == 0 ? Json(nullptr) : Json(value); }

// Every column, with what is known of a version without a round.
Json EmptyRow(uint64_t version) {
  return {{"version", version},
          {"time/elapsed_seconds", nullptr},
          {"train/loss", nullptr},
          {"validation/loss", nullptr},
          {"validation/own_mean", nullptr},
          {"validation/own_tenth", nullptr},
          {"validation/own_ninetieth", nullptr},
          {"train/tokens", nullptr},
          {"train/total_tokens", nullptr},
          {"train/contributors", nullptr},
          {"train/parties", nullptr},
          {"time/train_seconds", nullptr},
          {"time/exchange_seconds", nullptr},
          {"time/predicted_seconds", nullptr},
          {"time/audit_seconds", nullptr},
          {"time/compute_utilization", nullptr},
          {"exchange/hidden_bytes", nullptr},
          {"exchange/waited_bytes", nullptr},
          {"exchange/revisions", nullptr},
          {"exchange/plan", nullptr},
          {"noise/scale_tokens", nullptr},
          {"privacy/epsilon", nullptr},
          {"privacy/clip", nullptr}};
}

void Fill(const v1::RoundRecord& round, Json* row) {
  Json& figures = *row;
  figures["time/elapsed_seconds"] = round.elapsed_seconds();
  figures["train/loss"] = Measured(round.train_loss());
  figures["train/tokens"] = round.tokens();
  figures["train/contributors"] = round.contributors();
  figures["train/parties"] = Measured(round.parties());
  figures["time/train_seconds"] = Measured(round.train_seconds());
  figures["time/exchange_seconds"] = Measured(round.exchange_seconds());
  figures["time/predicted_seconds"] = Measured(round.predicted_seconds());
  if (round.has_utilisation()) {
    figures["time/compute_utilization"] = OrNull(TrainedShare(round.utilisation()));
    figures["exchange/hidden_bytes"] = round.utilisation().hidden_bytes();
    figures["exchange/waited_bytes"] = round.utilisation().waited_bytes();
  }
  figures["noise/scale_tokens"] = Measured(round.noise_scale());
  figures["privacy/epsilon"] = Measured(round.epsilon());
  figures["privacy/clip"] = Measured(round.clip());
  if (round.revisions() == 0) return;  // adopted: only the entry's header is known
  figures["time/audit_seconds"] = round.audit_seconds();
  figures["exchange/revisions"] = round.revisions();
  figures["exchange/plan"] = round.plan();
}

// Of kMetricsFile: a line has some 400 bytes.
constexpr uint64_t kMostBytes = uint64_t{1} << 30;

std::string CsvField(const Json& value) {
  const bool number = value.is_number_float();
  if (value.is_null() || (number && !std::isfinite(value.get<double>()))) return "";
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
    for (const v1::RoundRecord& round : page.rounds()) Fill(round, &row(round.version()));
    for (const v1::EvaluationRecord& evaluation : page.evaluations()) {
      Json& figures = row(evaluation.version());
      figures["validation/loss"] = evaluation.loss();
      if (evaluation.own_parties() > 0) {
        figures["validation/own_mean"] = evaluation.own_mean();
        figures["validation/own_tenth"] = evaluation.own_tenth();
        figures["validation/own_ninetieth"] = evaluation.own_ninetieth();
      }
      if (figures["time/elapsed_seconds"].is_null()) {
        figures["time/elapsed_seconds"] = evaluation.elapsed_seconds();
      }
    }
  }
  // From the newest version back, so that it does not matter where the pages begin.
  uint64_t total = pages.empty() ? 0 : pages.back().tokens();
  std::vector<Json> ordered;
  for (auto at = rows.rbegin(); at != rows.rend(); ++at) {
    Json& figures = at->second;
    figures["train/total_tokens"] = total;
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
