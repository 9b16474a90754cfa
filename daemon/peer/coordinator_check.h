// What a peer believes of its coordinator: nothing that contradicts the history it holds, that the
// history key has not signed, or that no honest coordinator says.
//
// INVALID_ARGUMENT: absurd; PERMISSION_DENIED: not signed as the history is; FAILED_PRECONDITION:
// another run, another version 0, a fork, or an epoch that has passed. Each message is one sentence
// for the log and the operator. Pure functions, any thread.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "atoll/v1/membership.pb.h"
#include "membership/history/digest.h"

namespace atolld {

// What the replica here is; of a peer without one, what it has been told of before.
struct HeldHistory {
  const v1::RunSpec* spec = nullptr;     // of the last Welcome; null: this is the first
  const v1::Genesis* genesis = nullptr;  // of the replica; null: there is none
  uint64_t version = 0;                  // of the replica
  Digest header_digest{};                // of that version
  uint64_t epoch = 0;                    // of the last Welcome
};

absl::Status CheckWelcome(const HeldHistory& held, const v1::Welcome& welcome);

// The seal of the run that `genesis` begins, at a version that may still be to come here.
absl::Status CheckSealTold(const v1::Genesis& genesis, const v1::Seal& seal);

// Beside what ExchangePlan::Make says of it. `roster`: the last one told.
absl::Status CheckPlanTold(const v1::RunSpec& spec, uint64_t epoch, const v1::Roster& roster,
                           const v1::Plan& plan);

// Training for a round of the run on as many samples as its steps take, a share of an evaluation
// that is one of its shares, an audit that has time. Other messages are no such orders: OK.
absl::Status CheckOrderTold(const v1::RunSpec& spec, const v1::CoordinatorMessage& message);

}  // namespace atolld
