#include <gtest/gtest.h>

#include "compression/base/names.h"

namespace atolld {
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

}  // namespace
}  // namespace atolld
