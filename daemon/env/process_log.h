// Where a process of Atoll writes what happened: standard error and, if asked for, a file that
// grows.
//
// One line an event: "2026-03-01T12:00:00.123Z info round 12: ...", UTC. What is not for
// showing is escaped (Printable): a line may quote a stranger. Any thread. The only file of the
// code base that knows the logging library.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "daemon/env/env.h"

namespace atolld {

// "debug", "info", "warning" or "error"; INVALID_ARGUMENT names these.
absl::StatusOr<Log::Level> ParseLogLevel(absl::string_view text);

class ProcessLog final : public Log {
 public:
  struct Options {
    Level level = Level::kInfo;  // lines below it are dropped
    bool to_standard_error = true;
    std::string file;  // appended to; empty: none
  };

  // UNKNOWN names the file when it cannot be opened.
  static absl::StatusOr<std::unique_ptr<ProcessLog>> Open(const Options& options);
  ~ProcessLog() override;  // flushes

  // Lines of level info and above are flushed at once, so that they survive a kill.
  void Write(Level level, absl::string_view line) override;

 private:
  struct Sink;
  explicit ProcessLog(std::unique_ptr<Sink> sink);

  const std::unique_ptr<Sink> sink_;
};

}  // namespace atolld
