// Where a process of Atoll writes what happened: standard error and, if asked for, a file that
// grows.
//
// One line an event: "2026-03-01T12:00:00.123Z info round 12: ...", UTC, or the same as a JSON
// object: {"time":"...","level":"info","process":"peer","run":"books","peer":"p1","round":12,
// "message":"..."}. What is not for showing is escaped (Printable): a line may quote a stranger.
// Any thread. The only file of the code base that knows the logging library.
#pragma once

#include <memory>
#include <mutex>
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
    std::string file;   // appended to; empty: none
    bool json = false;  // an object a line, without colours
  };

  // Who writes. Fields of an object; a line of text has none of them, nor an object those that are
  // empty.
  struct Context {
    std::string process;  // "coordinator", "peer"
    std::string run;
    std::string peer;
  };

  // UNKNOWN names the file when it cannot be opened.
  static absl::StatusOr<std::unique_ptr<ProcessLog>> Open(const Options& options);
  ~ProcessLog() override;  // flushes

  void SetLevel(Level level);  // any thread
  // Of all lines from now on. Any thread.
  void SetContext(const Context& context);

  // Lines of level info and above are flushed at once, so that they survive a kill.
  void Write(Level level, absl::string_view line) override;

 private:
  struct Sink;
  ProcessLog(std::unique_ptr<Sink> sink, bool json);
  std::string Members(absl::string_view line) const;

  const bool json_;
  const std::unique_ptr<Sink> sink_;

  // Guarded by mutex_.
  mutable std::mutex mutex_;
  std::string who_;  // the context as members of an object
};

}  // namespace atolld
