#include "compression/base/names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace atolld {
namespace {

TEST(NearestName, TakesTheLeastEdits) {
  // Broken: people would be pointed at the wrong setting.
  const std::vector<std::string> names = {"average", "nesterov", "median", "mean"};
  EXPECT_EQ(NearestName("nestrov", names), "nesterov");
  EXPECT_EQ(NearestName("NESTEROV", names), "nesterov");
  EXPECT_EQ(NearestName("avg", names), "average");
  EXPECT_EQ(NearestName("meen", names), "mean");
  EXPECT_EQ(NearestName("medan", names), "median");
  EXPECT_EQ(NearestName("x", {}), "");
}

TEST(NearestName, TheFirstWinsATie) {
  // Broken: the same mistake would be answered differently from run to run.
  EXPECT_EQ(NearestName("ac", {"ab", "aa"}), "ab");
  EXPECT_EQ(NearestName("", {"b", "a"}), "b");
}

TEST(NearestName, AHostileNameIsCutAndEscaped) {
  // Broken: a name from the network could flood or forge a log line, or cost quadratic time.
  const std::string hostile = "int8\n" + std::string(1 << 20, 'x');
  const std::string message = UnknownNameMessage("codec", hostile, {"fp32", "int8"});
  EXPECT_LT(message.size(), 200u);
  EXPECT_EQ(message.find('\n'), std::string::npos);
}

TEST(NearestName, WithoutCandidatesTheMessageStaysPlain) {
  // Broken: an error about an empty list would suggest an empty name.
  EXPECT_EQ(UnknownNameMessage("peer", "p9", {}), "unknown peer \"p9\"");
}

}  // namespace

namespace {

TEST(SuggestionTest, CountsSwapsAsOneMistake) {
  // Broken: the commonest typing mistake, two letters swapped, would count twice and find no
  // suggestion.
  EXPECT_EQ(SpellingDistance("steps", "steps"), 0u);
  EXPECT_EQ(SpellingDistance("setps", "steps"), 1u);
  EXPECT_EQ(SpellingDistance("step", "steps"), 1u);
  EXPECT_EQ(SpellingDistance("", "steps"), 5u);
  EXPECT_EQ(SpellingDistance("kitten", "sitting"), 3u);
}

TEST(SuggestionTest, SuggestsOnlyWhatIsNear) {
  // Broken: messages would suggest names that nobody meant, or miss the obvious one.
  const std::vector<std::string> names = {"steps", "batch", "learning_rate"};
  EXPECT_EQ(LikelyName("learning_rte", names), "learning_rate");
  EXPECT_EQ(LikelyName("stpes", names), "steps");
  EXPECT_EQ(LikelyName("momentum", names), "");
  EXPECT_EQ(LikelyName("x", {"y"}), "");
  EXPECT_EQ(Suggestion("bathc", names), "; did you mean 'batch'?");
  EXPECT_EQ(Suggestion("momentum", names), "; valid are: steps, batch, learning_rate");
  EXPECT_EQ(Suggestion("x", {}), "");
}

TEST(OneLineTest, WhatAnotherProcessSaysBecomesAValidLine) {
  // Broken: a message that carries it could not be parsed, and its sender would be lost.
  EXPECT_EQ(OneLine("it\r\n  failed:\tat 3\n", 100), "it failed: at 3");
  EXPECT_EQ(OneLine("caf\xc3\xa9 \xff\xc3(", 100), "caf\xc3\xa9 ?\?(");
  EXPECT_EQ(OneLine("\x1b[31mred", 100), "?[31mred");
  EXPECT_EQ(OneLine("\xed\xa0\x80\xc0\xaf", 100), "?????");  // a surrogate, an overlong form
  EXPECT_EQ(OneLine("ab\xc3\xa9", 3), "ab");                 // never half a character
  EXPECT_EQ(OneLine("", 3), "");
}

}  // namespace

}  // namespace atolld
