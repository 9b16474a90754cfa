// MaskParty: the side of one party in one attempt at a masked sum. It announces keys, seals shares,
// masks the party's update, signs the set of contributors and reveals shares.
//
// Law: for each party it reveals a share of either the seed of that party's own mask or its masking
// key, never both. It does so for only one set of contributors, which is the first that it was sent
// and must be signed by at least `threshold` parties. Steps only go forward. A repeated message
// gets the same answer. If a message contradicts an earlier step or is out of turn, it is refused
// and the attempt ends for this party, which then reveals nothing more. (Bonawitz et al. 2017,
// figure 4, with the lines for a malicious server.)
//
// Pure: it uses neither I/O nor a clock. Used by one thread, except that between the steps Mask may
// be called from any thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "atoll/v1/masking.pb.h"
#include "compression/ring_codec.h"
#include "membership/history/signing_key.h"
#include "membership/masking/mask_announcement.h"
#include "membership/masking/mask_key.h"
#include "membership/masking/mask_secret.h"

namespace atolld {

class MaskParty {
 public:
  // `secret` has 32 random bytes, which are drawn for this attempt only and are never stored.
  // `rule` is the run's rule for rosters. `signing_key` must outlive this object.
  MaskParty(v1::MaskAttempt attempt, std::string peer, const SigningKey* signing_key,
            const MaskRosterRule& rule, KnownSigningKeys known, const MaskSecret& secret);

  const v1::MaskAttempt& attempt() const { return attempt_; }
  // True if the attempt has ended because of an error or by Discard.
  bool over() const { return over_; }
  void Discard() { over_ = true; }

  // Step 1: the keys to announce.
  const v1::MaskKeys& keys() const { return keys_; }

  // Each of the next steps fails with INVALID_ARGUMENT if its message is not valid; the error says
  // what is wrong. It fails with FAILED_PRECONDITION if it is out of turn or the attempt is over.
  // Both errors end the attempt.

  // Step 2: returns the shares for all other parties.
  absl::StatusOr<v1::MaskShares> OnRoster(const v1::MaskRoster& roster);
  // Step 3: takes the shares of the other parties. After this step the update can be masked.
  absl::Status OnDelivery(const v1::MaskDelivery& delivery);
  // Adds the masks to the codes of a chunk. These are the party's own mask and the mask that it has
  // in common with each other party that masks. A common mask is added if the other party comes
  // later in the roster, and subtracted if it comes earlier. Must be called once for each chunk of
  // an attempt. Fails with FAILED_PRECONDITION before step 3 and after step 4.
  absl::Status Mask(const RingForm& ring, uint64_t chunk, absl::Span<uint32_t> codes) const;
  // Step 4: returns the signature of the set of contributors, which must include this party.
  absl::StatusOr<v1::MaskAgreed> OnFrozen(const v1::MaskFrozen& frozen);
  // Step 5: returns the shares that this party reveals.
  absl::StatusOr<v1::UnmaskShares> OnRequest(const v1::UnmaskRequest& request);

 private:
  struct HeldShares {
    MaskSecret of_key;
    MaskSecret of_seed;
  };

  absl::Status CheckTurn(const v1::MaskAttempt& attempt, bool ready) const;
  absl::StatusOr<v1::MaskShares> MakeShares();
  absl::Status TakeDelivery(const v1::MaskDelivery& delivery);
  absl::Status CheckConsents(const v1::UnmaskRequest& request) const;
  // Ends the attempt and returns `status`.
  absl::Status GiveUp(absl::Status status);

  // Constant after construction.
  const v1::MaskAttempt attempt_;
  const std::string peer_;
  const SigningKey* const signing_key_;
  const MaskRosterRule rule_;
  const KnownSigningKeys known_;
  const MaskSecret secret_;
  const MaskKey sharing_key_;
  const MaskKey masking_key_;
  const MaskSecret seed_;
  v1::MaskKeys keys_;

  bool over_ = false;
  std::optional<v1::MaskRoster> roster_;
  std::optional<v1::MaskShares> shares_;  // the shares that were sent
  // The shares that this party holds, by the party that masks (including itself).
  std::map<std::string, HeldShares> held_;
  std::map<std::string, MaskSecret> common_;  // the secrets of common masks, by the other party
  std::optional<std::string> delivery_;       // the delivery, serialised
  std::optional<std::vector<std::string>> frozen_;
};

// Returns the key under which a share for another party is sealed.
absl::StatusOr<MaskSecret> SealKey(const MaskKey& own, const std::string& their_sharing_key,
                                   const v1::MaskAttempt& attempt, const std::string& from,
                                   const std::string& to);

// Returns the secret from which the common mask of two parties is derived.
absl::StatusOr<MaskSecret> CommonMask(const MaskKey& own, const std::string& their_masking_key,
                                      const v1::MaskAttempt& attempt);

}  // namespace atolld
