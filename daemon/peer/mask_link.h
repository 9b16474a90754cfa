// MaskLink: a peer's part in masked sums. It answers the coordinator's messages about masks. In
// each attempt it masks the peer's update, reports the masked sum, and computes the mean from it.
//
// MaskDuty keeps the protocol's laws. This class gives it what it needs from the peer (the held
// update, the ring's steps, the keys of other peers as they were first seen) and carries out its
// outputs: it masks the update anew for each attempt and reports the masked sum of an exchange.
// Once the peer has the secrets, the mean is computed from the sum, and this peer votes for it as
// for any other mean.
//
// Laws: a masked update is dropped with its attempt. If the attempt ends before the coordinator has
// named its contributors, the update's unmasked values are kept. If they were named, or if this
// peer cannot know whether they were, the sum may be unmasked: the update is then dropped, joins no
// other attempt, and another update is trained (shown_updates.h). Masking and unmasking run on the
// pool, on copies. The class has more than twenty members because it keeps the attempt under way
// with its sum and mean, and also the updates that earlier attempts may have shown. Used on the
// loop thread.
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
#include "daemon/peer/shown_updates.h"
#include "membership/history/signing_key.h"
#include "membership/masking/mask_duty.h"

namespace atolld {

class MaskLink {
 public:
  struct Events {
    // Sends to the coordinator; does nothing if none is connected.
    std::function<void(const v1::PeerMessage&)> send;
    std::function<void(v1::Ready*)> sign;  // Signs the Ready as SignContribution does.
    // Called with the outcome of the exchange once its masks are removed.
    std::function<void(ExchangeOutcome)> on_unmasked;
    // Called when this peer has ended an attempt. If the attempt has an exchange, that has no
    // result.
    std::function<void()> on_over;
    // Called when the update was dropped because it may be in a sum.
    std::function<void()> on_shown;
  };

  // `dir` is the folder of the replica and of the pinned keys. `keeper` and `own` must outlive this
  // object.
  MaskLink(Env env, std::string self, const std::string& dir, ReplicaKeeper& keeper, OwnUpdate& own,
           Events events);

  // Reads the pinned keys and the count of shown updates. `key` must outlive this object. Fails
  // like PinnedKeys::Load and ShownUpdates::Load. This call blocks and is made before the loop
  // runs.
  absl::Status Load(const SigningKey* key);
  // Sets the run. Called once, after Load, with a checked spec. If the run has no masks, the
  // following functions do nothing.
  void Follow(const v1::RunSpec& spec);

  void OnMessage(const v1::MaskToParty& message);
  // Fails with FAILED_PRECONDITION if the plan does not give this peer's masked update the weight
  // with which it was masked, or does not name the contributors.
  absl::Status CheckPlan(const v1::Plan& plan) const;
  // Called when an exchange has ended with this masked sum. `plan` is the plan of the outcome's
  // revision.
  void OnSum(ExchangeOutcome outcome, const ExchangePlan& plan);
  // Called at a new Session. Reports the sum again, unless the coordinator has already named the
  // attempt's contributors.
  void Repeat();
  // Called when the replica has moved or was opened again.
  void OnMoved();
  // Called when the attempt's update was dropped, or when another update is trained. Tells the
  // coordinator why.
  void GiveUp(const absl::Status& why);
  // Like GiveUp, but tells the coordinator nothing, because it already knows.
  void Forget();

  // Returns true if the run has masks.
  bool masked() const { return duty_ != nullptr; }
  // Returns true if an attempt is under way.
  bool under_way() const { return duty_ != nullptr && duty_->party() != nullptr; }
  // Returns the number of updates to this version that a sum may have shown (see shown_updates.h).
  uint32_t ShownTo(uint64_t version) const { return shown_.CountOf(version); }

 private:
  struct Sum {
    ExchangeOutcome outcome;
    v1::MaskedSum told;
    std::vector<float> weights;  // The weights of the contributors.
  };
  struct Unmasked {
    Digest sum;  // The digest of the sum's payload.
    UnmaskedMean mean;
  };

  void Begin(const v1::MaskAttempt& attempt);
  void Refuse(const v1::MaskAttempt& attempt, const std::string& why);
  // `told` is true if the coordinator or an entry has shown that the attempt has ended. If the
  // contributors were not named before (frozen_), a masked update then counts as not shown; if
  // `told` is false, it counts as shown.
  void CarryOut(MaskDuty::Output out, bool told = false);
  void End(bool told);
  void OnOver(bool told);
  bool IsSpent() const;  // Returns true if the held update may be in a sum.
  void DropSpent();
  bool IsCounted(uint64_t version) const;  // Returns true if the held update was counted as shown.
  void Send(v1::MaskFromParty message);
  void Mask();
  void OnMasked(const absl::StatusOr<MaskedContribution>& made, float weight);
  void TellMasked(std::shared_ptr<const Contribution> made);
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
  ShownUpdates shown_;
  NewestRingSteps steps_;
  v1::RunSpec spec_;
  LevelCodecs codecs_;
  std::unique_ptr<MaskDuty> duty_;  // Nullptr if the run has no masks or no run is followed.

  std::string stranger_;  // The last logged line about a peer that has another key than before.
  std::optional<v1::MaskAttempt> begin_;  // An attempt that waits for the ring's steps.
  // The state of the attempt under way:
  std::shared_ptr<const RingSteps> attempt_steps_;
  v1::MaskRoster roster_;
  // The masked update as it was reported, without its `attempt` field.
  std::optional<v1::MaskedUpdate> masked_;
  float weight_ = 0;  // The weight with which the update was masked.
  // The update that was last counted as shown, and its version.
  std::weak_ptr<const std::vector<float>> counted_;
  uint64_t counted_for_ = 0;
  // An update that may already be in a sum and therefore must not join another.
  std::weak_ptr<const std::vector<float>> spent_;
  // True once the coordinator has named the attempt's contributors to this peer.
  bool frozen_ = false;
  std::optional<Sum> sum_;           // The sum of the newest revision.
  std::optional<Digest> unmasking_;  // The digest of the sum that is being unmasked.
  std::optional<Unmasked> unmasked_;
  CallbackGuard guard_;
};

}  // namespace atolld
