// RepeatedLines: writes a repeated event to the log only once, and then counts the repeats.
//
// A line is written at its own level if no line with the same key was written at its level in the
// last ten minutes. Other lines are written at the debug level, and the next line at its own level
// says how many there were. Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "daemon/env/env.h"

namespace atolld {

class RepeatedLines {
 public:
  // Both must outlive this object.
  RepeatedLines(const Executor& executor, Log& log) : executor_(executor), log_(log) {}

  void Write(Log::Level level, const std::string& key, absl::string_view line);

 private:
  struct Said {
    absl::Time at;
    uint64_t since = 0;  // The number of lines that were written at the debug level since then.
  };

  const Executor& executor_;
  Log& log_;
  std::mutex mutex_;
  std::map<std::string, Said> said_;  // Guarded by mutex_.
};

// Removes the digits from a text, so that the same event in two rounds has the same key.
std::string WithoutNumbers(std::string text);

}  // namespace atolld
