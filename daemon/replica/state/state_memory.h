// A whole state in memory, and how an entry moves it.
//
//   theta, buffers = OuterStep(theta, buffers, Decode(chunk))        for any range of any chunk
//   control = ControlVariate(control, Decode(chunk))                 of a run that has one
//
// An entry of a run with fragments moves the ranges of its fragment and leaves all else as it is.
// EntryStep is what one header says about stepping a state, checked once so that the steps
// themselves cannot fail; immutable after Make, any thread. StateMemory holds theta (borrowed), the
// other buffers (StateBuffers; its own) and the version; one thread at a time.
#pragma once

#include <cstdint>
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
#include "daemon/replica/state/snapshot.h"
#include "membership/history/digest.h"
#include "membership/history/fragment.h"
#include "membership/history/payload.h"
#include "optimizer/control_variate.h"
#include "optimizer/outer_rule.h"

namespace atolld {

class EntryStep {
 public:
  // The header must have passed CheckHeader under the run's genesis, of which these are the
  // fragments. INVALID_ARGUMENT: the rule cannot step with its scalars.
  static absl::StatusOr<EntryStep> Make(const Fragments& fragments, const v1::EntryHeader& header);

  const ChunkGrid& grid() const { return grid_; }     // of the entry's vector
  const FragmentMap& covers() const { return map_; }  // where that lies in the state
  const Codec& codec() const { return *codec_; }

  // Moves a range of the state by its mean: `mean`, `theta` and each buffer, in the order of
  // StateBuffers, are the same range.
  // Cannot fail, since a rule that took the scalars once takes them always.
  void StepRange(absl::Span<const float> mean, absl::Span<float> theta,
                 absl::Span<const absl::Span<float>> buffers) const;

 private:
  EntryStep(const OuterRule* rule, const Codec* codec, OuterScalars scalars,
            std::optional<ControlVariate> control, ChunkGrid grid, FragmentMap map);

  const OuterRule* rule_;
  const Codec* codec_;
  OuterScalars scalars_;
  std::optional<ControlVariate> control_;
  ChunkGrid grid_;
  FragmentMap map_;
};

// OK if every chunk decodes to finite values. INVALID_ARGUMENT names the chunk. Nobody may prepare
// or commit anything else.
absl::Status CheckPayload(const ChunkGrid& grid, const Codec& codec, const SharedBytes& payload);

// The index of the first value that is NaN or infinite; values.size() if there is none.
size_t FirstNonFinite(absl::Span<const float> values);

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

  // The values of one buffer: theta is 0, those of StateBuffers follow.
  absl::Span<const float> Buffer(int buffer) const;
  absl::Span<const float> Control() const;  // the common control variate; empty: there is none

 private:
  void StepPiece(const EntryStep& step, uint64_t first, absl::Span<const float> mean,
                 absl::Span<float> difference);
  void StepOthers(const EntryStep& step);

  const absl::Span<float> theta_;
  const std::vector<std::string> names_;  // of the buffers beside theta
  std::vector<std::vector<float>> buffers_;
  uint64_t version_ = 0;
};

}  // namespace atolld
