// Updates of every kind for the tests of the stores, and the contents of a store as one line of
// text.
#pragma once

#include <string>
#include <vector>

#include "daemon/coordinator/store.h"
#include "membership/run/run_output.h"

namespace atolld {

v1::EntryHeader StoredHeader(uint64_t version);

// Together, in order, they touch every table: rows are added, changed and removed.
std::vector<RunUpdate> StoredUpdates();

// Updates with checkpoints: one that is renewed, a gap, and one that starts anew.
std::vector<RunUpdate> CheckpointUpdates();

// Fills the store with a run of `rounds` rounds, whose headers are a signed chain, with rows in
// every table except those of the seal and the gaps.
void FillWithRun(Store& store, uint64_t rounds);

std::string TextOf(const StoredRun& run);

// Returns what the store holds, with its headers.
StoredRun Loaded(Store& store);

}  // namespace atolld
