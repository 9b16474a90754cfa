// The secrets of one masked round, which have 32 bytes each, and the derivation of other secrets
// from them.
//
// A party draws one secret for each attempt (RandomBytes of daemon/env). It derives everything else
// from that secret: its two key pairs, the seed of its own mask, and the coefficients of its
// shares. A simulation is therefore reproducible bit by bit. Derivation is HKDF with SHA-256 (RFC
// 5869). `label` names the purpose of the derived secret, and `context` names the parties to which
// it belongs. Every purpose has its own label. The destructor overwrites a secret's memory. Pure.
// May be called from any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace atolld {

inline constexpr size_t kMaskSecretBytes = 32;

class MaskSecret {
 public:
  MaskSecret() : bytes_{} {}
  ~MaskSecret();
  MaskSecret(const MaskSecret&) = default;
  MaskSecret& operator=(const MaskSecret&) = default;

  // Fails with INVALID_ARGUMENT unless there are 32 bytes.
  static absl::StatusOr<MaskSecret> FromBytes(absl::string_view bytes);

  absl::string_view view() const {
    return absl::string_view(reinterpret_cast<const char*>(bytes_.data()), bytes_.size());
  }
  const uint8_t* data() const { return bytes_.data(); }
  uint8_t* data() { return bytes_.data(); }

  // Returns a derived secret, which reveals nothing about this one.
  MaskSecret Derive(absl::string_view label, absl::string_view context) const;

 private:
  std::array<uint8_t, kMaskSecretBytes> bytes_;
};

// Compares in a time that does not depend on where the secrets differ.
bool SameSecret(const MaskSecret& a, const MaskSecret& b);

// Returns SHA-256("atoll.mask.commitment" || 0x00 || secret). It identifies the secret without
// revealing it, since no one can try 2^256 secrets.
std::string CommitmentTo(const MaskSecret& secret);

}  // namespace atolld
