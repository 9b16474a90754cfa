// What a run's mode means for its rounds (docs/modes.md). Pure functions; any thread.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "atoll/v1/membership.pb.h"
#include "atoll/v1/run.pb.h"

namespace atolld {

// INVALID_ARGUMENT: no mode that this release knows, or with a number that no config takes: whoever
// went on would train by another rule than the others.
absl::Status CheckMode(const v1::RunSpec& spec);

bool IsStreaming(const v1::RunSpec& spec);

// The pipeline: whose update for an entry stands trains for the next one while that entry is made.
bool TrainsAhead(const v1::RunSpec& spec);

// Whoever trains ahead starts without the entry that is being made, and never takes it in: such an
// update is formed against the state before it.
bool MissesAnEntry(const v1::RunSpec& spec);

// Whether an update for entry `version` may have been formed against this state: the one before
// the entry, or, of one that has missed an entry, the one before that.
bool MayBeBase(const v1::RunSpec& spec, uint64_t version, uint64_t base);
// The same of one that is offered: it tells that it has missed a commit.
bool IsBaseTold(const v1::RunSpec& spec, const v1::Ready& ready);

}  // namespace atolld
