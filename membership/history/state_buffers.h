// What the replicated state of a run consists of beside theta, and the numbers by which an entry
// moves what no outer rule knows.
//
// The state is theta, the outer rule's buffers by name, and, of a run with control variates, their
// common one last. Snapshots carry them and digests cover them in this order. Pure functions, any
// thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "atoll/v1/run.pb.h"

namespace atolld {

// INVALID_ARGUMENT: the outer rule is not known.
absl::StatusOr<std::vector<std::string>> StateBuffers(const v1::RunSpec& spec);

// Adds to the scalars of a header, whose contributors are set, those of the common control variate
// (optimizer/control_variate.h), keeping them ascending. Nothing in a run without.
//   control_share = min(1, parties of the contributors / parties)
//   control_rate  = 1 / (learning rate x mean of the contributors' steps a party, by weight)
// `parties`: of the whole run, as its coordinator counts them.
void AddControlScalars(const v1::RunSpec& spec, uint64_t parties, v1::EntryHeader* header);

}  // namespace atolld
