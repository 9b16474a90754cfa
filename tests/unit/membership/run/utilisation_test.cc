#include "membership/run/utilisation.h"

#include <cstdint>
#include <limits>

#include "gtest/gtest.h"

namespace atolld {
namespace {

v1::Ready Telling(double trained, double waited) {
  v1::Ready ready;
  ready.set_train_seconds(trained);
  ready.set_waited_seconds(waited);
  return ready;
}

// Would break: a first round, or a peer that tells nothing, that counts as one that never waits; a
// peer whose nonsense becomes the run's.
TEST(Utilisation, IsKnownOnlyOfWhoTellsIt) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinite = std::numeric_limits<double>::infinity();
  for (const v1::Ready& ready : {Telling(9, 0), Telling(0, 1), Telling(9, -1), Telling(-9, 1),
                                 Telling(9, nan), Telling(nan, 1), Telling(infinite, 1)}) {
    EXPECT_FALSE(UtilisationOf(ready).has_value()) << ready.DebugString();
  }
  v1::Ready ready = Telling(9, 1);
  ready.set_hidden_bytes(std::numeric_limits<uint64_t>::max());
  const std::optional<v1::Utilisation> told = UtilisationOf(ready);
  ASSERT_TRUE(told.has_value());
  EXPECT_EQ(TrainedShare(*told), 0.9);
  EXPECT_LT(told->hidden_bytes(), uint64_t{1} << 60) << "sums stay numbers";
}

TEST(Utilisation, SharesAreOfTheSums) {
  v1::Utilisation sum;
  EXPECT_EQ(TrainedShare(sum), std::nullopt);
  EXPECT_EQ(HiddenShare(sum), std::nullopt);
  v1::Ready first = Telling(9, 1);
  first.set_hidden_bytes(300);
  v1::Ready second = Telling(3, 3);
  second.set_waited_bytes(100);
  AddUtilisation(*UtilisationOf(first), &sum);
  AddUtilisation(*UtilisationOf(second), &sum);
  EXPECT_EQ(TrainedShare(sum), 0.75);
  EXPECT_EQ(HiddenShare(sum), 0.75);
}

}  // namespace
}  // namespace atolld
