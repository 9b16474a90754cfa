// PeerInfo: what a run keeps of a peer beside its membership and its training.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "atoll/v1/membership.pb.h"
#include "membership/run/deadline.h"

namespace atolld {

struct PeerInfo {
  std::optional<v1::WorkerReady> worker;
  v1::PeerProgress progress;
  std::string signing_key;  // of its last Hello; empty: it has told none
  uint64_t suspicions = 0;  // accounts that differ from another's, with nothing to decide
  std::string offence;      // what was noticed last; empty: nothing
  uint64_t rounds = 0;      // contributed and committed
  uint64_t tokens = 0;
  std::string state_digest;  // newest reported
  uint64_t state_version = 0;
  // version up to which it is not asked to reduce: it was not reachable
  uint64_t spared_until = 0;
  // until when it is not asked again though nobody else could reduce: an attempt has failed
  absl::Time dialled_in_vain_until = absl::InfinitePast();
  RecentTimes step_times{4};  // of one inner step, in its last contributions
};

}  // namespace atolld
