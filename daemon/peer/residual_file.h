// The residual of error feedback beside the replica, so that a restart loses nothing that others
// never had.
//
//   record("atoll.residual.1", genesis digest, version, values, tree digest of the values)
//   the values, raw fp32 LE
//
// `version` is that of the header that settled it. Law: it is valid as long as no later header
// includes this peer, since only an inclusion changes a residual; where that cannot be told, it is
// dropped, which is legal. Blocking.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "atoll/v1/run.pb.h"
#include "daemon/env/env.h"

namespace atolld {

std::string ResidualPath(const std::string& dir);

// Durable when it returns; after a crash the file is the old one or the new one.
absl::Status SaveResidual(Files& files, const std::string& dir, const v1::Genesis& genesis,
                          uint64_t version, absl::Span<const float> values);

// The one that is valid for `peer` at `committed`, the newest version of the log in `dir`.
// NOT_FOUND: there is none, or none that is valid any more. DATA_LOSS: it is broken.
absl::StatusOr<std::vector<float>> LoadResidual(Files& files, const std::string& dir,
                                                const v1::Genesis& genesis, uint64_t committed,
                                                const std::string& peer);

}  // namespace atolld
