// Which of the revealed shares are false, and whose fault that is.
#include "membership/masking/false_shares.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "membership/masking/byte_field.h"

namespace atolld {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

MaskSecret SecretNumber(size_t number) {
  return MaskSecret().Derive("false shares", std::to_string(number));
}

SecretCheck Is(const MaskSecret& secret) {
  return [secret](const MaskSecret& found) {
    return SameSecret(found, secret) ? absl::OkStatus() : absl::InvalidArgumentError("another");
  };
}

std::vector<SecretShare> SharesOf(const MaskSecret& secret, uint32_t threshold, uint32_t shares) {
  return ShareSecret(secret, threshold, shares, secret.Derive("coefficients", "")).value();
}

void Falsify(SecretShare* share) { share->value = share->value.Derive("false", ""); }

// Broken: a field that is none, or polynomials through other values than they were given.
TEST(InterpolationTest, IsOfTheField) {
  EXPECT_EQ(FieldProduct(0x57, 0x83), 0xc1);  // FIPS 197, 4.2
  for (int a = 1; a < 256; ++a) {
    const auto element = static_cast<uint8_t>(a);
    EXPECT_EQ(FieldProduct(element, FieldInverse(element)), 1);
  }
  const Interpolation places({3, 7, 200, 255});
  const std::vector<uint8_t> values = {9, 0, 130, 77};
  const Polynomial through = places.Through(values);
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(ValueAt(through, places.places()[i]), values[i]);
  }
  EXPECT_TRUE(places.Through(std::vector<uint8_t>(4, 0)).empty());
}

// Broken: liars among many could not be found, since there are too many choices to try.
TEST(FindSecretTest, HalfOfTheSurplusIsFoundByDecoding) {
  const MaskSecret secret = SecretNumber(1);
  std::vector<SecretShare> shares = SharesOf(secret, 27, 40);
  const std::vector<size_t> liars = {0, 2, 3, 17, 30, 39};
  for (const size_t liar : liars) Falsify(&shares[liar]);
  // A lie may be in one byte alone.
  shares[17] = SharesOf(secret, 27, 40)[17];
  shares[17].value.data()[31] ^= 1;
  const absl::StatusOr<FoundSecret> found = FindSecret(shares, 27, Is(secret));
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_TRUE(SameSecret(found->secret, secret));
  EXPECT_EQ(found->false_shares, liars);
  Falsify(&shares[20]);
  EXPECT_THAT(std::string(FindSecret(shares, 27, Is(secret)).status().message()),
              HasSubstr("more are false than can be found"));
}

// Broken: as many liars as there are shares too many would end every attempt.
TEST(FindSecretTest, AmongFewTheWholeSurplusMayBeFalse) {
  const MaskSecret secret = SecretNumber(2);
  for (const std::vector<size_t>& liars :
       std::vector<std::vector<size_t>>{{0, 4}, {2, 5}, {6, 7}, {1}, {}}) {
    std::vector<SecretShare> shares = SharesOf(secret, 6, 8);
    for (const size_t liar : liars) Falsify(&shares[liar]);
    const absl::StatusOr<FoundSecret> found = FindSecret(shares, 6, Is(secret));
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_TRUE(SameSecret(found->secret, secret));
    EXPECT_EQ(found->false_shares, liars);
  }
  std::vector<SecretShare> shares = SharesOf(secret, 6, 8);
  for (const size_t liar : {1, 3, 6}) Falsify(&shares[liar]);
  EXPECT_FALSE(FindSecret(shares, 6, Is(secret)).ok());
}

class JudgeSharesTest : public ::testing::Test {
 protected:
  JudgeSharesTest() {
    for (size_t i = 0; i < 8; ++i) holders_.push_back(std::string(1, static_cast<char>('a' + i)));
    for (size_t i = 0; i < 8; ++i) {
      opened_.push_back({holders_[i], SharesOf(SecretNumber(i), 6, 8), Is(SecretNumber(i))});
    }
  }
  // What `holder` reveals of the secret of `owner` is false.
  void Lie(char holder, char owner) {
    Falsify(&opened_[static_cast<size_t>(owner - 'a')].shares[static_cast<size_t>(holder - 'a')]);
  }
  std::vector<std::string> Suspects() {
    std::vector<std::string> suspects;
    judged_ = JudgeShares(holders_, opened_, 6);
    for (const ShareSuspect& one : judged_.suspects) {
      suspects.push_back(one.peer + (one.sure ? "" : "?"));
    }
    return suspects;
  }
  size_t Found() const {
    size_t found = 0;
    for (const auto& secret : judged_.secrets) found += secret.has_value() ? 1 : 0;
    return found;
  }

  std::vector<std::string> holders_;
  std::vector<OpenedSecret> opened_;
  SharesJudged judged_;
};

// Broken: honest parties would be named beside the liars, or instead of them.
TEST_F(JudgeSharesTest, LiarsAreNamed) {
  for (char owner = 'a'; owner <= 'h'; ++owner) {
    Lie('c', owner);
    Lie('f', owner);
  }
  EXPECT_THAT(Suspects(), ElementsAre("c", "f"));
  EXPECT_EQ(Found(), 8U);
}

// Broken: a party could have others named by giving them false shares.
TEST_F(JudgeSharesTest, WhoGaveFalseSharesIsNamed) {
  Lie('b', 'd');
  Lie('g', 'd');
  EXPECT_THAT(Suspects(), ElementsAre("d"));
  EXPECT_THAT(judged_.suspects[0].why, HasSubstr("gave false shares of its secret to 2 of 8"));
}

// Broken: of two that contradict each other one would be called a liar.
TEST_F(JudgeSharesTest, OfTwoThatContradictEachOtherBothAreNamed) {
  Lie('b', 'd');
  EXPECT_THAT(Suspects(), ElementsAre("b?", "d?"));
  Lie('e', 'e');  // of its own secret nobody else gave it a share
  EXPECT_THAT(Suspects(), ElementsAre("b?", "d?", "e"));
}

// Broken: whoever announces one secret and shares another would end every attempt unnamed.
TEST_F(JudgeSharesTest, ASecretThatNobodyCanFindNamesItsOwner) {
  opened_[4].shares = SharesOf(SecretNumber(99), 6, 8);
  EXPECT_THAT(Suspects(), ElementsAre("e?"));
  EXPECT_EQ(Found(), 7U);
  for (char owner = 'a'; owner <= 'h'; ++owner) {
    for (const char liar : {'a', 'c', 'g'}) Lie(liar, owner);
  }
  EXPECT_THAT(Suspects(), ElementsAre()) << "too many to tell who";
}

}  // namespace
}  // namespace atolld
