// StateStream: makes the parameters of one version from a snapshot and the log, and passes them on
// a block at a time, without a file.
//
// It also steps the momentum, since theta depends on it, but does not pass it on. It only reads, so
// it may run beside a live replica. Only a few blocks are in memory. Its calls block. Used by one
// thread at a time.
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
  // Opens the stream of `version` or, if that is nullopt, of the newest committed version. All
  // files are open when it returns, so the replica may drop them afterwards. Fails with NOT_FOUND
  // if the replica's files do not lead to `version`; the message names the versions to which they
  // lead.
  static absl::StatusOr<std::unique_ptr<StateStream>> Open(Files& files, const std::string& dir,
                                                           std::optional<uint64_t> version);

  const v1::Genesis& genesis() const { return build_->info().genesis(); }
  uint64_t version() const { return build_->version(); }
  uint64_t elements() const { return genesis().manifest().elements(); }

  // Passes theta, elements() values of fp32 LE, to `take`, and returns the state's digest. May be
  // called once. The last block is passed only when the state is known to be the one that the chain
  // names, so a receiver that has got all of theta has the right values. Fails like
  // SnapshotBuild::Step; errors of `take` are returned.
  using Take = std::function<absl::Status(absl::Span<const uint8_t> bytes)>;
  absl::StatusOr<Digest> Run(const Take& take);

 private:
  static absl::StatusOr<std::unique_ptr<StateStream>> TryToOpen(Files& files,
                                                                const std::string& dir,
                                                                std::optional<uint64_t> version);
  absl::Status TakeBlock(absl::Span<const float> theta);

  std::unique_ptr<SnapshotBuild> build_;
  const Take* take_ = nullptr;  // Set while Run runs.
  std::vector<float> held_;     // The newest block of theta.
};

}  // namespace atolld
