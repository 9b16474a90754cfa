// A whole state in memory, and the step by which an entry changes it.
//
//   theta, buffers = OuterStep(theta, buffers, Decode(chunk))        for any range of any chunk,
//                    with Decode(chunk) times its share if adapters have slices (slice_shares.h)
//   control = ControlVariate(control, Decode(chunk))                 if the run has one
//
// In a run with fragments, an entry changes only the ranges of its fragment. EntryStep is the step
// of one header. It is checked once, so that the steps themselves cannot fail; it is immutable
// after Make and may be used from any thread. StateMemory refers to theta, owns the other buffers
// (StateBuffers) and knows the version. Used by one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "atoll/v1/replica.pb.h"
#include "atoll/v1/run.pb.h"
#include "compression/base/bytes.h"
#include "compression/codec.h"
#include "daemon/env/value_memory.h"
#include "daemon/replica/state/snapshot.h"
#include "membership/history/digest.h"
#include "membership/history/fragment.h"
#include "membership/history/payload.h"
#include "optimizer/control_variate.h"
#include "optimizer/outer_rule.h"

namespace atolld {

class EntryStep {
 public:
  // The header must have passed CheckHeader under the run's genesis; `fragments` are the genesis's
  // fragments. Fails with INVALID_ARGUMENT if the rule cannot step with the header's scalars.
  static absl::StatusOr<EntryStep> Make(const Fragments& fragments, const v1::EntryHeader& header);

  const ChunkGrid& grid() const { return grid_; }  // The grid of the entry's vector.
  // The place of the entry's vector in the state.
  const FragmentMap& covers() const { return map_; }
  const Codec& codec() const { return *codec_; }

  // Decodes a chunk to the values by which it steps. Fails like Codec::Decode.
  absl::Status DecodeMean(uint32_t chunk, absl::Span<const uint8_t> encoded,
                          absl::Span<float> mean) const;

  // Steps a range of the state. `mean`, `theta` and the buffers, in the order of StateBuffers, must
  // be the same range of their vectors. The step cannot fail, since a rule that has accepted the
  // scalars once always accepts them.
  void StepRange(absl::Span<const float> mean, absl::Span<float> theta,
                 absl::Span<const absl::Span<float>> buffers) const;

 private:
  EntryStep(const OuterRule* rule, const Codec* codec, OuterScalars scalars,
            std::optional<ControlVariate> control, ChunkGrid grid, FragmentMap map,
            std::vector<float> shares);

  const OuterRule* rule_;
  const Codec* codec_;
  OuterScalars scalars_;
  std::optional<ControlVariate> control_;
  ChunkGrid grid_;
  FragmentMap map_;
  std::vector<float> shares_;  // one for each chunk, or empty: SliceShares
};

// Fails with INVALID_ARGUMENT if a chunk does not decode to finite values; the message names the
// chunk. A payload must have passed this check before it is prepared or committed.
absl::Status CheckPayload(const ChunkGrid& grid, const Codec& codec, const SharedBytes& payload);

// Returns the index of the first value that is NaN or infinite, or values.size() if there is none.
size_t FirstNonFinite(absl::Span<const float> values);

class StateMemory {
 public:
  // The buffers of a state, except theta.
  using Buffers = std::vector<std::unique_ptr<ValueMemory>>;
  // Makes the run's buffers, all zero, in files in `folder`, or in memory if it is empty. Fails
  // with RESOURCE_EXHAUSTED.
  static absl::StatusOr<Buffers> MakeBuffers(const v1::Genesis& genesis, const std::string& folder);

  // Makes version 0 from the given theta and the result of MakeBuffers. The genesis must be sound.
  StateMemory(const v1::Genesis& genesis, absl::Span<float> theta, Buffers buffers);

  uint64_t version() const { return version_; }
  absl::Span<const float> theta() const { return theta_; }

  // Loads the snapshot and checks every block. After DATA_LOSS the state is neither the old state
  // nor the snapshot's.
  absl::Status Load(const SnapshotReader& snapshot);

  // Steps to the next version. The payload must have passed CheckPayload with the step's grid and
  // codec. If `difference` is not empty, it must be as long as theta and receives theta_new -
  // theta_old.
  void Step(const EntryStep& step, const SharedBytes& payload, absl::Span<float> difference);

  // Returns the info of a snapshot of this state, without the genesis and the header.
  v1::SnapshotInfo Describe() const;

  // Writes this state as a snapshot to `path`, durably. `info` must be the result of Describe with
  // the genesis and the header added. Fails with DATA_LOSS if the memory has changed since then.
  absl::Status Write(Files& files, const std::string& path, v1::SnapshotInfo info) const;

  Digest StateDigest() const;

  // Returns the values of one buffer. Theta is number 0; the buffers of StateBuffers follow.
  absl::Span<const float> Buffer(int buffer) const;
  // The common control variate; empty if the run has none.
  absl::Span<const float> Control() const;

  // Called when the buffers are not used for a while (ValueMemory::Release).
  void Release() const;

 private:
  void StepPiece(const EntryStep& step, uint64_t first, absl::Span<const float> mean,
                 absl::Span<float> difference);
  void StepOthers(const EntryStep& step);

  const absl::Span<float> theta_;
  const std::vector<std::string> names_;  // The names of the buffers except theta.
  const Buffers buffers_;
  uint64_t version_ = 0;
};

}  // namespace atolld
