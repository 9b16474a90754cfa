// StateMemory: a whole state in memory - theta, the outer rule's buffers, the version - and how an
// entry moves it.
//
// Theta is borrowed, the buffers are its own. One thread at a time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "atoll/v1/replica.pb.h"
#include "compression/base/bytes.h"
#include "daemon/replica/state/outer_step.h"
#include "daemon/replica/state/snapshot.h"
#include "membership/history/digest.h"

namespace atolld {

class StateMemory {
 public:
  // Version 0: theta as it is, the buffers zero. The genesis must be sound.
  StateMemory(const v1::Genesis& genesis, absl::Span<float> theta);

  uint64_t version() const { return version_; }
  absl::Span<const float> theta() const { return theta_; }

  // Every block of the snapshot, checked. DATA_LOSS: the state is then neither the old nor the new
  // one.
  absl::Status Load(const SnapshotReader& snapshot);

  // The next version. The payload must have passed CheckPayload under the step's grid and codec. If
  // `difference` is not empty it is as long as theta and receives theta_new - theta_old.
  void Step(const EntryStep& step, const SharedBytes& payload, absl::Span<float> difference);

  // What a snapshot of this state says of it, without genesis and header.
  v1::SnapshotInfo Describe() const;

  // Writes this state as a snapshot to `path`; durable when it returns. `info` is what Describe
  // said, with genesis and header. DATA_LOSS: the memory is no longer what was described.
  absl::Status Write(Files& files, const std::string& path, v1::SnapshotInfo info) const;

  Digest StateDigest() const;

  // The values of one buffer: theta is 0, the outer rule's follow by name.
  absl::Span<const float> Buffer(int buffer) const;

 private:
  void StepChunk(const EntryStep& step, uint32_t chunk, const SharedBytes& bytes,
                 absl::Span<float> mean, absl::Span<float> difference);

  const absl::Span<float> theta_;
  const std::vector<std::string> names_;  // of the outer rule's buffers
  std::vector<std::vector<float>> buffers_;
  uint64_t version_ = 0;
};

}  // namespace atolld
