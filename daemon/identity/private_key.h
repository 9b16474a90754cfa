// PrivateKey: the secret half of an identity, ECDSA over P-256.
//
// It never leaves its machine: others sign a request that proves that it is there. Immutable, any
// thread.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

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

}  // namespace atolld
