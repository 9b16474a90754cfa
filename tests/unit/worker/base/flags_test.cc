#include "worker/base/flags.h"

#include <gtest/gtest.h>

namespace atolld {
namespace {

// Broken: the daemon's call of its own worker would not be understood.
TEST(FlagsTest, ReadsBothForms) {
  const auto flags = Flags::Parse({"--prompt", "--odd", "--tokens=12", "--temperature=0.5"},
                                  {"prompt", "tokens", "temperature"});
  ASSERT_TRUE(flags.ok()) << flags.status();
  EXPECT_EQ(*flags->Text("prompt"), "--odd");
  EXPECT_EQ(*flags->Count("tokens"), 12u);
  EXPECT_EQ(*flags->Number("temperature"), 0.5);
  EXPECT_EQ(*flags->Count("seed", 7), 7u);
}

// Broken: a misspelt flag would be ignored, or refused without saying what is right.
TEST(FlagsTest, SaysWhatIsWrongInOneLine) {
  const std::vector<std::string> known = {"tokens", "temperature"};
  EXPECT_EQ(Flags::Parse({"--token", "1"}, known).status().message(),
            "--token is not known; did you mean --tokens?");
  EXPECT_EQ(Flags::Parse({"--tokens"}, known).status().message(), "--tokens needs a value");
  EXPECT_EQ(Flags::Parse({"12"}, known).status().message(), "\"12\" is not a flag");
  EXPECT_EQ(Flags::Parse({"--tokens=1", "--tokens=2"}, known).status().message(),
            "--tokens is given twice");
  const auto flags = Flags::Parse({"--tokens=-1"}, known);
  EXPECT_EQ(flags->Count("tokens").status().message(),
            "--tokens is \"-1\"; it must be a whole number, 0 or more");
  EXPECT_EQ(flags->Number("temperature").status().message(), "--temperature is missing");
}

}  // namespace
}  // namespace atolld
