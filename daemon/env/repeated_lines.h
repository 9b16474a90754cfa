// RepeatedLines: what happens again and again is written once, then counted.
//
// A line is written if none of its key was within the last ten minutes; those in between are for
// the debug level alone, and the next one says how many they were. Any thread.
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
  // Both outlive it.
  RepeatedLines(const Executor& executor, Log& log) : executor_(executor), log_(log) {}

  void Write(Log::Level level, const std::string& key, absl::string_view line);

 private:
  struct Said {
    absl::Time at;
    uint64_t since = 0;  // not written since
  };

  const Executor& executor_;
  Log& log_;
  std::mutex mutex_;
  std::map<std::string, Said> said_;  // guarded by mutex_
};

// Of two rounds the same trouble has other numbers.
std::string WithoutNumbers(std::string text);

}  // namespace atolld
