#include "worker/base/trained_tensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace atolld {
namespace {

using ::testing::HasSubstr;

using Range = std::pair<uint64_t, uint64_t>;  // first and count

v1::TrainSteps Freezing(const std::vector<Range>& ranges) {
  v1::TrainSteps train;
  train.set_version(7);
  for (const auto& [first, count] : ranges) {
    v1::ValueRange& range = *train.add_frozen();
    range.set_first(first);
    range.set_count(count);
  }
  return train;
}

// "a" has the values from 0 to 6, "b" to 10, "c" to 15, and "d" to 16.
v1::Manifest FourTensors() {
  v1::Manifest manifest;
  const auto add = [&](const char* name, const std::vector<uint64_t>& shape, uint64_t end) {
    v1::Tensor& tensor = *manifest.add_tensors();
    tensor.set_name(name);
    for (const uint64_t one : shape) tensor.add_shape(one);
    tensor.set_offset(manifest.elements());
    manifest.set_elements(end);
  };
  add("a", {2, 3}, 6);
  add("b", {4}, 10);
  add("c", {5, 1}, 15);
  add("d", {}, 16);
  return manifest;
}

std::vector<std::vector<uint64_t>> PiecesOf(const std::vector<TrainedTensors::Piece>& pieces) {
  std::vector<std::vector<uint64_t>> all;
  for (const TrainedTensors::Piece& piece : pieces) {
    all.push_back({piece.first, piece.place, piece.count});
  }
  return all;
}

using Pieces = std::vector<std::vector<uint64_t>>;

// Broken: a gradient or a moment would be that of another tensor.
TEST(TrainedTensorsTest, WhatIsTrainedIsOneAfterAnother) {
  const v1::Manifest manifest = FourTensors();
  const auto some = *TrainedTensors::Without(Freezing({{0, 6}, {10, 5}}), manifest);
  EXPECT_FALSE(some.trains(0));
  EXPECT_TRUE(some.trains(1));
  EXPECT_EQ(some.place(1), 0u);
  EXPECT_EQ(some.place(3), 4u);
  EXPECT_EQ(some.elements(), 5u);
  EXPECT_EQ(PiecesOf(some.pieces()), (Pieces{{6, 0, 4}, {15, 4, 1}}));
  EXPECT_EQ(PiecesOf(some.Pieces(15)), (Pieces{{6, 0, 4}}));
  const auto joined = *TrainedTensors::Without(Freezing({{6, 9}}), manifest);  // two that touch
  EXPECT_EQ(PiecesOf(joined.pieces()), (Pieces{{0, 0, 6}, {15, 6, 1}}));
  EXPECT_EQ(PiecesOf(joined.Pieces(2)), (Pieces{{0, 0, 2}}));
  const auto others = *TrainedTensors::Without(Freezing({{15, 1}}), manifest);
  EXPECT_EQ(PiecesOf(others.pieces()), (Pieces{{0, 0, 15}}));
  EXPECT_FALSE(some == joined);
  EXPECT_TRUE(some == TrainedTensors(manifest, {false, true, false, true}));
}

// Broken: a run in which everything is trained would compute in another layout than before.
TEST(TrainedTensorsTest, AllOfThemLieAsInTheFlatVector) {
  v1::Manifest manifest = FourTensors();
  for (const TrainedTensors& all :
       {TrainedTensors(manifest), TrainedTensors(manifest, {true, true, true, true}),
        *TrainedTensors::Without(Freezing({}), manifest)}) {
    EXPECT_EQ(all.elements(), 16u);
    EXPECT_EQ(all.place(2), 10u);
    EXPECT_EQ(PiecesOf(all.pieces()), (Pieces{{0, 0, 16}}));
    EXPECT_TRUE(all == TrainedTensors(manifest));
  }
  // Personal tensors come last in the vector, though not in the manifest: here it is "a".
  manifest.mutable_tensors(0)->set_offset(10);
  manifest.mutable_tensors(1)->set_offset(0);
  manifest.mutable_tensors(2)->set_offset(4);
  manifest.mutable_tensors(3)->set_offset(9);
  const auto personal = *TrainedTensors::Without(Freezing({{4, 5}}), manifest);
  EXPECT_FALSE(personal.trains(2));
  EXPECT_EQ(personal.place(3), 4u);
  EXPECT_EQ(personal.place(0), 5u);
  EXPECT_EQ(PiecesOf(personal.pieces()), (Pieces{{0, 0, 4}, {9, 4, 7}}));
  EXPECT_EQ(PiecesOf(personal.Pieces(10)), (Pieces{{0, 0, 4}, {9, 4, 1}}));
}

// Broken: a half of a tensor would be trained, or a worker would crash on ranges that are not
// there.
TEST(TrainedTensorsTest, OnlyWholeTensorsAreFrozen) {
  const auto refusal = [](const std::vector<Range>& ranges) {
    const auto made = TrainedTensors::Without(Freezing(ranges), FourTensors());
    EXPECT_TRUE(absl::IsInvalidArgument(made.status()));
    return std::string(made.status().message());
  };
  EXPECT_EQ(refusal({{6, 3}}),
            "version 7: TrainSteps.frozen has 3 values from 6 on; a range must be whole tensors, "
            "and it has a part of b");
  EXPECT_THAT(refusal({{0, 7}}), HasSubstr("a part of b"));
  EXPECT_THAT(refusal({{1, 5}}), HasSubstr("a part of a"));
  EXPECT_THAT(refusal({{12, 3}}), HasSubstr("a part of c"));
  EXPECT_THAT(refusal({{10, 5}, {0, 6}}), HasSubstr("ascending and disjoint"));
  EXPECT_THAT(refusal({{6, 4}, {6, 4}}), HasSubstr("ascending and disjoint"));
  EXPECT_THAT(refusal({{15, 2}}), HasSubstr("at least one of the model's 16 values"));
  EXPECT_THAT(refusal({{17, 1}}), HasSubstr("at least one of the model's 16 values"));
  EXPECT_THAT(refusal({{6, 0}}), HasSubstr("at least one of the model's 16 values"));
  EXPECT_THAT(refusal({{10, ~uint64_t{0}}}), HasSubstr("at least one of the model's 16 values"));
  EXPECT_THAT(refusal({{0, 6}, {6, 10}}), HasSubstr("at least one must be trained"));
}

}  // namespace
}  // namespace atolld
