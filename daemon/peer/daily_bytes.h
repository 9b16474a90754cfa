// DailyBytes: counts the bytes that this machine's line has carried for the daemon since midnight
// of the wall clock, across restarts.
//
// Law: the count is reset only when a later day begins. If the clock is set back to an earlier day,
// the count goes on for that day, so that no day's allowance can be used twice. So if a clock was
// ahead and is corrected, the count is kept until the next midnight. A crash loses the bytes of at
// most the last kBetweenSaves. The functions are pure; DailyBytes is used on the loop thread.
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/civil_time.h"
#include "absl/time/time.h"
#include "daemon/env/env.h"
#include "daemon/machine/owner_control.h"

namespace atolld {

struct DayCount {
  absl::CivilDay day;
  BytesToday bytes;
};

// Returns `count` after `more` bytes have passed and the date is `today`.
DayCount Advance(const DayCount& count, absl::CivilDay today, const BytesToday& more);

// These write and parse the line of the file, "2025-01-31 1234567 89\n": day, bytes sent, bytes
// received. ParseDayCount fails with INVALID_ARGUMENT if the text is not such a line.
std::string FormatDayCount(const DayCount& count);
absl::StatusOr<DayCount> ParseDayCount(absl::string_view text);

class DailyBytes {
 public:
  static constexpr absl::Duration kBetweenSaves = absl::Seconds(30);

  // `passed` returns the bytes that have passed since this process began. The file `path` keeps the
  // count.
  DailyBytes(Env env, std::string path, absl::TimeZone zone, std::function<BytesToday()> passed);

  // Reads the kept count and counts from now on. If the file cannot be read, the count starts from
  // zero, and this is logged. This call blocks.
  void Start();

  BytesToday Today();

  // Saves the count. Called before the process ends. Fails like WriteFileDurably. This call blocks.
  absl::Status Save();

 private:
  void SaveFromTimeToTime();
  void Take();

  const Env env_;
  const std::string path_;
  const absl::TimeZone zone_;
  const std::function<BytesToday()> passed_;

  // Used on the loop thread.
  DayCount count_;
  BytesToday taken_;   // The part of passed_() that is already in count_.
  std::string saved_;  // The text that the file has or that is being written to it.
  bool failed_ = false;
  CallbackGuard guard_;
};

}  // namespace atolld
