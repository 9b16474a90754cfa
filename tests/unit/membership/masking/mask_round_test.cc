// Whole attempts of a masked sum: exact, uniform to who averages, and ended once.
#include "membership/masking/mask_round.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "membership/masking/unmasking.h"
#include "tests/unit/membership/masking/masked_parties.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

// Over all bytes of the elements: 255 degrees of freedom if they are uniform and independent.
double ChiSquareOfBytes(const RingForm& ring, const std::vector<uint32_t>& elements) {
  std::vector<uint8_t> bytes(elements.size() * ring.bytes);
  PackRing(ring, elements, absl::MakeSpan(bytes));
  std::vector<double> counts(256);
  for (const uint8_t byte : bytes) counts[byte] += 1;
  const double expected = static_cast<double>(bytes.size()) / 256;
  double sum = 0;
  for (const double count : counts) sum += (count - expected) * (count - expected) / expected;
  return sum;
}

// Quantiles 0.0005 and 0.9995 of chi-square with 255 degrees of freedom.
constexpr double kLeastChiSquare = 184.5;
constexpr double kMostChiSquare = 336.6;

// An update as training makes it: small numbers of either sign.
std::vector<uint32_t> SmallCodes(size_t count) {
  std::vector<uint32_t> codes(count);
  for (size_t i = 0; i < count; ++i) codes[i] = static_cast<uint32_t>(i % 201) - 100;
  return codes;
}

// Broken: the sum would be another than that of the codes, with nobody gone.
TEST(MaskRoundTest, SumIsThePlainSumBitForBit) {
  MaskedParties parties;
  const auto sum = parties.Run();
  ASSERT_TRUE(sum.ok()) << sum.status();
  EXPECT_EQ(parties.round().contributors().size(), 8U);
  EXPECT_EQ(*sum, parties.PlainSum(parties.round().contributors()));
}

// Broken: whoever averages would learn of one party's update. The same measure finds the update
// itself, so it would find it behind no mask.
TEST(MaskRoundTest, OnePartysMaskedUpdateIsUniform) {
  MaskedParties parties;
  ASSERT_TRUE(parties.Begin().ok());
  for (const uint32_t bytes : {2U, 3U, 4U}) {
    const RingForm ring{bytes, 8};
    std::vector<uint32_t> codes = SmallCodes(40000);
    for (uint32_t& code : codes) code &= ring.element_mask();
    EXPECT_GT(ChiSquareOfBytes(ring, codes), 10 * kMostChiSquare);
    for (uint64_t chunk = 0; chunk < 3; ++chunk) {
      std::vector<uint32_t> masked = codes;
      ASSERT_TRUE(parties.party(2).Mask(ring, chunk, absl::MakeSpan(masked)).ok());
      const double chi_square = ChiSquareOfBytes(ring, masked);
      EXPECT_GT(chi_square, kLeastChiSquare);
      EXPECT_LT(chi_square, kMostChiSquare);
    }
  }
}

// Broken: a party that is late would be seen through, once the masks that it has in common with
// others are told: its own mask still covers it.
TEST(MaskRoundTest, LateUpdateStaysCoveredByItsOwnMask) {
  MaskedParties parties;
  parties.FallSilent(4, Silence::kUpdate);
  ASSERT_TRUE(parties.Run().ok());
  std::vector<uint32_t> late = SmallCodes(40000);
  const RingForm ring = parties.ring();
  ASSERT_TRUE(parties.party(4).Mask(ring, 9, absl::MakeSpan(late)).ok());
  // All that the coordinator can take off: the masks in common with each contributor.
  MaskSecret secret = MaskSecret::FromBytes(std::string(32, static_cast<char>(104)))
                          ->Derive("attempt", "1")
                          .Derive("masking", AttemptDigest(parties.round().roster().attempt()));
  const MaskKey key(secret);
  for (const v1::MaskKeys& other : parties.round().roster().parties()) {
    if (other.peer() == "party-4") continue;
    const MaskSecret common =
        CommonMask(key, other.masking_key(), parties.round().roster().attempt()).value();
    ApplyMask(ring, common, 9, "party-4" < other.peer() ? MaskSign::kSubtract : MaskSign::kAdd,
              absl::MakeSpan(late));
  }
  EXPECT_GT(ChiSquareOfBytes(ring, late), kLeastChiSquare);
  EXPECT_LT(ChiSquareOfBytes(ring, late), kMostChiSquare);
}

class DropOutTest : public testing::TestWithParam<Silence> {};

// Broken: two of eight that fall silent at this step would cost the round, or stay in its sum.
TEST_P(DropOutTest, TwoOfEightAreSurvived) {
  MaskedParties parties;
  parties.FallSilent(0, GetParam());
  parties.FallSilent(5, GetParam());
  const auto sum = parties.Run();
  ASSERT_TRUE(sum.ok()) << sum.status();
  const bool in_the_sum = GetParam() == Silence::kConsent || GetParam() == Silence::kOpening;
  EXPECT_EQ(parties.round().contributors().size(), in_the_sum ? 8U : 6U);
  EXPECT_EQ(*sum, parties.PlainSum(parties.round().contributors()));
  EXPECT_EQ(parties.round().step(), MaskRound::Step::kUnmasked);
}

// Broken: fewer than the threshold would be unmasked, or the attempt would go on after its end.
TEST_P(DropOutTest, ThreeOfEightDiscardTheAttempt) {
  MaskedParties parties;
  for (const uint32_t party : {0U, 5U, 7U}) parties.FallSilent(party, GetParam());
  const auto sum = parties.Run();
  EXPECT_EQ(sum.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(sum.status().message()), HasSubstr("5 parties"));
  EXPECT_THAT(std::string(sum.status().message()), HasSubstr("need 6"));
  EXPECT_EQ(parties.round().step(), MaskRound::Step::kDiscarded);
  EXPECT_FALSE(parties.round().FreezeRoster().ok());
  EXPECT_FALSE(parties.round().FreezeMasking().ok());
  EXPECT_FALSE(parties.round().FreezeContributors({}).ok());
  EXPECT_FALSE(parties.round().FreezeConsent().ok());
  EXPECT_FALSE(parties.round().Finish().ok());
}

INSTANTIATE_TEST_SUITE_P(EachStep, DropOutTest,
                         testing::Values(Silence::kKeys, Silence::kShares, Silence::kUpdate,
                                         Silence::kConsent, Silence::kOpening));

// Broken: two that fall silent at different steps would cost the round.
TEST(MaskRoundTest, TwoAtDifferentStepsAreSurvived) {
  MaskedParties parties;
  parties.FallSilent(1, Silence::kUpdate);
  parties.FallSilent(6, Silence::kOpening);
  const auto sum = parties.Run();
  ASSERT_TRUE(sum.ok()) << sum.status();
  EXPECT_EQ(*sum, parties.PlainSum(parties.round().contributors()));
}

// Broken: one party that lies about a share would spoil the sum of all others.
TEST(MaskRoundTest, OneFalseShareIsLeftOut) {
  MaskedParties parties;
  ASSERT_TRUE(parties.Begin().ok());
  std::set<std::string> all;
  for (uint32_t i = 0; i < 8; ++i) all.insert(MaskedParties::Name(i));
  const v1::MaskFrozen frozen = parties.round().FreezeContributors(all).value();
  for (uint32_t i = 0; i < 8; ++i) {
    const v1::MaskAgreed agreed = parties.party(i).OnFrozen(frozen).value();
    ASSERT_TRUE(parties.round().OnAgreed(MaskedParties::Name(i), agreed).ok());
  }
  const v1::UnmaskRequest request = parties.round().FreezeConsent().value();
  for (uint32_t i = 0; i < 8; ++i) {
    v1::UnmaskShares shares = parties.party(i).OnRequest(request).value();
    if (i == 3) {
      for (v1::OpenShare& share : *shares.mutable_shares()) share.set_value(std::string(32, 'x'));
    }
    ASSERT_TRUE(parties.round().OnUnmaskShares(MaskedParties::Name(i), shares).ok());
  }
  const auto unmasking = parties.round().Finish();
  ASSERT_TRUE(unmasking.ok()) << unmasking.status();
  EXPECT_TRUE(LeftMasks(parties.round().roster(), *unmasking).ok());
  ASSERT_EQ(parties.round().suspects().size(), 1U);
  EXPECT_EQ(parties.round().suspects()[0].peer, "party-3");
  EXPECT_TRUE(parties.round().suspects()[0].sure);
}

// Broken: who averages would take false secrets, and give out a sum that is none.
TEST(MaskRoundTest, FalseSecretsAreRefused) {
  MaskedParties parties;
  parties.FallSilent(4, Silence::kUpdate);
  ASSERT_TRUE(parties.Run().ok());
  v1::Unmasking unmasking;
  *unmasking.mutable_attempt() = parties.round().roster().attempt();
  for (const std::string& peer : parties.round().contributors()) {
    unmasking.add_contributors(peer);
    v1::OpenSecret* const seed = unmasking.add_seeds();
    seed->set_of(peer);
    seed->set_secret(std::string(32, 'x'));
  }
  const auto masks = LeftMasks(parties.round().roster(), unmasking);
  EXPECT_THAT(std::string(masks.status().message()), HasSubstr("not the seed"));
  unmasking.clear_seeds();
  EXPECT_THAT(std::string(LeftMasks(parties.round().roster(), unmasking).status().message()),
              HasSubstr("stays masked"));
}

}  // namespace
}  // namespace atolld
