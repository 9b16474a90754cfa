#include "membership/history/signature.h"

#include "absl/strings/str_cat.h"
#include "compression/base/planted_bug.h"
#include "membership/history/header.h"

namespace atolld {
namespace {

constexpr char kHeaderDomain[] = "atoll.header";
constexpr char kSealDomain[] = "atoll.seal";

absl::Status Check(const v1::RunSpec& spec, const char* domain, const Digest& digest,
                   const std::string& signature, const std::string& what) {
  const std::string& key = spec.history_key();
  if (Planted(PlantedBug::kSignatureNotChecked)) return absl::OkStatus();
  if (key.empty()) {
    if (signature.empty()) return absl::OkStatus();
    return absl::PermissionDeniedError(
        absl::StrCat(what, ": it is signed, but the history of run ", spec.run_id(), " is not"));
  }
  if (signature.empty()) {
    return absl::PermissionDeniedError(
        absl::StrCat(what, ": it is not signed, and the history of run ", spec.run_id(), " is"));
  }
  if (VerifySignature(key, domain, ToBytes(digest), signature)) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat(what, ": its signature is not by the history key of run ", spec.run_id()));
}

}  // namespace

Digest SealDigest(const v1::Seal& seal) {
  DigestBuilder builder("atoll.seal.1");
  builder.Bytes(seal.run_id()).U64(seal.version());
  return builder.Bytes(seal.state_digest()).Bytes(seal.header_digest()).Finish();
}

std::string SignHeader(const SigningKey& key, const v1::EntryHeader& header) {
  return key.Sign(kHeaderDomain, ToBytes(HeaderDigest(header)));
}

std::string SignSeal(const SigningKey& key, const v1::Seal& seal) {
  return key.Sign(kSealDomain, ToBytes(SealDigest(seal)));
}

absl::Status CheckSigned(const v1::RunSpec& spec, const v1::EntryHeader& header) {
  return Check(spec, kHeaderDomain, HeaderDigest(header), header.signature(),
               absl::StrCat("entry ", header.version()));
}

absl::Status CheckSigned(const v1::RunSpec& spec, const v1::Seal& seal) {
  return Check(spec, kSealDomain, SealDigest(seal), seal.signature(),
               absl::StrCat("seal of version ", seal.version()));
}

}  // namespace atolld
