#include "daemon/env/process_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "compression/base/names.h"
#include "compression/base/terminal.h"
#include "compression/base/words.h"
#include "spdlog/details/log_msg.h"
#include "spdlog/pattern_formatter.h"

namespace atolld {
namespace {

constexpr mode_t kLogFileMode = 0644;

constexpr char kTextPattern[] = "%Y-%m-%dT%H:%M:%S.%eZ %^%l%$ %v";
// The text of a line is the rest of the object's members.
constexpr char kJsonPattern[] = R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ","level":"%l",%v})";

// Quotes printable text, in which only these characters have a meaning for JSON.
std::string Quoted(absl::string_view printable) {
  return absl::StrCat("\"", absl::StrReplaceAll(printable, {{"\\", "\\\\"}, {"\"", "\\\""}}), "\"");
}

void AddMember(absl::string_view name, const std::string& value, std::string* members) {
  if (!value.empty()) absl::StrAppend(members, "\"", name, "\":", Quoted(Printable(value)), ",");
}

// Removes "round 12: " from the front of a line.
std::optional<uint64_t> ConsumeRound(absl::string_view* line) {
  absl::string_view rest = *line;
  if (!absl::ConsumePrefix(&rest, "round ")) return std::nullopt;
  const size_t end = rest.find(": ");
  uint64_t round = 0;
  if (end == absl::string_view::npos || !absl::SimpleAtoi(rest.substr(0, end), &round)) {
    return std::nullopt;
  }
  *line = rest.substr(end + 2);
  return round;
}

// The colours of spdlog's own sinks.
constexpr char kColourEnd[] = "\x1b[m";

const char* ColourOf(Log::Level level) {
  switch (level) {
    case Log::Level::kDebug:
      return "\x1b[36m";  // cyan
    case Log::Level::kInfo:
      return "\x1b[32m";  // green
    case Log::Level::kWarning:
      return "\x1b[33m\x1b[1m";  // yellow, bold
    case Log::Level::kError:
      break;
  }
  return "\x1b[31m\x1b[1m";  // red, bold
}

spdlog::level::level_enum ToSpdlog(Log::Level level) {
  switch (level) {
    case Log::Level::kDebug:
      return spdlog::level::debug;
    case Log::Level::kInfo:
      return spdlog::level::info;
    case Log::Level::kWarning:
      return spdlog::level::warn;
    case Log::Level::kError:
      return spdlog::level::err;
  }
  return spdlog::level::err;
}

}  // namespace

struct ProcessLog::Pattern {
  spdlog::pattern_formatter formatter;
};

absl::StatusOr<Log::Level> ParseLogLevel(absl::string_view text) {
  if (text == "debug") return Log::Level::kDebug;
  if (text == "info") return Log::Level::kInfo;
  if (text == "warning") return Log::Level::kWarning;
  if (text == "error") return Log::Level::kError;
  return absl::InvalidArgumentError(absl::StrCat("no log level is called \"", text,
                                                 "\"; there are debug, info, warning and error"));
}

absl::StatusOr<std::unique_ptr<ProcessLog>> ProcessLog::Open(const Options& options) {
  int fd = STDERR_FILENO;
  if (!options.file.empty()) {
    fd = open(options.file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, kLogFileMode);
    if (fd < 0) {
      return absl::UnknownError(
          absl::StrCat(options.file, ": cannot open the log: ", std::strerror(errno)));
    }
  }
  return std::unique_ptr<ProcessLog>(new ProcessLog(options, fd));
}

ProcessLog::ProcessLog(const Options& options, int fd)
    : json_(options.json),
      colours_(!options.json && options.file.empty() && TerminalFor(isatty(fd) != 0).colours),
      level_(options.level),
      pattern_(new Pattern{spdlog::pattern_formatter(options.json ? kJsonPattern : kTextPattern,
                                                     spdlog::pattern_time_type::utc)}),
      writer_(fd, !options.file.empty(), [this](uint64_t dropped) {
        return Format(Level::kWarning,
                      absl::StrCat(Counted(dropped, "line"),
                                   " of this log could not be written and were dropped: nobody "
                                   "read them, or the disk was full"));
      }) {}

ProcessLog::~ProcessLog() = default;

void ProcessLog::SetLevel(Level level) { level_ = level; }

void ProcessLog::SetContext(const Context& context) {
  std::string who;
  AddMember("process", context.process, &who);
  AddMember("run", context.run, &who);
  AddMember("peer", context.peer, &who);
  const std::lock_guard<std::mutex> lock(mutex_);
  who_ = std::move(who);
}

std::string ProcessLog::Members(absl::string_view line) const {
  std::string members;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    members = who_;
  }
  const std::optional<uint64_t> round = ConsumeRound(&line);
  if (round.has_value()) absl::StrAppend(&members, "\"round\":", *round, ",");
  absl::StrAppend(&members, "\"message\":", Quoted(Printable(line)));
  return members;
}

std::string ProcessLog::Format(Level level, absl::string_view line) const {
  const std::string text = json_ ? Members(line) : Printable(line);
  spdlog::details::log_msg message("atoll", ToSpdlog(level), text);
  spdlog::memory_buf_t formatted;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    pattern_->formatter.format(message, formatted);
  }
  std::string whole(formatted.data(), formatted.size());
  if (colours_ && message.color_range_end > message.color_range_start) {
    whole.insert(message.color_range_end, kColourEnd);
    whole.insert(message.color_range_start, ColourOf(level));
  }
  return whole;
}

void ProcessLog::Write(Level level, absl::string_view line) {
  if (level >= level_.load()) writer_.Write(Format(level, line));
}

}  // namespace atolld
