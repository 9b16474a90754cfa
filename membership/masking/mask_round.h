// MaskRound: the coordinator's side of one attempt at a masked sum. It records which parties are
// left at each step, and makes the messages to them and, in the end, the message that takes the
// masks off.
//
// Law: each step is ended once by a Freeze call and continues with the parties that have answered;
// the others do not take part in later steps. The attempt ends with an Unmasking, or is discarded
// with a reason. After that every call fails with FAILED_PRECONDITION, so no more shares are
// requested for the same masks. If fewer parties than the threshold are left at any step, the
// attempt is discarded. If a party sends something wrong, only that party drops out.
//
// Pure: it uses neither I/O nor a clock, so the caller decides when a step has waited long enough.
// Used by one thread.
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
#include "membership/masking/false_shares.h"
#include "membership/masking/mask_announcement.h"

namespace atolld {

class MaskRound {
 public:
  enum class Step {
    kKeys,          // parties announce their keys
    kShares,        // parties seal shares for each other
    kUpdates,       // masked updates are summed
    kConsent,       // the contributors sign their set
    kShareOpening,  // the contributors reveal their shares
    kUnmasked,      // the attempt has ended with a sum
    kDiscarded      // the attempt has ended without a sum
  };

  // `rule` is the run's rule for rosters. Only the parties, not this class, check which signing
  // keys they know.
  MaskRound(v1::MaskAttempt attempt, const MaskRosterRule& rule);

  Step step() const { return step_; }
  const std::string& reason() const { return reason_; }  // set only in kDiscarded
  void Discard(std::string reason);
  const v1::MaskRoster& roster() const { return roster_; }  // set from kShares on
  // The parties that mask; set from kUpdates on.
  const std::vector<std::string>& masking() const { return masking_; }
  // The parties whose updates are in the sum; set from kConsent on.
  const std::vector<std::string>& contributors() const { return contributors_; }

  // Take a party's message. They ignore a late or repeated message and return OK. If the message is
  // wrong they fail with INVALID_ARGUMENT, and its sender does not take part in later steps.
  absl::Status OnKeys(const std::string& peer, const v1::MaskKeys& keys);
  absl::Status OnShares(const std::string& peer, const v1::MaskShares& shares);
  absl::Status OnAgreed(const std::string& peer, const v1::MaskAgreed& agreed);
  absl::Status OnUnmaskShares(const std::string& peer, const v1::UnmaskShares& shares);

  // The functions below end a step. They fail with FAILED_PRECONDITION if another step is current,
  // or if too few parties are left; in the latter case the attempt is discarded.

  // kKeys -> kShares. Returns the roster, to be sent to all its parties. If there are more than 255
  // parties, the roster has the first 255 by id.
  absl::StatusOr<v1::MaskRoster> FreezeRoster();
  // kShares -> kUpdates. Returns the message for each party that masks.
  absl::StatusOr<std::map<std::string, v1::MaskDelivery>> FreezeMasking();
  // kUpdates -> kConsent. `complete` names the parties whose chunks are all in the sum; no chunk of
  // any other party may be in it. Returns the message for each contributor.
  absl::StatusOr<v1::MaskFrozen> FreezeContributors(const std::set<std::string>& complete);
  // kConsent -> kShareOpening. Returns the message for each contributor that signed.
  absl::StatusOr<v1::UnmaskRequest> FreezeConsent();
  // kShareOpening -> kUnmasked. Returns the message for the peers that hold the sum. False shares
  // are found and left out (see false_shares.h), as long as enough right ones remain.
  absl::StatusOr<v1::Unmasking> Finish();
  // The parties that may be to blame for false shares. Valid after Finish, even if it failed.
  const std::vector<ShareSuspect>& suspects() const { return suspects_; }

 private:
  absl::Status CheckStep(Step step) const;
  absl::Status TooFew(size_t left, absl::string_view what);
  absl::Status Drop(const std::string& peer, absl::Status status);
  absl::StatusOr<std::vector<OpenedSecret>> Opened() const;
  absl::Status TooManyFalse(const SharesJudged& judged);

  const v1::MaskAttempt attempt_;
  const MaskRosterRule rule_;
  Step step_ = Step::kKeys;
  std::string reason_;
  std::set<std::string> dropped_;  // parties that sent something wrong
  std::map<std::string, v1::MaskKeys> keys_;
  v1::MaskRoster roster_;
  std::map<std::string, v1::MaskShares> shares_;
  std::vector<std::string> masking_;
  std::vector<std::string> contributors_;
  // The signatures of the set of contributors, by party.
  std::map<std::string, std::string> consents_;
  std::map<std::string, v1::UnmaskShares> opened_;
  std::vector<ShareSuspect> suspects_;
};

}  // namespace atolld
