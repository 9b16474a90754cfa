// Keys, streams, shares and seals of masked rounds.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "compression/base/bytes.h"
#include "membership/history/digest.h"
#include "membership/masking/mask_key.h"
#include "membership/masking/mask_secret.h"
#include "membership/masking/mask_stream.h"
#include "membership/masking/secret_sharing.h"
#include "membership/masking/share_seal.h"

namespace atolld {
namespace {

MaskSecret SecretOf(absl::string_view hex) {
  return MaskSecret::FromBytes(BytesOfHex(hex)).value();
}

MaskSecret NumberedSecret(uint8_t number) {
  return MaskSecret::FromBytes(std::string(kMaskSecretBytes, static_cast<char>(number))).value();
}

std::string HexOf(absl::string_view bytes) { return ToHex(DigestFromBytes(bytes).value()); }

// Broken: keys would be no X25519, and nobody else's programs could agree with ours. RFC 7748, 6.1.
TEST(MaskKeyTest, PublicKeysAreThoseOfTheRfc) {
  const MaskKey alice(SecretOf("77076d0a7318a57d3c16c17251b26645c6db3e3ff18b3bdc0d3d9e9d6a9c6b7e"));
  const MaskKey bob(SecretOf("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb"));
  EXPECT_EQ(HexOf(bob.public_key()),
            "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f");
  EXPECT_NE(alice.public_key(), bob.public_key());
}

// Broken: two parties would add masks that do not cancel, or one mask would serve two purposes.
TEST(MaskKeyTest, BothSidesAgreeAndLabelsDiffer) {
  const MaskKey a(NumberedSecret(1));
  const MaskKey b(NumberedSecret(2));
  const MaskSecret ab = a.Agree(b.public_key(), "pair", "run 1").value();
  EXPECT_TRUE(SameSecret(ab, b.Agree(a.public_key(), "pair", "run 1").value()));
  EXPECT_FALSE(SameSecret(ab, a.Agree(b.public_key(), "pair", "run 2").value()));
  EXPECT_FALSE(SameSecret(ab, a.Agree(b.public_key(), "seal", "run 1").value()));
}

// Broken: somebody could choose a key with which everybody's secret is known beforehand.
TEST(MaskKeyTest, KeysWithoutASecretAreRefused) {
  const MaskKey a(NumberedSecret(1));
  EXPECT_EQ(a.Agree(std::string(32, '\0'), "pair", "").status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(a.Agree("short", "pair", "").status().code(), absl::StatusCode::kInvalidArgument);
}

// Broken: derived secrets would be no HKDF-SHA256. RFC 5869 by Python's hmac:
// prk = HMAC(32 zero bytes, bytes 0 to 31), then HMAC(prk, "atoll.mask.test" 0x00 "who" 0x01).
TEST(MaskSecretTest, DerivedAsTheRfcSays) {
  std::string bytes(kMaskSecretBytes, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i);
  const MaskSecret derived = MaskSecret::FromBytes(bytes)->Derive("test", "who");
  EXPECT_EQ(HexOf(derived.view()),
            "a1c1520a1ab2c6f3494cc27f32332f1f5e80bc16ba1e9be1f21155bd8c60b55e");
}

// Broken: masks would be another stream than the stated one. RFC 8439, appendix A.1, vectors 1 and
// 2: a key of zeros, blocks 0 and 1.
TEST(MaskStreamTest, ElementsAreTheCipherStream) {
  const RingForm ring{4, 1};
  std::vector<uint32_t> elements(32);
  ApplyMask(ring, MaskSecret(), 0, MaskSign::kAdd, absl::MakeSpan(elements));
  EXPECT_EQ(elements[0], 0xade0b876U);
  EXPECT_EQ(elements[15], 0x8665eeb2U);
  EXPECT_EQ(elements[16], 0xbee7079fU);
}

// Broken: chunks would share a mask, so that their difference is told, or masks would not go away.
TEST(MaskStreamTest, ChunksDifferAndMasksCancel) {
  for (const uint32_t bytes : {2U, 3U, 4U}) {
    const RingForm ring{bytes, 1};
    const std::vector<uint32_t> plain(5000, 7);
    std::vector<uint32_t> first = plain;
    std::vector<uint32_t> second = plain;
    ApplyMask(ring, NumberedSecret(9), 0, MaskSign::kAdd, absl::MakeSpan(first));
    ApplyMask(ring, NumberedSecret(9), 1, MaskSign::kAdd, absl::MakeSpan(second));
    size_t equal = 0;
    for (size_t i = 0; i < plain.size(); ++i) equal += first[i] == second[i] ? 1 : 0;
    EXPECT_LT(equal, 5U);
    ApplyMask(ring, NumberedSecret(9), 0, MaskSign::kSubtract, absl::MakeSpan(first));
    EXPECT_EQ(first, plain);
  }
}

// Broken: some set of as many shares as are needed would not give the secret back.
TEST(SecretSharingTest, EverySetOfThresholdSharesGivesItBack) {
  const MaskSecret secret = NumberedSecret(77);
  const auto shares = ShareSecret(secret, 3, 6, NumberedSecret(5));
  ASSERT_TRUE(shares.ok());
  for (size_t a = 0; a < 6; ++a) {
    for (size_t b = 0; b < 6; ++b) {
      for (size_t c = 0; c < 6; ++c) {
        if (a == b || b == c || a == c) continue;
        const std::vector<SecretShare> some = {(*shares)[a], (*shares)[b], (*shares)[c]};
        EXPECT_TRUE(SameSecret(CombineShares(some, 3).value(), secret));
      }
    }
  }
  const auto most = ShareSecret(secret, kMostShares, kMostShares, NumberedSecret(5));
  EXPECT_TRUE(SameSecret(CombineShares(*most, kMostShares).value(), secret));
}

// Broken: fewer shares than needed would tell something: here each byte of one share takes each
// value about equally often, whatever the secret, as other coefficients are drawn.
TEST(SecretSharingTest, OneShareOfTwoIsUniform) {
  constexpr int kDrawn = 4096;
  std::vector<double> counts(256);
  for (int i = 0; i < kDrawn; ++i) {
    const MaskSecret coefficients = NumberedSecret(3).Derive("draw", std::to_string(i));
    const auto shares = ShareSecret(NumberedSecret(0), 2, 2, coefficients);
    for (size_t b = 0; b < kMaskSecretBytes; ++b) counts[(*shares)[1].value.data()[b]] += 1;
  }
  const double expected = kDrawn * kMaskSecretBytes / 256.0;
  double chi_square = 0;
  for (const double count : counts) {
    chi_square += (count - expected) * (count - expected) / expected;
  }
  EXPECT_LT(chi_square, 330.5);  // the 0.999 quantile of 255 degrees of freedom
  EXPECT_GT(chi_square, 190.0);  // about the 0.001 quantile: it is not made even, either
}

// Broken: a sum would be unmasked by fewer than agreed, or by the same share twice.
TEST(SecretSharingTest, TooFewOrRepeatedSharesAreRefused) {
  const auto shares = ShareSecret(NumberedSecret(77), 3, 5, NumberedSecret(5));
  EXPECT_EQ(CombineShares(absl::MakeConstSpan(*shares).first(2), 3).status().code(),
            absl::StatusCode::kFailedPrecondition);
  const std::vector<SecretShare> twice = {(*shares)[0], (*shares)[1], (*shares)[1]};
  EXPECT_EQ(CombineShares(twice, 3).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(ShareSecret(NumberedSecret(1), 4, 3, NumberedSecret(5)).ok());
  EXPECT_FALSE(ShareSecret(NumberedSecret(1), 0, 3, NumberedSecret(5)).ok());
  EXPECT_FALSE(ShareSecret(NumberedSecret(1), 2, 256, NumberedSecret(5)).ok());
}

// Broken: who carries shares could read or change them.
TEST(ShareSealTest, OpensUnderItsKeyAloneAndUnchanged) {
  const std::string sealed = SealText(NumberedSecret(4), "some shares");
  EXPECT_EQ(sealed.find("some"), std::string::npos);
  EXPECT_EQ(OpenSealed(NumberedSecret(4), sealed).value(), "some shares");
  EXPECT_FALSE(OpenSealed(NumberedSecret(5), sealed).ok());
  for (size_t i = 0; i < sealed.size(); ++i) {
    std::string changed = sealed;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    EXPECT_FALSE(OpenSealed(NumberedSecret(4), changed).ok());
  }
  EXPECT_FALSE(OpenSealed(NumberedSecret(4), "short").ok());
}

// Broken: who sees a commitment would accept another secret.
TEST(MaskSecretTest, CommitmentsDiffer) {
  EXPECT_EQ(CommitmentTo(NumberedSecret(1)), CommitmentTo(NumberedSecret(1)));
  EXPECT_NE(CommitmentTo(NumberedSecret(1)), CommitmentTo(NumberedSecret(2)));
  EXPECT_FALSE(SameSecret(NumberedSecret(1), NumberedSecret(2)));
  EXPECT_FALSE(MaskSecret::FromBytes("short").ok());
}

}  // namespace
}  // namespace atolld
