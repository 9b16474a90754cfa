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
  EXPECT_EQ(OneLine("a\xc2\x9b"
                    "31m\xe2\x80\xae"
                    "b",
                    100),
            "a?31m?b");  // CSI as C1, an override
}

// Broken: what a stranger says moves a terminal's cursor, forges a line of a log or a table, or
// reads otherwise than it is.
TEST(PrintableTest, WhatIsNotForShowingIsEscaped) {
  const struct {
    std::string text;
    std::string shown;
  } cases[] = {
      {"plain, caf\xc3\xa9, \xe2\x96\x88, \xf0\x9f\x8f\x9d",
       "plain, caf\xc3\xa9, \xe2\x96\x88, \xf0\x9f\x8f\x9d"},
      {"\x1b[2J\x1b]0;title\x07", "\\x1b[2J\\x1b]0;title\\x07"},
      {"a\nb\rc\td", "a\\nb\\x0dc\\x09d"},
      {std::string("\0\x7f", 2), "\\x00\\x7f"},
      {"\xc2\x9b"
       "31m",
       "\\u009b31m"},  // C1: CSI in one character
      {"\xe2\x80\xae"
       "txt.exe",
       "\\u202etxt.exe"},  // right to left
      {"\xe2\x81\xa6"
       "a\xe2\x81\xa9",
       "\\u2066a\\u2069"},  // isolates
      {"a\xe2\x80\xa8"
       "b",
       "a\\u2028b"},  // a line end in Unicode
      {"\xd8\x9c\xe2\x80\x8e\xe2\x80\x8f", "\\u061c\\u200e\\u200f"},
      {"\xff\xc3(\x9b", "\\xff\\xc3(\\x9b"},  // no UTF-8; C1 as a bare byte
      {"\xed\xa0\x80\xc0\xaf\xf5", "\\xed\\xa0\\x80\\xc0\\xaf\\xf5"},
      {"cut \xe2\x80", "cut \\xe2\\x80"},
      {"", ""},
  };
  for (const auto& one : cases) {
    EXPECT_EQ(one.shown, Printable(one.text));
    EXPECT_EQ(one.shown, Printable(one.shown)) << "doing it twice does harm";
    EXPECT_EQ(one.text == one.shown, IsPrintable(one.text)) << one.shown;
  }
  EXPECT_EQ(PrintableText("a\n\tb\x1b\r"), "a\n\tb\\x1b\\x0d");
  // Of any two bytes comes a printable line.
  for (int i = 0; i < 65536; ++i) {
    const std::string text = {static_cast<char>(i >> 8), static_cast<char>(i & 0xff)};
    ASSERT_TRUE(IsPrintable(Printable(text))) << i;
    ASSERT_TRUE(IsPrintable(OneLine(text, 9))) << i;
  }
}

}  // namespace

}  // namespace atolld
