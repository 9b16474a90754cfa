// EntryStep: what one header says about stepping a state, checked once so that the steps themselves
// cannot fail.
//
//   theta, buffers = OuterStep(theta, buffers, Decode(chunk))        for any range of any chunk
//
// Immutable after Make; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "atoll/v1/run.pb.h"
#include "compression/base/bytes.h"
#include "compression/codec.h"
#include "membership/history/payload.h"
#include "optimizer/outer_rule.h"

namespace atolld {

class EntryStep {
 public:
  // The header must have passed CheckHeader. INVALID_ARGUMENT: the rule cannot step with its
  // scalars.
  static absl::StatusOr<EntryStep> Make(const v1::EntryHeader& header);

  const ChunkGrid& grid() const { return grid_; }
  const Codec& codec() const { return *codec_; }

  // Moves a range of the state by its mean: `mean`, `theta` and each buffer are the same range.
  // Cannot fail, since a rule that took the scalars once takes them always.
  void StepRange(absl::Span<const float> mean, absl::Span<float> theta,
                 absl::Span<const absl::Span<float>> buffers) const;

 private:
  EntryStep(const OuterRule* rule, const Codec* codec, OuterScalars scalars, ChunkGrid grid);

  const OuterRule* rule_;
  const Codec* codec_;
  OuterScalars scalars_;
  ChunkGrid grid_;
};

// OK if every chunk decodes to finite values. INVALID_ARGUMENT names the chunk. Nobody may prepare
// or commit anything else.
absl::Status CheckPayload(const ChunkGrid& grid, const Codec& codec, const SharedBytes& payload);

// The index of the first value that is NaN or infinite; values.size() if there is none.
size_t FirstNonFinite(absl::Span<const float> values);

}  // namespace atolld
