// What a peer tells a coordinator whose store is behind: the headers of its log, and those that its
// snapshots carry.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "atoll/v1/membership.pb.h"
#include "daemon/env/env.h"

namespace atolld {

// Adds the headers `first` to `last` of the replica in `dir` to `headers`, as many as fit a message
// (membership.proto) and follow one another; none if that of `first` is no longer here: the log
// reaches back to the oldest snapshot at least, which carries its own. On an error it adds none.
// Blocking; may run beside the log's writer.
absl::Status ReadHeaders(Files& files, const std::string& dir, uint64_t first, uint64_t last,
                         v1::Headers* headers);

}  // namespace atolld
