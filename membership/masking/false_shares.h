// Recovers secrets from revealed shares even if some are false, and finds the peers to blame for
// the false shares.
//
// Every secret can be checked, because its owner has committed to it. If `threshold` shares give
// the right secret, all of them are right, and they show which of the other shares are false.
// Decoding finds up to (shares - threshold) / 2 false shares, for any number of shares. If there
// are few enough choices of `threshold` shares to try all of them (see kMostChoices), up to shares
// - threshold false ones are found.
//
// If a share is false, either its holder lies or the owner of the secret gave the holder a false
// share; no other peer can see which. The holder is blamed if it revealed false shares of more
// owners than there are holders that revealed false shares of this owner. The owner is blamed if
// there are more such holders than such owners. If the two numbers are equal, either of them may be
// to blame. Pure. May be called from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "membership/masking/mask_secret.h"
#include "membership/masking/secret_sharing.h"

namespace atolld {

// The most choices of shares that are tried for one secret. It allows all choices of 11 out of 15
// shares. A try takes at most about 50 microseconds, which is the time to check a key.
inline constexpr size_t kMostChoices = 1500;

using SecretCheck = std::function<absl::Status(const MaskSecret& secret)>;

struct FoundSecret {
  MaskSecret secret;
  std::vector<size_t> false_shares;  // indices into the shares, ascending
};

// Recovers the secret from `shares`, whose places must be distinct and between 1 and kMostShares.
// Fails with FAILED_PRECONDITION if there are fewer shares than the threshold or if too many of
// them are false.
absl::StatusOr<FoundSecret> FindSecret(absl::Span<const SecretShare> shares, uint32_t threshold,
                                       const SecretCheck& check);

// A secret of the peer `of`, and the share of it that each holder has revealed.
struct OpenedSecret {
  std::string of;
  std::vector<SecretShare> shares;  // in the order of the holders
  SecretCheck check;
};

struct ShareSuspect {
  std::string peer;
  // The reason, as a phrase that follows the peer's name.
  std::string why;
  // False if another peer may be to blame instead.
  bool sure = false;
};

struct SharesJudged {
  std::vector<std::optional<MaskSecret>> secrets;  // in the order of `opened`; nullopt if not found
  std::vector<ShareSuspect> suspects;              // ascending by peer
};

// Recovers the secrets of `opened`, and names the peers that are blamed for false shares.
SharesJudged JudgeShares(const std::vector<std::string>& holders,
                         absl::Span<const OpenedSecret> opened, uint32_t threshold);

}  // namespace atolld
