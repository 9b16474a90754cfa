// SigningKey: what somebody vouches with for what others will read later: Ed25519 (RFC 8032).
//
// Signatures are deterministic, so a replayed run has the same ones. What is signed names its
// domain ("atoll.header", ...), so that no signature serves for anything else. Immutable, any
// thread.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

struct evp_pkey_st;

namespace atolld {

inline constexpr size_t kPublicKeyBytes = 32;
inline constexpr size_t kSignatureBytes = 64;

class SigningKey {
 public:
  // A fresh one, from OpenSSL's generator.
  static absl::StatusOr<SigningKey> Generate();
  // The key of this 32-byte seed: for a simulation. INVALID_ARGUMENT: another size.
  static absl::StatusOr<SigningKey> FromSeed(absl::string_view seed);
  // INVALID_ARGUMENT: no Ed25519 key in PEM; one with a password is none.
  static absl::StatusOr<SigningKey> FromPem(absl::string_view pem);

  // PKCS #8, without a password: for a file that its owner alone may read.
  absl::StatusOr<std::string> ToPem() const;

  const std::string& public_key() const { return public_key_; }  // kPublicKeyBytes

  // kSignatureBytes over the domain, a zero byte, and the message. The domain holds no zero byte.
  std::string Sign(absl::string_view domain, absl::string_view message) const;

 private:
  SigningKey(std::shared_ptr<evp_pkey_st> key, std::string public_key)
      : key_(std::move(key)), public_key_(std::move(public_key)) {}
  static absl::StatusOr<SigningKey> Own(evp_pkey_st* key);

  std::shared_ptr<evp_pkey_st> key_;
  std::string public_key_;
};

// Whether the key's owner has signed this message in this domain. Total: sizes that no key or
// signature has are false. Some 100 microseconds.
bool VerifySignature(absl::string_view public_key, absl::string_view domain,
                     absl::string_view message, absl::string_view signature);

// -----------------------------------------------------------------------------------------------
// For a simulation, where many machines of one thread check the same signatures.

// From now on this process remembers which signatures VerifySignature has found right, and checks
// each of them once. One thread. Never in production.
void RememberRightSignatures();

}  // namespace atolld
