// A path that several peers of one config share, with a place for the peer's number:
// "parties/party-{peer}.txt". That is how `atoll local` gives every peer data of its own.
//
// Law: peer k of a run, counted from 1, has the path in which "{peer}" is replaced by k, with as
// many leading zeros as the names on disk have. Blocking; any thread.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "daemon/config/data_config.h"

namespace atolld {

inline constexpr char kPeerPlace[] = "{peer}";

bool HasPeerPlace(absl::string_view path);

// The path of peer `number`: the one that exists, with the fewest leading zeros; without any if
// none exists. A path without a place comes back as it is.
std::string PathOfPeer(const std::string& path, uint32_t number);

// INVALID_ARGUMENT says what is wrong, without the place: a path with a place for data that is not
// private, or one of the `peers` whose file does not exist. `folder`: where a relative path starts.
absl::Status CheckPeerPaths(const DataConfig& data, uint32_t peers, const std::string& folder);

}  // namespace atolld
