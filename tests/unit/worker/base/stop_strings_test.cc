#include "worker/base/stop_strings.h"

#include <gtest/gtest.h>

namespace atolld {
namespace {

struct Shown {
  std::string text;   // all that was shown
  std::string early;  // what was shown before the last byte was taken
  bool done;
};

Shown Feed(const std::string& text, const std::vector<std::string>& stops) {
  StopStrings filter(stops);
  Shown shown;
  for (const char byte : text) {
    shown.early = shown.text;
    shown.text += filter.Take(static_cast<uint8_t>(byte));
    if (filter.done()) break;
  }
  shown.text += filter.Rest();
  shown.done = filter.done();
  return shown;
}

// Broken: a text would go on after its end, show the stop or a part of it, or lose bytes that only
// looked like one.
TEST(StopStringsTest, TheTextEndsBeforeTheFirstStop) {
  EXPECT_EQ(Feed("one END two", {"END"}).text, "one ");
  EXPECT_TRUE(Feed("one END two", {"END"}).done);
  EXPECT_EQ(Feed("one EN two", {"END"}).text, "one EN two");
  EXPECT_EQ(Feed("one EEND", {"END"}).text, "one E");
  EXPECT_EQ(Feed("ababac!", {"abac"}).text, "ab");
  EXPECT_EQ(Feed("a;b\nc", {"\n", ";"}).text, "a");
  EXPECT_EQ(Feed("x\n\ny", {"\n\n", "END"}).text, "x");
  EXPECT_EQ(Feed("one EN", {"END"}).text, "one EN");
  EXPECT_FALSE(Feed("one EN", {"END"}).done);
  EXPECT_EQ(Feed("anything", {}).text, "anything");
  EXPECT_EQ(Feed("anything", {""}).text, "anything");
}

// Broken: text would come only at its end, or a stop be on the screen before it is known as one.
TEST(StopStringsTest, WhatCannotBeAStopIsShownAtOnce) {
  EXPECT_EQ(Feed("abc", {"END"}).early, "ab");
  EXPECT_EQ(Feed("abEN", {"END"}).early, "ab");
  EXPECT_EQ(Feed("abENx", {"END"}).early, "ab");
}

}  // namespace
}  // namespace atolld
