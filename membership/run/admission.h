// Admission: checks that what a peer says about itself fits the run. The message of each error is
// one sentence for the operator. Pure. May be called from any thread.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "atoll/v1/membership.pb.h"
#include "atoll/v1/run.pb.h"
#include "membership/planning/message_sizes.h"

namespace atolld {

// The greatest allowed Hello.life. A greater number could not be increased any more.
inline constexpr uint64_t kMostLives = uint64_t{1} << 53;

// The Hello.role of a peer without a worker, which reduces for others and serves them what they
// lack.
inline constexpr char kAggregatorRole[] = "aggregator";

// Returns the spec without the fields that are filled by the worker that makes version 0: the
// data's digests, the files, and whether a branch continues in its parent's corpus.
v1::RunSpec WithoutFirstWorkers(v1::RunSpec spec);

// Fails with INVALID_ARGUMENT if the peer's id is not valid, its role is unknown, or it is an
// aggregator that no peer can dial. Fails with FAILED_PRECONDITION if it belongs to another run or
// does not support the run's rules of numerics.
absl::Status CheckHello(const v1::RunSpec& spec, const v1::Hello& hello);

// Fails with FAILED_PRECONDITION if the worker's model or data differ from the genesis. The message
// names the first tensor that differs, or the two digests of the data. Private data has no digest.
absl::Status CheckWorker(const v1::Genesis& genesis, const v1::WorkerReady& worker);

// Fails with INVALID_ARGUMENT if the genesis does not fit this run or the worker that made it.
absl::Status CheckInitialState(const v1::RunSpec& spec, const v1::WorkerReady* worker,
                               const v1::Genesis& genesis);

// Fails with INVALID_ARGUMENT if a message of a run that begins with this state would be too long
// for this many peers.
absl::Status CheckFits(const v1::Genesis& genesis, uint32_t peers);
// Returns the terms that determine the lengths of the run's messages, for this many peers.
SizeTerms SizeTermsOf(const v1::Genesis& genesis, uint64_t peers);

// Fails with INVALID_ARGUMENT if no honest peer would offer such an update: it lacks tokens, steps
// or its digests, or it lacks a signature by the peer's `signing_key` although the peer has one or
// the run audits. In a run with masks, it fails if the update lacks tokens, steps or its state's
// digest, if the peer has no signing key, or if the update has figures that masks must hide.
absl::Status CheckReady(const v1::RunSpec& spec, const std::string& peer,
                        const std::string& signing_key, const v1::Ready& ready);

}  // namespace atolld
