// MaskRound: the coordinator's side of one attempt of a masked sum: who is still there at each
// step, what is sent to whom, and what takes the masks off in the end.
//
// Law: each step ends once, by a Freeze call, with those who have answered; who has not is out of
// the later steps. The attempt ends with an Unmasking, or is discarded with a reason, and then
// every call is FAILED_PRECONDITION: nothing is ever asked for again under the same masks. Fewer
// than the threshold at any step discards it. What a party sends wrong makes that party drop out,
// and nobody else.
//
// No I/O, no clock, no threads: the caller says when a step has waited long enough.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "atoll/v1/masking.pb.h"
#include "membership/masking/mask_announcement.h"
#include "membership/masking/secret_sharing.h"

namespace atolld {

class MaskRound {
 public:
  enum class Step {
    kKeys,          // parties announce their keys
    kShares,        // ... and seal shares for each other
    kUpdates,       // masked updates are summed
    kConsent,       // the contributors sign who they are
    kShareOpening,  // ... and reveal their shares
    kUnmasked,      // the end: a sum
    kDiscarded      // the end: none
  };

  // `wanted`: the run's threshold.
  MaskRound(v1::MaskAttempt attempt, uint32_t wanted);

  Step step() const { return step_; }
  const std::string& reason() const { return reason_; }  // only kDiscarded
  void Discard(std::string reason);
  const v1::MaskRoster& roster() const { return roster_; }              // from kShares on
  const std::vector<std::string>& masking() const { return masking_; }  // who masks: from kUpdates
  // Who is in the sum: from kConsent on.
  const std::vector<std::string>& contributors() const { return contributors_; }

  // What parties send. OK also for what came too late or came before. INVALID_ARGUMENT: it is
  // wrong, and its sender has dropped out of what is still to come.
  absl::Status OnKeys(const std::string& peer, const v1::MaskKeys& keys);
  absl::Status OnShares(const std::string& peer, const v1::MaskShares& shares);
  absl::Status OnAgreed(const std::string& peer, const v1::MaskAgreed& agreed);
  absl::Status OnUnmaskShares(const std::string& peer, const v1::UnmaskShares& shares);

  // The ends of steps. FAILED_PRECONDITION: not this step's turn, or too few are left, and then the
  // attempt is discarded.

  // kKeys -> kShares: for everybody in it. More than 255 parties: the first by id.
  absl::StatusOr<v1::MaskRoster> FreezeRoster();
  // kShares -> kUpdates: what each of those who mask is to be given.
  absl::StatusOr<std::map<std::string, v1::MaskDelivery>> FreezeMasking();
  // kUpdates -> kConsent: `complete` are those whose every chunk is in the sum; what others sent is
  // in none of it. For each contributor.
  absl::StatusOr<v1::MaskFrozen> FreezeContributors(const std::set<std::string>& complete);
  // kConsent -> kShareOpening: for each contributor that signed.
  absl::StatusOr<v1::UnmaskRequest> FreezeConsent();
  // kShareOpening -> kUnmasked: for those who hold the sum. Shares that do not give back what their
  // owner announced are left out one after the other, as long as enough others remain.
  absl::StatusOr<v1::Unmasking> Finish();

  // Whether the step has all the answers that can still come, and waits for nothing.
  bool Complete(size_t expected) const;

 private:
  absl::Status CheckStep(Step step) const;
  absl::Status TooFew(size_t left, absl::string_view what);
  absl::Status Drop(const std::string& peer, absl::Status status);
  absl::StatusOr<MaskSecret> Recover(const std::string& of, bool contributed) const;

  const v1::MaskAttempt attempt_;
  const uint32_t wanted_;
  Step step_ = Step::kKeys;
  std::string reason_;
  std::set<std::string> dropped_;  // they sent something wrong
  std::map<std::string, v1::MaskKeys> keys_;
  v1::MaskRoster roster_;
  std::map<std::string, v1::MaskShares> shares_;
  std::vector<std::string> masking_;
  std::vector<std::string> contributors_;
  std::map<std::string, std::string> consents_;  // signatures
  std::map<std::string, v1::UnmaskShares> opened_;
};

}  // namespace atolld
