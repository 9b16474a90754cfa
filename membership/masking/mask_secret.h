// Secrets of one masked round: 32 bytes each, and how others are derived from them.
//
// A party draws one secret for each attempt (RandomBytes of daemon/env) and derives all else from
// it (its two key pairs, its own mask's seed, the coefficients of its shares), so a simulation
// repeats bit by bit. HKDF with SHA-256 (RFC 5869): `label` says what the derived secret is for,
// `context` whose it is; no two labels here are alike. A secret's memory is overwritten when it
// goes. Pure functions, any thread.
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

  // INVALID_ARGUMENT unless 32 bytes.
  static absl::StatusOr<MaskSecret> FromBytes(absl::string_view bytes);

  absl::string_view view() const {
    return absl::string_view(reinterpret_cast<const char*>(bytes_.data()), bytes_.size());
  }
  const uint8_t* data() const { return bytes_.data(); }
  uint8_t* data() { return bytes_.data(); }

  // Another secret, which tells nothing about this one.
  MaskSecret Derive(absl::string_view label, absl::string_view context) const;

 private:
  std::array<uint8_t, kMaskSecretBytes> bytes_;
};

// In a time that does not depend on where they differ.
bool SameSecret(const MaskSecret& a, const MaskSecret& b);

// SHA-256("atoll.mask.commitment" || 0x00 || secret): says which secret it is, and does not tell
// it, since nobody can try 2^256 of them.
std::string CommitmentTo(const MaskSecret& secret);

}  // namespace atolld
