// The section [membership] of a coordinator's config: how peers and their updates are judged, and
// when a peer is given up. Plain data.
#pragma once

#include <cstdint>
#include <string>

#include "absl/time/time.h"

namespace atolld {

struct MembershipConfig {
  absl::Duration failure_timeout = absl::Seconds(10);
  std::string stragglers = "leave";  // "leave" or "wait"; see RoundSettings::waits
  // The most weight of an update, in medians of its round's weights; 0 means no cap.
  double weight_cap = 16;
  uint32_t offences = 3, offence_rounds = 16;  // see offender_rule.h
  // The length, in usual lengths, from which an update counts as outsized (see offender_rule.h).
  // The default is DefaultOutsized().
  double outsized = 8;
};

}  // namespace atolld
