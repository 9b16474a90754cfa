#include "daemon/machine/availability.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "compression/base/names.h"
#include "compression/base/status_macros.h"

namespace atolld {
namespace {

constexpr uint64_t kLargestTrace = uint64_t{1} << 30;
constexpr size_t kNamedParties = 8;  // in a message
constexpr size_t kShownOfTrace = 40;
constexpr double kLongestTrace = 1e10;  // three centuries
// A moment of a trace is met to within this; smaller differences are the rounding of clocks.
constexpr double kSameMoment = 1e-6;

using Times = std::vector<std::pair<double, double>>;

// Returns the times in order, and joins those that touch.
Times Joined(Times times) {
  std::sort(times.begin(), times.end());
  Times joined;
  for (const auto& time : times) {
    if (!joined.empty() && time.first <= joined.back().second) {
      joined.back().second = std::max(joined.back().second, time.second);
    } else {
      joined.push_back(time);
    }
  }
  return joined;
}

absl::StatusOr<double> TraceSeconds(absl::string_view text) {
  double seconds = 0;
  if (!absl::SimpleAtod(text, &seconds) || !(seconds >= 0 && seconds <= kLongestTrace)) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", OneLine(text, kShownOfTrace), "' is not a number of seconds"));
  }
  return seconds;
}

absl::StatusOr<Times> ParseTimes(absl::string_view text, double period) {
  const double end = period > 0 ? period : std::numeric_limits<double>::infinity();
  if (text == "never") return Times();
  if (text == "always") return Times{{0, end}};
  Times times;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    const std::vector<absl::string_view> ends = absl::StrSplit(part, '-');
    if (ends.size() != 2) {
      return absl::InvalidArgumentError(absl::StrCat("'", OneLine(part, kShownOfTrace),
                                                     "' is not a time; one looks like 0-3600"));
    }
    ASSIGN_OR_RETURN(const double from, TraceSeconds(ends[0]));
    ASSIGN_OR_RETURN(const double to, TraceSeconds(ends[1]));
    if (to <= from || to > end) {
      return absl::InvalidArgumentError(absl::StrCat("'", OneLine(part, kShownOfTrace),
                                                     "' must end after it begins",
                                                     period > 0 ? ", and within the period" : ""));
    }
    times.emplace_back(from, to);
  }
  return Joined(std::move(times));
}

}  // namespace

void Availability::Add(const std::string& party, Line line) {
  names_[party] = lines_.size();
  lines_.push_back(std::move(line));
}

absl::Status Availability::ParseLine(absl::string_view text, double period) {
  const std::vector<std::string> words =
      absl::StrSplit(text, absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
  if (words.size() != 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", OneLine(text, kShownOfTrace),
                     "' is not a line of a trace; one looks like \"1 0-3600,7200-9000\""));
  }
  if (names_.count(words[0]) > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("party '", OneLine(words[0], kShownOfTrace), "' has a line already"));
  }
  Line line;
  line.period = period;
  ASSIGN_OR_RETURN(line.times, ParseTimes(words[1], period));
  Add(words[0], std::move(line));
  return absl::OkStatus();
}

absl::Status Availability::ParseFedScale(absl::string_view text) {
  const nlohmann::json json = nlohmann::json::parse(text.begin(), text.end(), nullptr, false);
  if (!json.is_object()) return absl::InvalidArgumentError("it is not a JSON object of clients");
  std::vector<std::pair<uint64_t, std::string>> order;
  for (const auto& [client, entry] : json.items()) {
    uint64_t number = 0;
    if (!absl::SimpleAtoi(client, &number)) number = std::numeric_limits<uint64_t>::max();
    order.emplace_back(number, client);
  }
  std::sort(order.begin(), order.end());
  const auto numbers = [](const nlohmann::json& entry, const char* key) {
    std::vector<double> found;
    const auto list = entry.find(key);
    if (list == entry.end() || !list->is_array()) return found;
    for (const nlohmann::json& one : *list) {
      if (one.is_number()) found.push_back(one.get<double>());
    }
    return found;
  };
  for (const auto& [number, client] : order) {
    const nlohmann::json& entry = json[client];
    if (!entry.is_object() || !entry.contains("finish_time") || !entry["finish_time"].is_number() ||
        !(entry["finish_time"].get<double>() > 0)) {
      return absl::InvalidArgumentError(
          absl::StrCat("client '", OneLine(client, kShownOfTrace),
                       "' has no finish_time above 0; it has active, inactive and finish_time"));
    }
    Line line;
    line.period = entry["finish_time"].get<double>();
    const std::vector<double> active = numbers(entry, "active");
    const std::vector<double> inactive = numbers(entry, "inactive");
    for (size_t i = 0; i < std::min(active.size(), inactive.size()); ++i) {
      const double from = std::clamp(active[i], 0.0, line.period);
      const double to = std::clamp(inactive[i], 0.0, line.period);
      if (to > from) line.times.emplace_back(from, to);
    }
    line.times = Joined(std::move(line.times));
    Add(client, std::move(line));
  }
  return absl::OkStatus();
}

absl::StatusOr<Availability> Availability::Parse(absl::string_view text) {
  Availability trace;
  if (absl::StartsWith(absl::StripLeadingAsciiWhitespace(text), "{")) {
    RETURN_IF_ERROR(trace.ParseFedScale(text));
  } else {
    double period = 0;
    uint64_t number = 0;
    for (absl::string_view line : absl::StrSplit(text, '\n')) {
      ++number;
      line = absl::StripAsciiWhitespace(line.substr(0, line.find('#')));
      if (line.empty()) continue;
      absl::Status read;
      absl::string_view rest = line;
      if (absl::ConsumePrefix(&rest, "period ")) {
        const absl::StatusOr<double> seconds = TraceSeconds(absl::StripAsciiWhitespace(rest));
        if (!trace.lines_.empty()) {
          read = absl::InvalidArgumentError("a period stands before the first party");
        } else if (!seconds.ok() || *seconds <= 0) {
          read = absl::InvalidArgumentError("a period is of seconds, above 0");
        } else {
          period = *seconds;
        }
      } else {
        read = trace.ParseLine(line, period);
      }
      if (!read.ok()) return absl::InvalidArgumentError(absl::StrCat(number, ": ", read.message()));
    }
  }
  if (trace.lines_.empty()) return absl::InvalidArgumentError("it has no party");
  return trace;
}

absl::StatusOr<size_t> Availability::LineOf(const std::string& party) const {
  const auto found = names_.find(party);
  if (found != names_.end()) return found->second;
  std::vector<std::string> known;
  for (const auto& [name, line] : names_) {
    if (known.size() == kNamedParties) break;
    known.push_back(name);
  }
  return absl::NotFoundError(UnknownNameMessage("party", party, known));
}

size_t Availability::LineOfNumber(uint64_t party) const {
  const auto found = names_.find(absl::StrCat(party));
  if (found != names_.end()) return found->second;
  return static_cast<size_t>((party > 0 ? party - 1 : 0) % lines_.size());
}

double Availability::Within(const Line& line, double seconds) {
  if (line.period <= 0) return seconds;
  const double within = std::fmod(seconds, line.period);
  return within < 0 ? within + line.period : within;
}

bool Availability::There(size_t line, double seconds) const {
  const double at = Within(lines_[line], seconds);
  for (const auto& [from, to] : lines_[line].times) {
    if (at < from) return false;
    if (at < to) return true;
  }
  return false;
}

double Availability::SecondsUntilChange(size_t line, double seconds) const {
  const Line& own = lines_[line];
  const bool there = There(line, seconds);
  const double at = Within(own, seconds);
  double next = std::numeric_limits<double>::infinity();
  // Looks at this period and the next one, in which a time that the end of this one cuts may
  // continue.
  for (const double shift : {0.0, own.period}) {
    for (const auto& [from, to] : own.times) {
      for (const double moment : {from + shift, to + shift}) {
        if (moment > at && moment < next && There(line, moment) != there) next = moment;
      }
    }
    if (own.period <= 0) break;
  }
  return next - at;
}

absl::StatusOr<Availability> LoadAvailability(Files& files, const std::string& path) {
  const absl::StatusOr<std::string> text = ReadFile(files, path, kLargestTrace);
  if (!text.ok()) return Annotate(text.status(), "[availability] trace");
  absl::StatusOr<Availability> trace = Availability::Parse(*text);
  if (!trace.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ":", trace.status().message()));
  }
  return trace;
}

uint64_t NumberOfPeer(absl::string_view peer) {
  size_t begin = peer.size();
  while (begin > 0 && absl::ascii_isdigit(static_cast<unsigned char>(peer[begin - 1]))) --begin;
  uint64_t number = 0;
  return absl::SimpleAtoi(peer.substr(begin), &number) ? number : 0;
}

void TraceFollower::Restrict(absl::Time began, absl::Time wall, const absl::TimeZone& zone,
                             MachineVerdict* verdict) const {
  const double seconds = absl::ToDoubleSeconds(wall - began) * speed_ + kSameMoment;
  const bool there = trace_.There(line_, seconds);
  const double left = trace_.SecondsUntilChange(line_, seconds) / speed_;
  const absl::Time then = std::isfinite(left) ? wall + absl::Seconds(left) : absl::InfiniteFuture();
  if (there) {
    if (verdict->reasons.empty()) verdict->changes = std::min(verdict->changes, then);
    return;
  }
  std::string reason = kAwayForGood;
  if (then != absl::InfiniteFuture()) {
    reason = "away by its trace";
    const bool today = absl::ToCivilDay(wall, zone) == absl::ToCivilDay(then, zone);
    // Rounded to the second, so that a reason that lasts stays the same text.
    const absl::Time shown =
        absl::FromUnixSeconds(absl::ToUnixSeconds(then + absl::Milliseconds(500)));
    absl::StrAppend(&reason, " until ",
                    absl::FormatTime(today ? "%H:%M:%S" : "%Y-%m-%d %H:%M:%S", shown, zone));
  }
  verdict->changes = verdict->reasons.empty() ? then : std::max(verdict->changes, then);
  verdict->reasons.push_back(std::move(reason));
  verdict->may_train = false;
  verdict->may_exchange = false;
}

}  // namespace atolld
