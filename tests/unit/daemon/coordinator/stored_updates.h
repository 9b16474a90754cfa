// Makes updates of every kind for the tests of the stores, and formats the contents of a store as
// one line of text.
#pragma once

#include <string>
#include <vector>

#include "daemon/coordinator/store.h"
#include "membership/run/run_output.h"

namespace atolld {

v1::EntryHeader StoredHeader(uint64_t version);

// Returns updates that together, in this order, add, change and remove rows in every table.
std::vector<RunUpdate> StoredUpdates();

// Returns updates with a checkpoint that is renewed, a gap, and a checkpoint that starts again from
// nothing.
std::vector<RunUpdate> CheckpointUpdates();

// Fills the store with a run of `rounds` rounds, whose headers are a signed chain, with rows in
// every table except those of the seal and the gaps.
void FillWithRun(Store& store, uint64_t rounds);

std::string TextOf(const StoredRun& run);

// Returns the content of the store, with its headers.
StoredRun Loaded(Store& store);

}  // namespace atolld
