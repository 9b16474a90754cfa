// DailyBytes: how many bytes this machine's line has carried for the daemon since midnight, by the
// clock on its wall, over restarts.
//
// Law: no event but the beginning of a later day makes the count smaller. A clock that is set back
// to an earlier day carries the count there, so that nobody gets a day's bytes twice; one that was
// ahead begins the day anew when it is set right and the next midnight has passed. A crash loses
// what the last kBetweenSaves counted. DayCount is pure; DailyBytes belongs to the loop thread.
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

// The count once it is `today` and `more` bytes have passed.
DayCount Advance(const DayCount& count, absl::CivilDay today, const BytesToday& more);

// "2025-01-31 1234567 89\n", day, sent, received, as the file has it. INVALID_ARGUMENT: it is no
// such line.
std::string FormatDayCount(const DayCount& count);
absl::StatusOr<DayCount> ParseDayCount(absl::string_view text);

class DailyBytes {
 public:
  static constexpr absl::Duration kBetweenSaves = absl::Seconds(30);

  // `passed`: how many bytes have passed since this process began. The file `path` keeps the count.
  DailyBytes(Env env, std::string path, absl::TimeZone zone, std::function<BytesToday()> passed);

  // Takes up the count that is kept, and counts from now on. A file that nobody can read counts for
  // nothing, and the log says so. Blocking.
  void Start();

  BytesToday Today();

  // Keeps the count; once more before the process ends. Errors as WriteFileDurably. Blocking.
  absl::Status Save();

 private:
  void SaveFromTimeToTime();
  void Take();

  const Env env_;
  const std::string path_;
  const absl::TimeZone zone_;
  const std::function<BytesToday()> passed_;

  // Loop thread.
  DayCount count_;
  BytesToday taken_;   // of what has passed
  std::string saved_;  // as the file has it, or will in a moment
  bool failed_ = false;
  CallbackGuard guard_;
};

}  // namespace atolld
