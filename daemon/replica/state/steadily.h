// Steadily: runs a function that reads a replica's directory while the replica may work in it, and
// runs it again if the replica has dropped files that the function needed.
//
// Because of the replica's work it fails only if the directory changes during every attempt. It
// blocks and may be called from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compression/base/status_macros.h"
#include "daemon/env/env.h"

namespace atolld {

// The largest number of attempts.
inline constexpr int kSteadyAttempts = 16;

// Values that change whenever a live replica drops or adds a file that a reader may have missed.
// The size of the headers' file alone is not enough: if one header is dropped and one is added, the
// size may be the same as before.
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

// Runs `look`, which returns a StatusOr, and repeats it while it fails and the directory has
// changed meanwhile.
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
