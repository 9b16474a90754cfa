// The parts of a run's replicated state other than theta, and the scalars by which an entry changes
// the common control variate. That variate is not part of any outer rule.
//
// The state consists of theta, the outer rule's buffers in the order of their names and, in a run
// that has one, the common control variate. Snapshots contain these parts and digests cover them in
// this order. Pure. May be called from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "atoll/v1/run.pb.h"

namespace atolld {

// Fails with INVALID_ARGUMENT if the outer rule is unknown.
absl::StatusOr<std::vector<std::string>> StateBuffers(const v1::RunSpec& spec);

// Adds the scalars of the common control variate (optimizer/control_variate.h) to those of a
// header, whose contributors must be set, and keeps them ascending. Does nothing in a run without
// control variates.
//   control_share = min(1, parties of the contributors / parties)
//   control_rate  = 1 / (learning rate x mean of the contributors' steps a party, by weight)
// `parties` is the number of parties in the whole run, which its coordinator counts.
void AddControlScalars(const v1::RunSpec& spec, uint64_t parties, v1::EntryHeader* header);

}  // namespace atolld
