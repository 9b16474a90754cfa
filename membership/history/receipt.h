// Receipts: what a peer has given to a run, vouched for by the holder of the run's history key
// (v1::Receipt).
//
// The signature is over our own layout of every other field, in a domain of its own, so neither a
// header's nor a seal's serves for a receipt. A receipt names the key that has signed it: whether
// that is the run's, whoever checks it must know from elsewhere. Pure functions, any thread.
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

// What a peer has given, of `all` headers that were counted.
v1::Account AccountOf(const ContributorSum& sum, double all);

// Every field but the signature, in the order of admin.proto; `share` as its fp64 bits.
Digest ReceiptDigest(const v1::Receipt& receipt);

// The signature, by the key that the receipt names.
std::string SignReceipt(const SigningKey& key, const v1::Receipt& receipt);

// INVALID_ARGUMENT: it is not whole. PERMISSION_DENIED: its signature is not by the key that it
// names over what it says; or that key is not `history_key`. Empty: any key.
absl::Status CheckReceipt(const v1::Receipt& receipt, absl::string_view history_key);

}  // namespace atolld
