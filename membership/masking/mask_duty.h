// MaskDuty: what a party does at each word of the coordinator about masks, attempt after attempt.
//
// Laws: it takes part in one attempt at a time and, of one process, in none whose number is not
// above that of the last; so no secret serves twice. A new attempt or an end forgets the secrets of
// the one before. What an honest coordinator would not say ends the attempt, and the coordinator is
// told. No I/O, no clock; one thread.
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
  // What the party is to do beside answering.
  enum class Action {
    kNothing,
    kMask,    // its update, with party(); then Masked()
    kUnmask,  // the sum, with masks()
    kForget   // the attempt is over: a masked update that has not been summed is worth nothing
  };
  struct Output {
    std::vector<v1::MaskFromParty> sends;
    Action action = Action::kNothing;
    std::string event;  // for people; empty: nothing
  };

  // `draw`: 32 random bytes, each time others. `known`: as MaskParty's, asked at each attempt.
  // `signing_key` outlives it.
  MaskDuty(std::string run_id, std::string peer, const SigningKey* signing_key, uint32_t threshold,
           std::function<std::string()> draw, std::function<KnownSigningKeys()> known);

  Output OnMessage(const v1::MaskToParty& message);
  // The update is encoded and masked: its root, and the signature of that.
  Output Masked(std::string root, std::string signature) const;
  // The exchange has come to this under the plan's revision.
  Output Summed(v1::MaskedSum sum) const;
  // Its update is gone, or what came is of no use to it: the attempt is over here, and the
  // coordinator is told. Nothing where it is in none.
  Output GiveUp(const absl::Status& why);
  // The same where there is nobody to tell any more.
  void Forget();

  const MaskParty* party() const { return party_.get(); }        // nullptr: in no attempt
  const std::vector<LeftMask>& masks() const { return masks_; }  // from kUnmask on
  const std::vector<std::string>& contributors() const { return contributors_; }  // as masks()

 private:
  Output Begin(const v1::MaskAttempt& attempt);
  Output Unmask(const v1::Unmasking& unmasking);

  const std::string run_id_;
  const std::string peer_;
  const SigningKey* const signing_key_;
  const uint32_t threshold_;
  const std::function<std::string()> draw_;
  const std::function<KnownSigningKeys()> known_;

  std::optional<uint64_t> last_;  // attempt that it took part in
  std::unique_ptr<MaskParty> party_;
  v1::MaskRoster roster_;
  std::vector<LeftMask> masks_;
  std::vector<std::string> contributors_;
  bool delivered_ = false;
};

}  // namespace atolld
