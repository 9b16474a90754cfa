// MaskParty: one party's side of one attempt of a masked sum: what it announces, seals, adds to its
// update, signs and reveals.
//
// Law: of each party it reveals a share of the own mask's seed or of the masking key, never both,
// and only for one set of contributors: the first that it was told of, which at least `threshold`
// parties have signed. Steps go forward only; what comes again gets the same answer, and what
// contradicts an earlier step, or comes out of turn, is refused and ends the attempt here: after
// that this party reveals nothing more. (Bonawitz et al. 2017, figure 4, with the lines for a
// malicious server.)
//
// No I/O, no clock. One thread; Mask is const and may run on any, between the steps.
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
  // `secret`: 32 random bytes, drawn for this attempt alone and kept in memory only. `wanted`:
  // the run's threshold. `signing_key` outlives the party.
  MaskParty(v1::MaskAttempt attempt, std::string peer, const SigningKey* signing_key,
            uint32_t wanted, KnownSigningKeys known, const MaskSecret& secret);

  const v1::MaskAttempt& attempt() const { return attempt_; }
  bool over() const { return over_; }  // it was given up, here or by Discard
  void Discard() { over_ = true; }

  // Step 1.
  const v1::MaskKeys& keys() const { return keys_; }

  // Each step's errors: INVALID_ARGUMENT says what is wrong with the message; FAILED_PRECONDITION:
  // out of turn, or the attempt is over. After either it is over.

  // Step 2: the shares for all others.
  absl::StatusOr<v1::MaskShares> OnRoster(const v1::MaskRoster& roster);
  // Step 3: from here on updates can be masked.
  absl::Status OnDelivery(const v1::MaskDelivery& delivery);
  // Adds the masks to a chunk's codes: its own one, and for each other party that masks the common
  // one, plus for parties behind it in the roster and minus for those before. Once for each chunk
  // of an attempt. FAILED_PRECONDITION before step 3 and after step 4.
  absl::Status Mask(const RingForm& ring, uint64_t chunk, absl::Span<uint32_t> codes) const;
  // Step 4: the signature under the contributors, of whom this party is one.
  absl::StatusOr<v1::MaskAgreed> OnFrozen(const v1::MaskFrozen& frozen);
  // Step 5.
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
  // Whatever goes wrong ends the attempt.
  absl::Status GiveUp(absl::Status status);

  // Constant after construction.
  const v1::MaskAttempt attempt_;
  const std::string peer_;
  const SigningKey* const signing_key_;
  const uint32_t wanted_;
  const KnownSigningKeys known_;
  const MaskSecret secret_;
  const MaskKey sharing_key_;
  const MaskKey masking_key_;
  const MaskSecret seed_;
  v1::MaskKeys keys_;

  bool over_ = false;
  std::optional<v1::MaskRoster> roster_;
  std::optional<v1::MaskShares> shares_;      // as they were sent
  std::map<std::string, HeldShares> held_;    // of each party that masks, itself too
  std::map<std::string, MaskSecret> common_;  // with each other party that masks
  std::optional<std::string> delivery_;       // as it came
  std::optional<std::vector<std::string>> frozen_;
};

// What a share for another party is sealed under.
absl::StatusOr<MaskSecret> SealKey(const MaskKey& own, const std::string& their_sharing_key,
                                   const v1::MaskAttempt& attempt, const std::string& from,
                                   const std::string& to);

// The secret of the mask that two parties have in common.
absl::StatusOr<MaskSecret> CommonMask(const MaskKey& own, const std::string& their_masking_key,
                                      const v1::MaskAttempt& attempt);

}  // namespace atolld
