// Admission: whether what a peer says of itself fits the run. Each refusal is one sentence for the
// operator. Pure functions.
#pragma once

#include "absl/status/status.h"
#include "atoll/v1/membership.pb.h"
#include "atoll/v1/run.pb.h"

namespace atolld {

// Of a peer's or an operator's words in the log.
inline constexpr size_t kLongestReason = 256;

// Hello.role of a peer that has no worker: it reduces for others and gives them what they lack.
inline constexpr char kAggregatorRole[] = "aggregator";

// INVALID_ARGUMENT: a bad id, an unknown role, an aggregator that nobody can dial.
// FAILED_PRECONDITION: another run, rules of numerics that it does not speak.
absl::Status CheckHello(const v1::RunSpec& spec, const v1::Hello& hello);

// FAILED_PRECONDITION names the first tensor that differs, or the two digests of the data.
absl::Status CheckWorker(const v1::Genesis& genesis, const v1::WorkerReady& worker);

// INVALID_ARGUMENT: not a version 0 of this run as that worker would make it.
absl::Status CheckInitialState(const v1::RunSpec& spec, const v1::WorkerReady* worker,
                               const v1::Genesis& genesis);

}  // namespace atolld
