#include "compression/base/words.h"

#include <gtest/gtest.h>

namespace atolld {
namespace {

TEST(WordsTest, OneIsSingularAndAllElseIsPlural) {
  // Broken: a run of one peer would tell of "1 peers".
  EXPECT_EQ(Counted(1, "peer"), "1 peer");
  EXPECT_EQ(Counted(0, "peer"), "0 peers");
  EXPECT_EQ(Counted(2, "peer"), "2 peers");
  EXPECT_EQ(Counted(2, "entry"), "2 entries");
  EXPECT_EQ(Counted(2, "day"), "2 days");
  EXPECT_EQ(Counted(2, "process"), "2 processes");
  EXPECT_EQ(Counted(2, "batch"), "2 batches");
  EXPECT_EQ(Counted(3, "training token"), "3 training tokens");
  EXPECT_EQ(Counted(1, "line was skipped", "lines were skipped"), "1 line was skipped");
  EXPECT_EQ(Noun(1, "token"), "token");
}

std::string WhyNoWholeNumber(absl::string_view text, uint64_t least, uint64_t most) {
  return std::string(ParseWholeNumber(text, least, most).status().message());
}

TEST(WordsTest, ANumberThatIsNoneSaysWhatIsWanted) {
  // Broken: somebody would have to guess what a program did not like about "1e3" or "-1".
  EXPECT_EQ(ParseWholeNumber("0").value(), 0u);
  EXPECT_EQ(ParseWholeNumber("010").value(), 10u);  // never octal
  EXPECT_EQ(ParseWholeNumber("18446744073709551615").value(), 18446744073709551615u);
  for (const char* text : {"ten", "", "1.5", "1e3", "0x10", "1k", "+1", "--1"}) {
    EXPECT_EQ(WhyNoWholeNumber(text, 0, 9), absl::StrCat("'", text, "' is not a whole number"));
  }
  EXPECT_EQ(WhyNoWholeNumber("-1", 0, 9), "'-1' is below 0, the least that is allowed");
  EXPECT_EQ(WhyNoWholeNumber("1", 2, 9), "'1' is below 2, the least that is allowed");
  EXPECT_EQ(WhyNoWholeNumber("10", 2, 9), "'10' is above 9, the largest that is allowed");
  EXPECT_EQ(WhyNoWholeNumber("99999999999999999999", 0, 9),
            "'99999999999999999999' is above 9, the largest that is allowed");

  EXPECT_EQ(ParseNumber("1e-3").value(), 1e-3);
  for (const char* text : {"fast", "", "nan", "inf", "1,5"}) {
    EXPECT_EQ(ParseNumber(text).status().message(), absl::StrCat("'", text, "' is not a number"));
  }
}

}  // namespace
}  // namespace atolld
