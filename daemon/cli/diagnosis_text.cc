#include "daemon/cli/diagnosis_text.h"

#include <nlohmann/json.hpp>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "compression/base/words.h"
#include "daemon/cli/diagnosis.h"
#include "daemon/program/format.h"

namespace atolld {
namespace {

// Returns a line of a config; a value that is not a number is quoted.
std::string ConfigLine(const RunFinding& finding) {
  if (finding.value.empty()) return finding.key;
  double number = 0;
  const bool plain = absl::SimpleAtod(finding.value, &number);
  const char* const quote = plain ? "" : "\"";
  return absl::StrCat(finding.key, " = ", quote, finding.value, quote);
}

}  // namespace

nlohmann::ordered_json DiagnosisJson(const v1::RunStatus& status) {
  const RoundTimes times = UsualTimes(status);
  nlohmann::ordered_json json = {
      {"run_id", status.spec().run_id()}, {"version", status.version()},
      {"rounds", times.rounds},           {"round_seconds", times.round},
      {"train_seconds", times.train},     {"exchange_seconds", times.exchange},
      {"audit_seconds", times.audit}};
  const std::vector<RunFinding> findings = Diagnose(status);
  json["healthy"] = findings.empty() && times.rounds >= kLeastRoundsToJudge;
  json["findings"] = nlohmann::ordered_json::array();
  for (const RunFinding& finding : findings) {
    json["findings"].push_back({{"cause", finding.cause},
                                {"peer", finding.peer},
                                {"what", finding.what},
                                {"seconds", finding.seconds},
                                {"share", finding.share},
                                {"key", finding.key},
                                {"value", finding.value},
                                {"advice", finding.advice}});
  }
  return json;
}

std::vector<std::string> DiagnosisText(const v1::RunStatus& status) {
  const RoundTimes times = UsualTimes(status);
  std::vector<std::string> lines;
  if (times.rounds > 0) {
    lines.push_back(absl::StrCat(
        "run ", status.spec().run_id(), " at version ", status.version(), ": a round takes ",
        FormatFigure(times.round), " (training ", FormatFigure(times.train), ", exchange ",
        FormatFigure(times.exchange), ", audit ", FormatFigure(times.audit),
        "), by the medians of the last ", Counted(times.rounds, "round")));
  }
  const std::vector<RunFinding> findings = Diagnose(status);
  for (size_t i = 0; i < findings.size(); ++i) {
    const RunFinding& finding = findings[i];
    const bool costs = finding.share >= 0.001;
    lines.emplace_back();
    lines.push_back(absl::StrCat(
        i + 1, ". ", finding.what,
        costs ? absl::StrCat(" (costs ", FormatShare(finding.share),
                             finding.seconds > 0
                                 ? absl::StrCat(", ", FormatFigure(finding.seconds), " a round")
                                 : "",
                             ")")
              : ""));
    if (!finding.key.empty() && finding.key.back() != ']') {  // not a whole section
      lines.push_back(absl::StrCat("   ", ConfigLine(finding)));
    }
    lines.push_back(absl::StrCat("   ", finding.advice));
  }
  if (!findings.empty()) return lines;
  if (status.has_seal()) {
    lines.push_back("the run is sealed: nothing slows it any more");
  } else if (times.rounds < kLeastRoundsToJudge) {
    lines.push_back(absl::StrCat("too early to say: ", Counted(times.rounds, "round"),
                                 " of this run can be judged, and it takes ", kLeastRoundsToJudge));
  } else {
    lines.push_back("healthy: nothing costs a twentieth of the time or more");
  }
  return lines;
}

}  // namespace atolld
