// Receipts: statements of what a peer has contributed to a run, signed by the holder of the run's
// history key (v1::Receipt).
//
// The signature covers Atoll's own layout of every other field. It has a domain of its own, so the
// signature of a header or a seal cannot be used for a receipt. A receipt names the key that signed
// it; the caller must know from another source whether this is the run's key. Pure. May be called
// from any thread.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "atoll/v1/admin.pb.h"
#include "membership/history/checkpoint.h"
#include "membership/history/digest.h"
#include "membership/history/signing_key.h"

namespace atolld {

// Returns the account of a peer's contributions; `all` is the number of headers that were counted.
v1::Account AccountOf(const ContributorSum& sum, double all);

// Returns the digest of every field except the signature, in the order of admin.proto. `share` is
// hashed as its fp64 bits.
Digest ReceiptDigest(const v1::Receipt& receipt);

// Returns the signature. `key` must be the one that the receipt names.
std::string SignReceipt(const SigningKey& key, const v1::Receipt& receipt);

// Fails with INVALID_ARGUMENT if the receipt is incomplete. Fails with PERMISSION_DENIED if it is
// not signed with the key that it names, or if that key is not `history_key`. An empty
// `history_key` accepts any key.
absl::Status CheckReceipt(const v1::Receipt& receipt, absl::string_view history_key);

}  // namespace atolld
