// Hours of a week, as people write them: "mon-fri 18:00-08:00, sat-sun", local time.
//
// The text consists of parts separated by commas. A part is days, times, or days followed by times,
// and an hour belongs to the set if it is in any part. A range of times that ends before it begins
// passes midnight, and belongs to the day on which it begins. A range of days may pass Sunday
// ("fri-mon"). Pure. May be called from any thread.
#pragma once

#include <bitset>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace atolld {

class WeekHours {
 public:
  static constexpr int kMinutes = 7 * 24 * 60;

  WeekHours() { open_.set(); }  // all hours

  // An empty text means all hours. Fails with INVALID_ARGUMENT if a part is wrong; the message
  // names the part and what is wrong with it.
  static absl::StatusOr<WeekHours> Parse(absl::string_view text);

  bool Contains(absl::Time now, const absl::TimeZone& zone) const;

  // Returns the time until Contains changes; InfiniteDuration if it never does. Changes to and from
  // summer time in between are ignored.
  absl::Duration UntilChange(absl::Time now, const absl::TimeZone& zone) const;

 private:
  std::bitset<kMinutes> open_;  // one bit for each minute from Monday, 00:00
};

}  // namespace atolld
