#include "daemon/nearest_name.h"

#include <gtest/gtest.h>

namespace atolld {
namespace {

TEST(NearestNameTest, CountsSwapsAsOneMistake) {
  // Broken: the commonest typing mistake, two letters swapped, would count twice and find no
  // suggestion.
  EXPECT_EQ(EditDistance("steps", "steps"), 0u);
  EXPECT_EQ(EditDistance("setps", "steps"), 1u);
  EXPECT_EQ(EditDistance("step", "steps"), 1u);
  EXPECT_EQ(EditDistance("", "steps"), 5u);
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3u);
}

TEST(NearestNameTest, SuggestsOnlyWhatIsNear) {
  // Broken: messages would suggest names that nobody meant, or miss the obvious one.
  const std::vector<std::string> names = {"steps", "batch", "learning_rate"};
  EXPECT_EQ(NearestName("learning_rte", names), "learning_rate");
  EXPECT_EQ(NearestName("stpes", names), "steps");
  EXPECT_EQ(NearestName("momentum", names), "");
  EXPECT_EQ(NearestName("x", {"y"}), "");
  EXPECT_EQ(Suggestion("bathc", names), "; did you mean 'batch'?");
  EXPECT_EQ(Suggestion("momentum", names), "; valid are: steps, batch, learning_rate");
  EXPECT_EQ(Suggestion("x", {}), "");
}

}  // namespace
}  // namespace atolld
