// Admission: whether what a peer says of itself fits the run. Each refusal is one sentence for the
// operator. Pure functions.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "atoll/v1/membership.pb.h"
#include "atoll/v1/run.pb.h"
#include "membership/planning/message_sizes.h"

namespace atolld {

// Hello.role of a peer that has no worker: it reduces for others and gives them what they lack.
inline constexpr char kAggregatorRole[] = "aggregator";

// Without what the worker alone can tell that makes version 0: the data's digests, the files, and
// whether a branch goes on in its parent's corpus.
v1::RunSpec WithoutFirstWorkers(v1::RunSpec spec);

// INVALID_ARGUMENT: a bad id, an unknown role, an aggregator that nobody can dial.
// FAILED_PRECONDITION: another run, rules of numerics that it does not speak.
absl::Status CheckHello(const v1::RunSpec& spec, const v1::Hello& hello);

// FAILED_PRECONDITION names the first tensor that differs, or the two digests of the data, which
// private data does not have.
absl::Status CheckWorker(const v1::Genesis& genesis, const v1::WorkerReady& worker);

// INVALID_ARGUMENT: not a version 0 of this run as that worker would make it.
absl::Status CheckInitialState(const v1::RunSpec& spec, const v1::WorkerReady* worker,
                               const v1::Genesis& genesis);

// INVALID_ARGUMENT: a message of the run that this state begins would not pass, with so many peers.
absl::Status CheckFits(const v1::Genesis& genesis, uint32_t peers);
// What its messages' lengths depend on, with so many peers.
SizeTerms SizeTermsOf(const v1::Genesis& genesis, uint64_t peers);

// INVALID_ARGUMENT: no update that an honest peer offers: of nothing, without its digests, or not
// signed by the peer's `signing_key` where it has one, or where the run audits. In a run with
// masks: of nothing, without its state's digest, without a signing key, or with what masks are to
// hide.
absl::Status CheckReady(const v1::RunSpec& spec, const std::string& peer,
                        const std::string& signing_key, const v1::Ready& ready);

}  // namespace atolld
