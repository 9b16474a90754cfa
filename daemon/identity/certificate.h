// A process's key, and what a certificate says.
//
// PrivateKey is the secret half of an identity, ECDSA over P-256. It never leaves its machine:
// others sign a request that proves that it is there. A certificate's signature was checked by
// whoever took it in: TLS does that for a call, LoadCredentials for a folder. Immutable and pure,
// any thread.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "membership/trust/identity.h"

struct evp_pkey_st;

namespace atolld {

class PrivateKey {
 public:
  // A fresh one, from OpenSSL's generator.
  static absl::StatusOr<PrivateKey> Generate();
  // INVALID_ARGUMENT: no such key in PEM; one with a password is none.
  static absl::StatusOr<PrivateKey> FromPem(absl::string_view pem);

  // PKCS #8, without a password: for a file that its owner alone may read.
  absl::StatusOr<std::string> ToPem() const;

  // A certificate signing request (PKCS #10, DER): the public key, signed with this one. It names
  // nobody: who gets the certificate is the authority's to say.
  absl::StatusOr<std::string> SigningRequest() const;

  // As CertificateInfo::key_digest and SigningRequestKey have it.
  absl::StatusOr<std::string> Digest() const;

  evp_pkey_st* get() const { return key_.get(); }

 private:
  explicit PrivateKey(std::shared_ptr<evp_pkey_st> key) : key_(std::move(key)) {}

  std::shared_ptr<evp_pkey_st> key_;
};

struct CertificateInfo {
  Identity identity;  // with its serial and key
  absl::Time not_before;
  absl::Time not_after;
  std::string key_digest;  // SHA-256 of its public key, hexadecimal
};

// Of one PEM certificate. INVALID_ARGUMENT: it is none, or names no identity of Atoll.
absl::StatusOr<CertificateInfo> ParseCertificate(absl::string_view pem);

// PERMISSION_DENIED: it has expired or is not yet valid, with both times.
absl::Status CheckValidAt(const CertificateInfo& certificate, absl::Time now);

// Less than a third of its life is left.
bool RenewalDue(const CertificateInfo& certificate, absl::Time now);

// INVALID_ARGUMENT: `pem` was not signed by the certificate `authority`.
absl::Status CheckSignedBy(absl::string_view pem, absl::string_view authority);

// The DNS name that the certificate of whoever serves as this role carries; a dialler demands it.
// Empty: this role serves nothing.
std::string ServerName(Role role);

}  // namespace atolld
