// MaskLink: a peer's part in masked sums - what it answers to the coordinator's word about masks,
// and what becomes of its update, of the sum and of the mean in between.
//
// MaskDuty keeps the protocol's laws; this class gives it what it needs of the peer (an update that
// is held, the ring's steps, the keys of others as they were first seen) and carries out what it
// says: the update is masked anew for each attempt, the masked sum of an exchange is told, and once
// the secrets are there the mean is made of it, which is voted for like any other.
//
// Law: what was masked goes with its attempt; the update's own values stand. Masking and unmasking
// run on the pool, on copies. Loop thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "atoll/v1/membership.pb.h"
#include "compression/wire_codec.h"
#include "daemon/env/env.h"
#include "daemon/exchange/exchange_plan.h"
#include "daemon/exchange/masked_update.h"
#include "daemon/exchange/outcome.h"
#include "daemon/peer/newest_ring_steps.h"
#include "daemon/peer/own_update.h"
#include "daemon/peer/pinned_keys.h"
#include "daemon/peer/replica_keeper.h"
#include "membership/history/signing_key.h"
#include "membership/masking/mask_duty.h"

namespace atolld {

class MaskLink {
 public:
  struct Events {
    std::function<void(const v1::PeerMessage&)> send;  // to the coordinator, if there is one now
    std::function<void(v1::Ready*)> sign;              // as SignContribution
    std::function<void(ExchangeOutcome)> on_unmasked;  // what its exchange has come to in the end
    std::function<void()> on_over;  // an attempt is over here: its exchange, if any, is void
  };

  // `dir`: where the replica lies, and beside it the pinned keys. `keeper` and `own` outlive it.
  MaskLink(Env env, std::string self, const std::string& dir, ReplicaKeeper& keeper, OwnUpdate& own,
           Events events);

  // Reads the pinned keys. `key` outlives it. Errors as PinnedKeys::Load's. Blocking, before the
  // loop runs.
  absl::Status Load(const SigningKey* key);
  // Of a run without masks all that follows does nothing. Once, checked before, and after Load.
  void Follow(const v1::RunSpec& spec);

  void OnMessage(const v1::MaskToParty& message);
  // FAILED_PRECONDITION: a plan that weighs this peer's masked update otherwise than its masks were
  // made for, or that does not name the contributors.
  absl::Status CheckPlan(const v1::Plan& plan) const;
  // An exchange has come to this masked sum. `plan`: of its revision.
  void OnSum(ExchangeOutcome outcome, const ExchangePlan& plan);
  // The Session was down: says the sum again, unless the masks are here.
  void Repeat();
  // The replica stands at another version, or was opened anew.
  void OnMoved();
  // The update of the attempt is gone, or another is trained: the coordinator is told.
  void GiveUp(const absl::Status& why);
  // The same where it knows.
  void Forget();

  bool under_way() const { return duty_ != nullptr && duty_->party() != nullptr; }  // an attempt

 private:
  struct Sum {
    ExchangeOutcome outcome;
    v1::MaskedSum told;
    std::vector<float> weights;  // of its contributors
  };
  struct Unmasked {
    Digest sum;  // its payload's
    UnmaskedMean mean;
  };

  void Begin(const v1::MaskAttempt& attempt);
  void Refuse(const v1::MaskAttempt& attempt, const std::string& why);
  void CarryOut(MaskDuty::Output out);
  void Send(v1::MaskFromParty message);
  void Mask();
  void OnMasked(const absl::StatusOr<MaskedContribution>& made, float weight);
  void Unmask();
  void TellUnmasked();
  bool IsUnderWay(const v1::MaskAttempt& attempt) const;

  const Env env_;
  const std::string self_;
  ReplicaKeeper& keeper_;
  OwnUpdate& own_;
  const Events events_;

  const SigningKey* key_ = nullptr;
  PinnedKeys pinned_;
  NewestRingSteps steps_;
  v1::RunSpec spec_;
  LevelCodecs codecs_;
  std::unique_ptr<MaskDuty> duty_;  // nullptr: the run has no masks, or none is followed

  std::string stranger_;                  // what was said of one with another key
  std::optional<v1::MaskAttempt> begin_;  // waits for the steps
  // Of the attempt under way.
  std::shared_ptr<const RingSteps> attempt_steps_;
  v1::MaskRoster roster_;
  std::optional<v1::MaskedUpdate> masked_;  // told; without its attempt
  float weight_ = 0;                        // that it was masked with
  std::optional<Sum> sum_;                  // of the newest revision
  std::optional<Digest> unmasking_;         // the sum that is being unmasked
  std::optional<Unmasked> unmasked_;
  CallbackGuard guard_;
};

}  // namespace atolld
