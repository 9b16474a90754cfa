#include "daemon/experiment/run_log.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "daemon/cli/local/local_run.h"
#include "daemon/cli/run_metrics.h"
#include "daemon/experiment/run_result.h"
#include "daemon/program/process.h"

namespace atolld {
namespace {

constexpr uint64_t kMostReport = 16 << 20;

}  // namespace

std::string LastLineOf(const std::string& path) {
  std::string last;
  const std::string tail = TailOfLog(path);
  for (const absl::string_view line : absl::StrSplit(tail, '\n', absl::SkipWhitespace())) {
    last = std::string(absl::StripAsciiWhitespace(line));
  }
  return last;
}

std::string ReasonIn(absl::string_view log) {
  constexpr absl::string_view kHints[] = {"Go on with:", "Try next:", "no round was committed;",
                                          "  atoll "};
  std::string reason, last;
  bool quotes = false;  // lines below the reason, which are indented
  for (const absl::string_view line : absl::StrSplit(log, '\n', absl::SkipWhitespace())) {
    const std::string text(absl::StripAsciiWhitespace(line));
    absl::string_view rest = line;
    if (absl::ConsumePrefix(&rest, kWhyItEnded)) {
      reason = std::string(absl::StripAsciiWhitespace(rest));
      last.clear();
      quotes = true;
      continue;
    }
    quotes = quotes && absl::StartsWith(line, "  ");
    if (quotes) last = text;
    const bool hint = std::any_of(std::begin(kHints), std::end(kHints), [&](absl::string_view one) {
      return absl::StartsWith(line, one);
    });
    if (quotes || hint) continue;
    reason.clear();  // of an earlier process, whose log this one goes on with
    last = text;
  }
  if (reason.empty()) return last;
  return absl::EndsWith(reason, ":") && !last.empty() ? absl::StrCat(reason, " ", last) : reason;
}

uint64_t NewestRound(absl::string_view log) {
  uint64_t newest = 0;
  for (absl::string_view line : absl::StrSplit(log, '\n')) {
    if (!absl::ConsumePrefix(&line, "round ")) continue;
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(line, absl::MaxSplits(" of ", 1));
    uint64_t round = 0;
    if (absl::SimpleAtoi(parts.first, &round) && !parts.second.empty()) newest = round;
  }
  return newest;
}

bool IsFinishedRun(Files& files, const RunPaths& paths) {
  const absl::StatusOr<std::string> report = ReadFile(files, paths.report, kMostReport);
  return report.ok() && IsSealedReport(*report) &&
         files.Exists(absl::StrCat(paths.dir, "/", kMetricsFile));
}

}  // namespace atolld
