// Updates of every kind for the tests of the stores, and what a store holds as one line of text.
#pragma once

#include <string>
#include <vector>

#include "daemon/coordinator/store.h"
#include "membership/run/run_output.h"

namespace atolld {

v1::EntryHeader StoredHeader(uint64_t version);

// One after another they touch every table: rows come, change and go.
std::vector<RunUpdate> StoredUpdates();

// Updates with checkpoints: one that is renewed, a gap, and one that begins anew.
std::vector<RunUpdate> CheckpointUpdates();

// A run of so many rounds, whose headers are a signed chain, with rows in every table but that of
// the seal and the gaps.
void FillWithRun(Store& store, uint64_t rounds);

std::string TextOf(const StoredRun& run);

// What it holds, with its headers.
StoredRun Loaded(Store& store);

}  // namespace atolld
