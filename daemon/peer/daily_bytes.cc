#include "daemon/peer/daily_bytes.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "compression/base/status_macros.h"

namespace atolld {
namespace {

constexpr uint64_t kLongestFile = 256;

}  // namespace

DayCount Advance(const DayCount& count, absl::CivilDay today, const BytesToday& more) {
  if (today > count.day) return {today, more};
  return {today, {count.bytes.sent + more.sent, count.bytes.received + more.received}};
}

std::string FormatDayCount(const DayCount& count) {
  return absl::StrCat(absl::FormatCivilTime(count.day), " ", count.bytes.sent, " ",
                      count.bytes.received, "\n");
}

absl::StatusOr<DayCount> ParseDayCount(absl::string_view text) {
  absl::ConsumeSuffix(&text, "\n");
  const std::vector<absl::string_view> parts = absl::StrSplit(text, ' ');
  DayCount count;
  if (parts.size() == 3 && absl::ParseCivilTime(parts[0], &count.day) &&
      absl::SimpleAtoi(parts[1], &count.bytes.sent) &&
      absl::SimpleAtoi(parts[2], &count.bytes.received)) {
    return count;
  }
  return absl::InvalidArgumentError("a day's count is of the form 2025-01-31 1234567 89");
}

DailyBytes::DailyBytes(Env env, std::string path, absl::TimeZone zone,
                       std::function<BytesToday()> passed)
    : env_(env), path_(std::move(path)), zone_(zone), passed_(std::move(passed)) {}

void DailyBytes::Start() {
  count_.day = absl::ToCivilDay(env_.executor.WallTime(), zone_);
  if (env_.files.Exists(path_)) {
    const absl::StatusOr<std::string> text = ReadFile(env_.files, path_, kLongestFile);
    const absl::StatusOr<DayCount> kept = text.ok() ? ParseDayCount(*text) : text.status();
    if (kept.ok()) {
      count_ = *kept;
      saved_ = *text;
    } else {
      env_.log.Warning(absl::StrCat(path_, ": ", kept.status().message(),
                                    "; the bytes of this day are counted from now on"));
    }
  }
  SaveFromTimeToTime();
}

void DailyBytes::Take() {
  const BytesToday passed = passed_();
  count_ = Advance(count_, absl::ToCivilDay(env_.executor.WallTime(), zone_),
                   {passed.sent - taken_.sent, passed.received - taken_.received});
  taken_ = passed;
}

BytesToday DailyBytes::Today() {
  Take();
  return count_.bytes;
}

absl::Status DailyBytes::Save() {
  Take();
  const std::string text = FormatDayCount(count_);
  if (text == saved_) return absl::OkStatus();
  RETURN_IF_ERROR(WriteFileDurably(env_.files, path_, BytesOf(text)));
  saved_ = text;
  return absl::OkStatus();
}

// A full disk is logged once until a save succeeds again; counting continues.
void DailyBytes::SaveFromTimeToTime() {
  env_.executor.RunAfter(kBetweenSaves, guard_.Wrap([this] {
    Take();
    const auto text = std::make_shared<std::string>(FormatDayCount(count_));
    if (*text == saved_) return SaveFromTimeToTime();
    const auto written = std::make_shared<absl::Status>();
    env_.executor.Offload([files = &env_.files, path = path_, text,
                           written] { *written = WriteFileDurably(*files, path, BytesOf(*text)); },
                          guard_.Wrap([this, text, written] {
                            if (written->ok()) saved_ = *text;
                            if (!written->ok() && !failed_) {
                              env_.log.Warning(absl::StrCat(
                                  "the bytes of this day cannot be kept: ", written->message()));
                            }
                            failed_ = !written->ok();
                            SaveFromTimeToTime();
                          }));
  }));
}

}  // namespace atolld
