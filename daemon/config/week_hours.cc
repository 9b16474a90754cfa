#include "daemon/config/week_hours.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "compression/base/status_macros.h"

namespace atolld {
namespace {

constexpr absl::string_view kDays[] = {"mon", "tue", "wed", "thu", "fri", "sat", "sun"};
constexpr int kDayMinutes = 24 * 60;

std::optional<int> DayOf(absl::string_view text) {
  for (int day = 0; day < 7; ++day) {
    if (absl::EqualsIgnoreCase(text, kDays[day])) return day;
  }
  return std::nullopt;
}

// Returns minutes from midnight; "24:00" is the end of a day.
std::optional<int> MinuteOf(absl::string_view text) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, ':');
  int hour = 0;
  int minute = 0;
  if (parts.size() != 2 || parts[0].empty() || parts[0].size() > 2 || parts[1].size() != 2 ||
      !absl::ascii_isdigit(static_cast<unsigned char>(parts[0][0])) ||
      !absl::ascii_isdigit(static_cast<unsigned char>(parts[1][0])) ||
      !absl::SimpleAtoi(parts[0], &hour) || !absl::SimpleAtoi(parts[1], &minute) || minute > 59 ||
      hour > 24 || (hour == 24 && minute > 0)) {
    return std::nullopt;
  }
  return hour * 60 + minute;
}

// Parses "mon" or "mon-fri".
absl::StatusOr<std::vector<int>> DaysOf(absl::string_view text) {
  const std::pair<absl::string_view, absl::string_view> ends =
      absl::StrSplit(text, absl::MaxSplits('-', 1));
  const std::optional<int> first = DayOf(ends.first);
  const std::optional<int> last = ends.second.empty() ? first : DayOf(ends.second);
  if (!first || !last || text.back() == '-') {
    return absl::InvalidArgumentError(
        absl::StrCat("'", text, "' are not days; they look like mon, or mon-fri"));
  }
  std::vector<int> days = {*first};
  for (int day = *first; day != *last;) days.push_back(day = (day + 1) % 7);
  return days;
}

// Parses "18:00-08:00" into its first minute and its length.
absl::StatusOr<std::pair<int, int>> TimesOf(absl::string_view text) {
  const std::vector<absl::string_view> ends = absl::StrSplit(text, '-');
  const std::optional<int> from = MinuteOf(ends[0]);
  const std::optional<int> to = ends.size() == 2 ? MinuteOf(ends[1]) : std::nullopt;
  if (!from || !to || *from == *to || *from == kDayMinutes) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", text, "' are not times; they look like 18:00-08:00, and the two differ"));
  }
  return std::make_pair(*from, *to > *from ? *to - *from : *to + kDayMinutes - *from);
}

int MinuteOfWeek(absl::Time now, const absl::TimeZone& zone) {
  const absl::CivilMinute minute = absl::ToCivilMinute(now, zone);
  const absl::Weekday weekday = absl::GetWeekday(absl::CivilDay(minute));
  return static_cast<int>(weekday) * kDayMinutes + minute.hour() * 60 + minute.minute();
}

}  // namespace

absl::StatusOr<WeekHours> WeekHours::Parse(absl::string_view text) {
  WeekHours hours;
  if (absl::StripAsciiWhitespace(text).empty()) return hours;
  hours.open_.reset();
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    const std::vector<absl::string_view> words =
        absl::StrSplit(absl::StripAsciiWhitespace(part), ' ', absl::SkipEmpty());
    if (words.empty() || words.size() > 2) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", part, "' is not a part of a week; one looks like mon-fri 18:00-08:00"));
    }
    const bool begins_with_days = absl::ascii_isalpha(static_cast<unsigned char>(words[0][0]));
    std::vector<int> days = {0, 1, 2, 3, 4, 5, 6};
    std::pair<int, int> times = {0, kDayMinutes};
    if (begins_with_days) {
      ASSIGN_OR_RETURN(days, DaysOf(words[0]));
    }
    if (!begins_with_days || words.size() == 2) {
      ASSIGN_OR_RETURN(times, TimesOf(words.back()));
    }
    if (!begins_with_days && words.size() == 2) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", part, "': days stand before times, as in mon-fri 18:00-08:00"));
    }
    for (const int day : days) {
      for (int i = 0; i < times.second; ++i) {
        hours.open_.set(static_cast<size_t>((day * kDayMinutes + times.first + i) % kMinutes));
      }
    }
  }
  return hours;
}

bool WeekHours::Contains(absl::Time now, const absl::TimeZone& zone) const {
  return open_.test(static_cast<size_t>(MinuteOfWeek(now, zone)));
}

absl::Duration WeekHours::UntilChange(absl::Time now, const absl::TimeZone& zone) const {
  const int first = MinuteOfWeek(now, zone);
  const absl::Duration into = now - absl::FromCivil(absl::ToCivilMinute(now, zone), zone);
  for (int i = 1; i < kMinutes; ++i) {
    const size_t minute = static_cast<size_t>((first + i) % kMinutes);
    if (open_.test(minute) != open_.test(static_cast<size_t>(first))) {
      return absl::Minutes(i) - into;
    }
  }
  return absl::InfiniteDuration();
}

}  // namespace atolld
