// The private key of a process, and functions that read and check certificates.
//
// PrivateKey is the secret half of an identity, an ECDSA key over P-256. It never leaves its
// machine: the process sends the authority a request that proves that it has the key. Functions
// that read a certificate do not check its signature; TLS does that for a call, and LoadCredentials
// for a folder. Immutable. May be used from any thread.
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
  // Makes a new key with OpenSSL's random generator.
  static absl::StatusOr<PrivateKey> Generate();
  // Fails with INVALID_ARGUMENT if the text is not a P-256 key in PEM, or if the key has a
  // password.
  static absl::StatusOr<PrivateKey> FromPem(absl::string_view pem);

  // Returns the key as PKCS #8 in PEM without a password, for a file that only its owner may read.
  absl::StatusOr<std::string> ToPem() const;

  // Returns a certificate signing request (PKCS #10, DER): the public key, signed with this private
  // key. It contains no name, because the authority decides to which identity it gives the
  // certificate.
  absl::StatusOr<std::string> SigningRequest() const;

  // Returns the digest of the public key, as in CertificateInfo::key_digest.
  absl::StatusOr<std::string> Digest() const;

  evp_pkey_st* get() const { return key_.get(); }

 private:
  explicit PrivateKey(std::shared_ptr<evp_pkey_st> key) : key_(std::move(key)) {}

  std::shared_ptr<evp_pkey_st> key_;
};

struct CertificateInfo {
  Identity identity;  // The identity, with the serial number and the key of the certificate.
  absl::Time not_before;
  absl::Time not_after;
  std::string key_digest;  // The SHA-256 of the public key, in hexadecimal.
};

// Parses one certificate in PEM. Fails with INVALID_ARGUMENT if `pem` is not a certificate, or if
// it does not name an identity of Atoll.
absl::StatusOr<CertificateInfo> ParseCertificate(absl::string_view pem);

// Fails with PERMISSION_DENIED if the certificate has expired or is not valid yet; the message
// gives the period of validity and `now`.
absl::Status CheckValidAt(const CertificateInfo& certificate, absl::Time now);

// Returns true if less than a third of the certificate's lifetime is left.
bool RenewalDue(const CertificateInfo& certificate, absl::Time now);

// Fails with INVALID_ARGUMENT if the certificate `authority` did not sign `pem`.
absl::Status CheckSignedBy(absl::string_view pem, absl::string_view authority);

// Returns the DNS name in the certificates of servers in this role, which clients check. Empty if
// processes in this role are not servers.
std::string ServerName(Role role);

}  // namespace atolld
