#include "membership/history/receipt.h"

#include "absl/base/casts.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "compression/base/names.h"
#include "compression/base/status_macros.h"

namespace atolld {
namespace {

constexpr char kReceiptDomain[] = "atoll.receipt";

absl::Status CheckWhole(const v1::Receipt& receipt) {
  const auto size = [](absl::string_view what, const std::string& bytes, size_t wanted) {
    if (bytes.size() == wanted) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("the receipt's ", what, " has ", bytes.size(), " bytes; it has ", wanted));
  };
  if (!IsValidId(receipt.run_id()) || !IsValidId(receipt.account().peer())) {
    return absl::InvalidArgumentError("the receipt names no run, or no peer");
  }
  RETURN_IF_ERROR(size("header digest", receipt.header_digest(), kDigestBytes));
  RETURN_IF_ERROR(size("history key", receipt.history_key(), kPublicKeyBytes));
  return size("signature", receipt.signature(), kSignatureBytes);
}

}  // namespace

v1::Account AccountOf(const ContributorSum& sum, double all) {
  v1::Account account;
  account.set_peer(sum.peer);
  account.set_rounds(sum.rounds);
  account.set_tokens(sum.tokens);
  account.set_steps(sum.steps);
  account.set_first_version(sum.first_version);
  account.set_last_version(sum.last_version);
  account.set_share(all > 0 ? sum.shares / all : 0);
  return account;
}

Digest ReceiptDigest(const v1::Receipt& receipt) {
  const v1::Account& account = receipt.account();
  DigestBuilder builder("atoll.receipt.1");
  builder.Bytes(receipt.run_id()).Bytes(account.peer()).U64(account.rounds());
  builder.U64(account.tokens()).U64(account.steps()).U64(account.first_version());
  builder.U64(account.last_version()).U64(absl::bit_cast<uint64_t>(account.share()));
  builder.U64(receipt.version()).Bytes(receipt.header_digest());
  builder.U64(static_cast<uint64_t>(receipt.issued_unix_seconds()));
  return builder.Bytes(receipt.history_key()).Finish();
}

std::string SignReceipt(const SigningKey& key, const v1::Receipt& receipt) {
  return key.Sign(kReceiptDomain, ToBytes(ReceiptDigest(receipt)));
}

absl::Status CheckReceipt(const v1::Receipt& receipt, absl::string_view history_key) {
  RETURN_IF_ERROR(CheckWhole(receipt));
  if (!VerifySignature(receipt.history_key(), kReceiptDomain, ToBytes(ReceiptDigest(receipt)),
                       receipt.signature())) {
    return absl::PermissionDeniedError(
        "the receipt is not what was signed: its signature is not by the key that it names, over "
        "what it says");
  }
  if (history_key.empty() || history_key == receipt.history_key()) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat("the receipt is signed by key ", absl::BytesToHexString(receipt.history_key()),
                   ", and the run's history by ", absl::BytesToHexString(history_key)));
}

}  // namespace atolld
