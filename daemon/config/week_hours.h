// Hours of a week, as people write them: "mon-fri 18:00-08:00, sat-sun", local time.
//
// A part is days, times, or days and then times; parts stand between commas, and any of them may
// hold. A range that ends before it begins goes over midnight, and its days are those on which it
// begins; so do days ("fri-mon"). Pure values, any thread.
#pragma once

#include <bitset>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace atolld {

class WeekHours {
 public:
  static constexpr int kMinutes = 7 * 24 * 60;

  WeekHours() { open_.set(); }  // always

  // Empty: always. INVALID_ARGUMENT says which part is wrong, and how.
  static absl::StatusOr<WeekHours> Parse(absl::string_view text);

  bool Contains(absl::Time now, const absl::TimeZone& zone) const;

  // How long until Contains changes; InfiniteDuration: it never does. Clocks that go forward or
  // back in between are not counted.
  absl::Duration UntilChange(absl::Time now, const absl::TimeZone& zone) const;

 private:
  std::bitset<kMinutes> open_;  // by minute from Monday, 00:00
};

}  // namespace atolld
