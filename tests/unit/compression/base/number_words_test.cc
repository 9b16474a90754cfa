#include "compression/base/number_words.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace atolld {
namespace {

// Broken: a run that has diverged would show "-nan" on one CPU and "nan" on another, or nothing.
TEST(NumberWordsTest, WhatIsNotFiniteHasAWord) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(NumberText(2.5, 4), "2.5000");
  for (const double value : {nan, -nan}) EXPECT_EQ(NumberText(value, 4), "NaN");
  EXPECT_EQ(NumberText(infinity, 1), "Infinity");
  EXPECT_EQ(NumberText(-infinity, 1), "-Infinity");
  EXPECT_EQ(WordOf(0), nullptr);
  EXPECT_TRUE(std::isnan(ValueOfWord("NaN").value()));
  EXPECT_EQ(ValueOfWord("-Infinity"), -infinity);
  EXPECT_EQ(ValueOfWord("nan"), std::nullopt);
}

}  // namespace
}  // namespace atolld
