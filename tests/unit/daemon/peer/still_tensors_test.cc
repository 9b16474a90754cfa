// Would break: parameters that an optimiser never moves stay as they were drawn, and nobody hears
// of it.
#include "daemon/peer/still_tensors.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace atolld {
namespace {

using ::testing::StartsWith;

// "t0", "t1", ...: two values each.
v1::Manifest TensorsOfTwo(int count) {
  v1::Manifest manifest;
  for (int i = 0; i < count; ++i) {
    v1::Tensor* const tensor = manifest.add_tensors();
    tensor->set_name(absl::StrCat("t", i));
    tensor->add_shape(2);
    tensor->set_offset(static_cast<uint64_t>(2 * i));
  }
  manifest.set_elements(static_cast<uint64_t>(2 * count));
  return manifest;
}

TEST(StillTensorsTest, AnUpdateOfLengthZeroIsSaidAtOnce) {
  StillTensors still;
  const v1::Manifest manifest = TensorsOfTwo(2);
  EXPECT_EQ(still.Look(manifest, {0, 0, 0, -0.0F}),
            "the update has length 0: none of the model's 2 tensors has moved; does its optimiser "
            "step a copy of the parameters?");
  EXPECT_THAT(still.verdict(), StartsWith("the update has length 0"));
  EXPECT_EQ(still.Look(manifest, {0, 0, 0, 0}), "") << "it is said once";
  EXPECT_THAT(still.verdict(), StartsWith("the update has length 0"));
  EXPECT_EQ(still.Look(manifest, {1, 0, 1, 0}), "");
  EXPECT_EQ(still.verdict(), "") << "it is not true any more";
}

TEST(StillTensorsTest, TensorsThatNeverMovedAreNamedOnce) {
  StillTensors still;
  const v1::Manifest manifest = TensorsOfTwo(3);
  EXPECT_EQ(still.Look(manifest, {1, 0, 0, 0, 0, 0}), "");
  EXPECT_EQ(still.Look(manifest, {1, 1, 0, 0, 0, 0}), "");
  EXPECT_TRUE(still.watches());
  EXPECT_EQ(still.Look(manifest, {0, 0, 0, 1e-30F, 0, 0}),
            "1 of 3 tensors did not move in 3 rounds of training: t2");
  EXPECT_FALSE(still.watches());
  EXPECT_EQ(still.Look(manifest, {0, 0, 0, 0, 0, 0}), "");
  EXPECT_EQ(still.verdict(), "1 of 3 tensors did not move in 3 rounds of training: t2");
}

TEST(StillTensorsTest, ManyAreCounted) {
  StillTensors still;
  const v1::Manifest manifest = TensorsOfTwo(12);
  std::vector<float> update(24, 0);
  update[1] = 1;
  std::string said;
  for (int i = 0; i < StillTensors::kLooks; ++i) said = still.Look(manifest, update);
  EXPECT_EQ(said,
            "11 of 12 tensors did not move in 3 rounds of training: t1, t2, t3, t4 and 7 more");
}

TEST(StillTensorsTest, AVerdictIsOneShortLine) {
  StillTensors still;
  v1::Manifest manifest = TensorsOfTwo(3);
  manifest.mutable_tensors(1)->set_name("a\nb");
  manifest.mutable_tensors(2)->set_name(std::string(1000, 'x'));
  for (int i = 0; i < StillTensors::kLooks; ++i) still.Look(manifest, {1, 0, 0, 0, 0, 0});
  EXPECT_THAT(still.verdict(),
              StartsWith("2 of 3 tensors did not move in 3 rounds of training: a b, xxx"));
  EXPECT_EQ(still.verdict().size(), StillTensors::kLongestVerdict);
}

TEST(StillTensorsTest, WhenAllMoveNothingIsSaid) {
  StillTensors still;
  const v1::Manifest manifest = TensorsOfTwo(2);
  for (int i = 0; i < StillTensors::kLooks; ++i) {
    EXPECT_EQ(still.Look(manifest, {1, 0, 0, 1}), "");
  }
  EXPECT_EQ(still.verdict(), "");
}

}  // namespace
}  // namespace atolld
