// MaskDuty: answers the coordinator's messages about masks on the side of a party, for one attempt
// after another.
//
// Laws: the party takes part in one attempt at a time. Each attempt in which a process takes part
// has a greater number than the one before, so no secret is used twice. The secrets of an attempt
// are erased when it ends or a new one begins. A message that an honest coordinator would not send
// ends the attempt, and the party reports this to the coordinator. Pure: it uses neither I/O nor a
// clock. Used by one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "atoll/v1/masking.pb.h"
#include "membership/history/signing_key.h"
#include "membership/masking/mask_party.h"
#include "membership/masking/unmasking.h"

namespace atolld {

class MaskDuty {
 public:
  // The caller's next step after sending the messages.
  enum class Action {
    kNothing,
    kMask,    // mask the update with party(), then call Masked()
    kUnmask,  // take the masks in masks() off the sum
    kForget   // the attempt is over, so discard the masked update if it has not been summed
  };
  struct Output {
    std::vector<v1::MaskFromParty> sends;
    Action action = Action::kNothing;
    // A message for people; empty if there is none.
    std::string event;
  };

  // `rule` is the run's rule for rosters. `draw` returns 32 new random bytes. `known` returns the
  // signing keys that the party knows; it is called once for each attempt. `signing_key` must
  // outlive this object.
  MaskDuty(std::string run_id, std::string peer, const SigningKey* signing_key,
           const MaskRosterRule& rule, std::function<std::string()> draw,
           std::function<KnownSigningKeys()> known);

  Output OnMessage(const v1::MaskToParty& message);
  // Called when the update is encoded and masked, with the root of the update and its signature.
  Output Masked(std::string root, std::string signature) const;
  // Called when the exchange has computed this peer's sum under the plan's current revision.
  Output Summed(v1::MaskedSum sum) const;
  // Called when the party has lost its update or cannot use the sum that arrived. Ends the attempt
  // for this party and reports `why` to the coordinator. Does nothing if the party is in no
  // attempt.
  Output GiveUp(const absl::Status& why);
  // Ends the attempt without a message. Called when the coordinator cannot be reached any more.
  void Forget();

  const MaskParty* party() const { return party_.get(); }        // null if it is in no attempt
  const std::vector<LeftMask>& masks() const { return masks_; }  // set after kUnmask
  // The contributors to the sum; set together with masks().
  const std::vector<std::string>& contributors() const { return contributors_; }

 private:
  Output Begin(const v1::MaskAttempt& attempt);
  Output Unmask(const v1::Unmasking& unmasking);

  const std::string run_id_;
  const std::string peer_;
  const SigningKey* const signing_key_;
  const MaskRosterRule rule_;
  const std::function<std::string()> draw_;
  const std::function<KnownSigningKeys()> known_;

  // The number of the last attempt that the party took part in.
  std::optional<uint64_t> last_;
  std::unique_ptr<MaskParty> party_;
  v1::MaskRoster roster_;
  std::vector<LeftMask> masks_;
  std::vector<std::string> contributors_;
  bool delivered_ = false;
};

}  // namespace atolld
