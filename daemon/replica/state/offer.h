// OfferOf: what a replica's directory can give to others at this moment.
//
// What is offered is what exists: an entry whose header and payload are both here, a snapshot whose
// description can be read. Reads the directory alone, never a live replica. Any thread, blocking.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "atoll/v1/membership.pb.h"
#include "daemon/env/env.h"

namespace atolld {

// For a replica that stands at `committed`. oldest_entry: all from it to `committed` are here; 0:
// the newest is not. The snapshot is the newest at or before `committed`.
absl::StatusOr<v1::Offer> OfferOf(Files& files, const std::string& dir, uint64_t committed);

}  // namespace atolld
