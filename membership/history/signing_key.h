// SigningKey: an Ed25519 key (RFC 8032) with which a peer signs statements that others read later.
//
// Signatures are deterministic, so a replayed run has the same signatures. Every signed message
// names its domain ("atoll.header", ...), so a signature cannot be used for another kind of
// message. Immutable, therefore thread-safe.
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
  // Makes a new key with OpenSSL's random generator.
  static absl::StatusOr<SigningKey> Generate();
  // Makes the key that belongs to this 32-byte seed, for a simulation. Fails with INVALID_ARGUMENT
  // if the seed has another size.
  static absl::StatusOr<SigningKey> FromSeed(absl::string_view seed);
  // Fails with INVALID_ARGUMENT if the text is not an Ed25519 key in PEM, or if the key has a
  // password.
  static absl::StatusOr<SigningKey> FromPem(absl::string_view pem);

  // Returns the key as PEM (PKCS #8) without a password, for a file that only its owner may read.
  absl::StatusOr<std::string> ToPem() const;

  const std::string& public_key() const { return public_key_; }  // kPublicKeyBytes long

  // Returns the signature of the domain, a zero byte and the message; it has kSignatureBytes bytes.
  // The domain must not contain a zero byte.
  std::string Sign(absl::string_view domain, absl::string_view message) const;

 private:
  SigningKey(std::shared_ptr<evp_pkey_st> key, std::string public_key)
      : key_(std::move(key)), public_key_(std::move(public_key)) {}
  static absl::StatusOr<SigningKey> Own(evp_pkey_st* key);

  std::shared_ptr<evp_pkey_st> key_;
  std::string public_key_;
};

// Returns true if the key's owner signed this message in this domain. Returns false if the key or
// the signature has a wrong size. Takes about 100 microseconds.
bool VerifySignature(absl::string_view public_key, absl::string_view domain,
                     absl::string_view message, absl::string_view signature);

// -----------------------------------------------------------------------------------------------
// For a simulation, in which many machines on one thread check the same signatures.

// From now on this process remembers the signatures that VerifySignature has found right, and
// checks each of them only once. Used by one thread, and never in production.
void RememberRightSignatures();

}  // namespace atolld
