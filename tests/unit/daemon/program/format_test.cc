#include "daemon/program/format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace atolld {
namespace {

using ::testing::ElementsAre;

TEST(FormatTest, NumbersReadAsPeopleWriteThem) {
  // Broken: the report would be off by a unit, or show "1000.0 kB".
  EXPECT_EQ(WithThousands(0), "0");
  EXPECT_EQ(WithThousands(999), "999");
  EXPECT_EQ(WithThousands(1000), "1,000");
  EXPECT_EQ(WithThousands(1234567), "1,234,567");
  EXPECT_EQ(AboutTokens(84731), "85,000");
  EXPECT_EQ(AboutTokens(99.6), "100");
  EXPECT_EQ(AboutTokens(42.4), "42");
  EXPECT_EQ(AboutTokens(0.2), "0");
  EXPECT_EQ(AboutTokens(3.14e200), "3.1e+200");
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(999), "999 B");
  EXPECT_EQ(FormatBytes(1000), "1.0 kB");
  EXPECT_EQ(FormatBytes(999.9e3), "1.0 MB");
  EXPECT_EQ(FormatBytes(123.4e6), "123 MB");
  EXPECT_EQ(FormatRate(950), "950");
  EXPECT_EQ(FormatRate(15300), "15.3k");
  EXPECT_EQ(FormatRate(2.1e6), "2.1M");
  EXPECT_EQ(FormatSeconds(59.4), "59 s");
  EXPECT_EQ(FormatSeconds(187), "3:07");
  EXPECT_EQ(FormatSeconds(3729), "1:02:09");
  EXPECT_EQ(FormatSeconds(2.54), "2.5 s");
  EXPECT_EQ(FormatSeconds(-5), "0.0 s");
  EXPECT_EQ(FormatFigure(0.012345), "0.0123 s");
  EXPECT_EQ(FormatFigure(183.6), "184 s");
  EXPECT_EQ(FormatShare(0.123), "12 %");
  EXPECT_EQ(FormatRatio(3.96), "4.0x");
  EXPECT_EQ(FormatRatio(101), "101x");
}

TEST(FormatTest, WidthsCountCharactersNotBytes) {
  // Broken: tables with a bar or a dash in them would stand askew, cuts would split a character.
  EXPECT_EQ(TextWidth("a█b"), 3u);
  EXPECT_EQ(CutToWidth("abcdef", 6, Charset::kUnicode), "abcdef");
  EXPECT_EQ(CutToWidth("abcdef", 4, Charset::kUnicode), "abc…");
  EXPECT_EQ(CutToWidth("████", 3, Charset::kUnicode), "██…");
  EXPECT_EQ(CutToWidth("abc", 0, Charset::kUnicode), "");
  EXPECT_EQ(CutToWidth("abcdef", 5, Charset::kAscii), "ab...");
  EXPECT_EQ(CutToWidth("abcdef", 2, Charset::kAscii), "ab");
  EXPECT_EQ(PadLeft("█", 3), "  █");
  EXPECT_THAT(AlignColumns({{"a", "1"}, {"█bc", "22"}}, "<>"), ElementsAre("a     1", "█bc  22"));
  EXPECT_THAT(AlignColumns({{"a", ""}, {"b", "x"}}, "<<"), ElementsAre("a", "b  x"));
  // A cell of a stranger's is no row of its own, and as wide as it seems.
  EXPECT_THAT(AlignColumns({{"a\nb", "1"}, {"\x1b[9D", "22"}}, "<>"),
              ElementsAre("a\\nb      1", "\\x1b[9D  22"));
}

TEST(FormatTest, CommandsCanBePasted) {
  // Broken: the command to start a dead peer again would fail for a folder with a space in its
  // name.
  EXPECT_EQ(ShellCommand({"/bin/atolld", "peer", "--config", "/tmp/a.toml"}),
            "/bin/atolld peer --config /tmp/a.toml");
  EXPECT_EQ(ShellCommand({"/my dir/x", "it's", ""}), "'/my dir/x' 'it'\\''s' ''");
}

}  // namespace
}  // namespace atolld
