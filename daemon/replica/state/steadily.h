// Steadily: a question asked of a replica's directory while the replica may be at work in it, and
// asked again where it has dropped meanwhile what the answer was about to read.
//
// Only a replica that keeps outrunning the answer makes it fail. Any thread, blocking.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compression/base/status_macros.h"
#include "daemon/env/env.h"

namespace atolld {

// How often a question is asked anew because the replica beside it has moved on.
inline constexpr int kSteadyAttempts = 16;

// What changes whenever a live replica drops or adds something that a reader may have missed. The
// headers alone do not tell: one that is cut off and one that is added leave them as long as
// before.
struct Footprint {
  std::vector<uint64_t> snapshots;
  std::vector<uint64_t> payloads;
  uint64_t header_bytes = 0;
  bool operator==(const Footprint& other) const {
    return snapshots == other.snapshots && payloads == other.payloads &&
           header_bytes == other.header_bytes;
  }
};

absl::StatusOr<Footprint> FootprintOf(Files& files, const std::string& dir);

// Runs `look`, which returns a StatusOr, again while it fails and what it looked at has changed
// meanwhile.
template <typename Look>
auto Steadily(Files& files, const std::string& dir, Look look) -> decltype(look()) {
  for (int attempt = 1;; ++attempt) {
    ASSIGN_OR_RETURN(const Footprint before, FootprintOf(files, dir));
    auto result = look();
    const bool moved = absl::IsDataLoss(result.status()) || absl::IsNotFound(result.status());
    if (!moved || attempt == kSteadyAttempts) return result;
    ASSIGN_OR_RETURN(const Footprint after, FootprintOf(files, dir));
    if (after == before) return result;
  }
}

}  // namespace atolld
