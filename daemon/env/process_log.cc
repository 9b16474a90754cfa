#include "daemon/env/process_log.h"

#include <unistd.h>

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "compression/base/names.h"
#include "compression/base/terminal.h"
#include "spdlog/logger.h"
#include "spdlog/pattern_formatter.h"
#include "spdlog/sinks/basic_file_sink.h"
#include "spdlog/sinks/stdout_color_sinks.h"

namespace atolld {
namespace {

constexpr char kTextPattern[] = "%Y-%m-%dT%H:%M:%S.%eZ %^%l%$ %v";
// What is written is the object's other members.
constexpr char kJsonPattern[] = R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ","level":"%l",%v})";

// Of text that is printable: nothing else in it means anything to JSON.
std::string Quoted(absl::string_view printable) {
  return absl::StrCat("\"", absl::StrReplaceAll(printable, {{"\\", "\\\\"}, {"\"", "\\\""}}), "\"");
}

void AddMember(absl::string_view name, const std::string& value, std::string* members) {
  if (!value.empty()) absl::StrAppend(members, "\"", name, "\":", Quoted(Printable(value)), ",");
}

// Takes "round 12: " off the front of a line.
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

struct ProcessLog::Sink {
  explicit Sink(const std::vector<spdlog::sink_ptr>& sinks)
      : logger("atoll", sinks.begin(), sinks.end()) {}
  spdlog::logger logger;
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
  std::vector<spdlog::sink_ptr> sinks;
  if (options.to_standard_error) {
    const bool colours = !options.json && TerminalFor(isatty(STDERR_FILENO) != 0).colours;
    sinks.push_back(std::make_shared<spdlog::sinks::stderr_color_sink_mt>(
        colours ? spdlog::color_mode::automatic : spdlog::color_mode::never));
  }
  if (!options.file.empty()) {
    try {
      sinks.push_back(std::make_shared<spdlog::sinks::basic_file_sink_mt>(options.file));
    } catch (const spdlog::spdlog_ex& error) {
      return absl::UnknownError(
          absl::StrCat(options.file, ": cannot open the log: ", error.what()));
    }
  }
  auto sink = std::make_unique<Sink>(sinks);
  sink->logger.set_formatter(std::make_unique<spdlog::pattern_formatter>(
      options.json ? kJsonPattern : kTextPattern, spdlog::pattern_time_type::utc));
  sink->logger.set_level(ToSpdlog(options.level));
  sink->logger.flush_on(spdlog::level::info);
  return std::unique_ptr<ProcessLog>(new ProcessLog(std::move(sink), options.json));
}

ProcessLog::ProcessLog(std::unique_ptr<Sink> sink, bool json)
    : json_(json), sink_(std::move(sink)) {}

ProcessLog::~ProcessLog() { sink_->logger.flush(); }

void ProcessLog::SetLevel(Level level) { sink_->logger.set_level(ToSpdlog(level)); }

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

void ProcessLog::Write(Level level, absl::string_view line) {
  const spdlog::level::level_enum as = ToSpdlog(level);
  if (!sink_->logger.should_log(as)) return;
  if (json_) {
    sink_->logger.log(as, spdlog::string_view_t(Members(line)));
  } else if (IsPrintable(line)) {
    sink_->logger.log(as, spdlog::string_view_t(line.data(), line.size()));
  } else {
    sink_->logger.log(as, spdlog::string_view_t(Printable(line)));
  }
}

}  // namespace atolld
