// The log of a process of Atoll, which is written to standard error or appended to a file.
//
// Writers never wait: lines are handed over to a LineWriter (line_writer.h), which drops and counts
// the lines that cannot be written.
//
// Each event is one line: "2026-03-01T12:00:00.123Z info round 12: ...", in UTC, or the same as a
// JSON object: {"time":"...","level":"info","process":"peer","run":"books","peer":"p1","round":12,
// "message":"..."}. Unprintable characters are escaped (Printable), because a line may quote
// untrusted text. Thread-safe. No other code uses the logging library.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/statusor.h"
#include "daemon/env/env.h"
#include "daemon/env/line_writer.h"

namespace atolld {

// Parses "debug", "info", "warning" or "error". Fails with INVALID_ARGUMENT if the text is not one
// of these; the message names all four.
absl::StatusOr<Log::Level> ParseLogLevel(absl::string_view text);

class ProcessLog final : public Log {
 public:
  struct Options {
    Level level = Level::kInfo;  // Lines below this level are dropped.
    std::string file;            // The file to which the log is appended; standard error if empty.
    bool json = false;           // If true, each line is a JSON object, without colours.
  };

  // Identifies the process that writes. These are fields of each JSON object, which leaves out the
  // empty ones; text lines do not have them.
  struct Context {
    std::string process;  // The kind of process, such as "coordinator" or "peer".
    std::string run;
    std::string peer;
  };

  // Fails with UNKNOWN if the file cannot be opened; the message names the file.
  static absl::StatusOr<std::unique_ptr<ProcessLog>> Open(const Options& options);
  // Waits until everything is written, but at most a second.
  ~ProcessLog() override;

  void SetLevel(Level level);  // May be called from any thread.
  // Applies to all lines from now on. May be called from any thread.
  void SetContext(const Context& context);

  // Never blocks. The line is written soon if the descriptor accepts it.
  void Write(Level level, absl::string_view line) override;

 private:
  struct Pattern;
  ProcessLog(const Options& options, int fd);
  std::string Members(absl::string_view line) const;
  std::string Format(Level level, absl::string_view line) const;

  const bool json_;
  const bool colours_;
  std::atomic<Level> level_;

  // Guarded by mutex_.
  mutable std::mutex mutex_;
  const std::unique_ptr<Pattern> pattern_;
  std::string who_;  // The context, formatted as members of a JSON object.

  LineWriter writer_;  // The last member, because its thread uses all others.
};

}  // namespace atolld
