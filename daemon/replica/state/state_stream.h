// StateStream: the parameters of one version, made from a snapshot and the log and handed over a
// block at a time, without a file.
//
// Momentum is stepped along, since theta hangs on it, and is given to nobody. Only reads, so it may
// run beside a live replica. A few blocks are in memory. One thread at a time, blocking.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "atoll/v1/run.pb.h"
#include "daemon/env/env.h"
#include "daemon/replica/state/snapshot_build.h"
#include "membership/history/digest.h"

namespace atolld {

class StateStream {
 public:
  // `version`: none is the newest committed. Whatever may be missing is found here: what the
  // replica drops later is open. NOT_FOUND names the versions that are covered: that one is not.
  static absl::StatusOr<std::unique_ptr<StateStream>> Open(Files& files, const std::string& dir,
                                                           std::optional<uint64_t> version);

  const v1::Genesis& genesis() const { return build_->info().genesis(); }
  uint64_t version() const { return build_->version(); }
  uint64_t elements() const { return genesis().manifest().elements(); }

  // Once: gives theta, elements() values of fp32 LE, to `take`, and returns the state's digest. The
  // last block is given only when the state is known to be the one that the chain names, so that
  // whoever has all of it has the right one. Errors as SnapshotBuild::Step, and those of `take`.
  using Take = std::function<absl::Status(absl::Span<const uint8_t> bytes)>;
  absl::StatusOr<Digest> Run(const Take& take);

 private:
  static absl::StatusOr<std::unique_ptr<StateStream>> TryToOpen(Files& files,
                                                                const std::string& dir,
                                                                std::optional<uint64_t> version);
  absl::Status TakeBlock(absl::Span<const float> theta);

  std::unique_ptr<SnapshotBuild> build_;
  const Take* take_ = nullptr;  // while Run runs
  std::vector<float> held_;     // theta's newest block
};

}  // namespace atolld
