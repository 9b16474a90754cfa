// Paths in a config that several peers share, with "{peer}" in place of the peer's number:
// "parties/party-{peer}.txt". `atoll local` uses them to give every peer data of its own.
//
// Law: peers are counted from 1, and the path of peer k has k in place of "{peer}", with as many
// leading zeros as the names on disk have. Blocks while it looks at the disk. May be called from
// any thread.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "daemon/config/data_config.h"

namespace atolld {

inline constexpr char kPeerPlace[] = "{peer}";

bool HasPeerPlace(absl::string_view path);

// Returns the path of peer `number`: of the paths that exist, the one with the fewest leading
// zeros; if none exists, the path without leading zeros. A path without "{peer}" is returned
// unchanged.
std::string PathOfPeer(const std::string& path, uint32_t number);

// Fails with INVALID_ARGUMENT if a path with "{peer}" is used for data that is not private, or if
// the file of one of the `peers` peers does not exist. The message does not give the line of the
// config. A relative path starts at `folder`.
absl::Status CheckPeerPaths(const DataConfig& data, uint32_t peers, const std::string& folder);

}  // namespace atolld
