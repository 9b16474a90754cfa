// Functions that tell what a run's mode means for its rounds (see docs/modes.md). Pure. May be
// called from any thread.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "atoll/v1/membership.pb.h"
#include "atoll/v1/run.pb.h"

namespace atolld {

// Fails with INVALID_ARGUMENT if this release does not know the mode, or if a number of the mode is
// one that no config accepts. A peer that continued in such a run might train by another rule than
// the others.
absl::Status CheckMode(const v1::RunSpec& spec);

bool IsStreaming(const v1::RunSpec& spec);

// Returns true if the mode is a pipeline: a peer whose update for an entry is ready trains for the
// next entry while the first one is still being made.
bool TrainsAhead(const v1::RunSpec& spec);

// Returns true if a peer that trains ahead starts without the entry that is being made and does not
// merge it later. Its update is then formed against the state before that entry.
bool MissesAnEntry(const v1::RunSpec& spec);

// Returns true if an update for entry `version` may have been formed against state `base`: the
// state before the entry or, in a mode that misses an entry, the one before that.
bool MayBeBase(const v1::RunSpec& spec, uint64_t version, uint64_t base);
// Returns true if an offered update names a valid base: MayBeBase is true and, if the update missed
// a commit, the offer says so.
bool IsBaseTold(const v1::RunSpec& spec, const v1::Ready& ready);

}  // namespace atolld
