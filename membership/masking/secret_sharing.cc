#include "membership/masking/secret_sharing.h"

#include <openssl/crypto.h>

#include <set>

#include "absl/strings/str_cat.h"
#include "compression/base/words.h"
#include "compression/ring_codec.h"
#include "membership/masking/byte_field.h"
#include "membership/masking/mask_stream.h"

namespace atolld {
namespace {

// Returns the factor of share `at` in the value at 0: the product over the others of x / (x -
// x_at). In this field minus is plus.
uint8_t LagrangeFactor(absl::Span<const SecretShare> shares, size_t at) {
  uint8_t factor = 1;
  const auto own = static_cast<uint8_t>(shares[at].place);
  for (size_t other = 0; other < shares.size(); ++other) {
    if (other == at) continue;
    const auto place = static_cast<uint8_t>(shares[other].place);
    factor = FieldProduct(factor, FieldProduct(place, FieldInverse(place ^ own)));
  }
  return factor;
}

// Returns a secret's 32 coefficients of each power, one byte in each element.
std::vector<uint32_t> DrawCoefficients(const MaskSecret& seed, uint32_t powers) {
  std::vector<uint32_t> drawn(size_t{powers} * kMaskSecretBytes);
  ApplyMask(RingForm{}, seed, 0, MaskSign::kAdd, absl::MakeSpan(drawn));
  return drawn;
}

}  // namespace

absl::StatusOr<std::vector<SecretShare>> ShareSecret(const MaskSecret& secret, uint32_t threshold,
                                                     uint32_t shares,
                                                     const MaskSecret& coefficients) {
  if (threshold < 1 || threshold > shares || shares > kMostShares) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a secret in ", Counted(shares, "share"), ", of which ", threshold,
        " give it back: the second number must be from 1 to the first, which must be at most ",
        kMostShares));
  }
  std::vector<uint32_t> drawn = DrawCoefficients(coefficients, threshold - 1);
  std::vector<SecretShare> made(shares);
  for (uint32_t i = 0; i < shares; ++i) {
    made[i].place = i + 1;
    const auto x = static_cast<uint8_t>(i + 1);
    for (size_t b = 0; b < kMaskSecretBytes; ++b) {
      uint8_t value = 0;  // Horner, from the highest power down
      for (size_t power = threshold - 1; power-- > 0;) {
        const auto coefficient = static_cast<uint8_t>(drawn[power * kMaskSecretBytes + b]);
        value = FieldProduct(static_cast<uint8_t>(value ^ coefficient), x);
      }
      made[i].value.data()[b] = static_cast<uint8_t>(value ^ secret.data()[b]);
    }
  }
  OPENSSL_cleanse(drawn.data(), drawn.size() * sizeof(uint32_t));
  return made;
}

absl::StatusOr<MaskSecret> CombineShares(absl::Span<const SecretShare> shares, uint32_t threshold) {
  if (shares.size() < threshold || threshold < 1) {
    return absl::FailedPreconditionError(absl::StrCat(
        Counted(shares.size(), "share"), " of a secret, and ", threshold, " are needed"));
  }
  const absl::Span<const SecretShare> used = shares.first(threshold);
  std::set<uint32_t> places;
  for (const SecretShare& share : used) {
    if (share.place < 1 || share.place > kMostShares || !places.insert(share.place).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("shares of a secret have places of their own, 1 to ", kMostShares, ", not ",
                       share.place));
    }
  }
  MaskSecret secret;
  for (size_t i = 0; i < used.size(); ++i) {
    const uint8_t factor = LagrangeFactor(used, i);
    for (size_t b = 0; b < kMaskSecretBytes; ++b) {
      secret.data()[b] ^= FieldProduct(used[i].value.data()[b], factor);
    }
  }
  return secret;
}

}  // namespace atolld
