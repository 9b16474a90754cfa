// [membership] of a coordinator: who counts, and when somebody is given up. Plain data.
#pragma once

#include <cstdint>
#include <string>

#include "absl/time/time.h"

namespace atolld {

struct MembershipConfig {
  absl::Duration failure_timeout = absl::Seconds(10);
  std::string stragglers = "leave";  // or "wait": RoundSettings::waits
  double weight_cap = 16;            // an update's weight, in medians of its round's; 0: none
  uint32_t offences = 3, offence_rounds = 16;  // offender_rule.h
  double outsized = 8;                         // where the file does not say: DefaultOutsized()
};

}  // namespace atolld
