// The vector of an entry in a run whose peers own experts: its parts, their order and the padding.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "membership/history/fragment.h"

namespace atolld {
namespace {

using Parts = std::vector<std::vector<FragmentRange>>;

// Chunks of 8 values. Part 0 has 13 values in two ranges, expert 0 has 11 and expert 1 has 16, so
// only the last part ends at a chunk's boundary.
const Parts kPaddedParts = {{{0, 10}, {27, 3}}, {{10, 5}, {34, 6}}, {{15, 12}, {30, 4}}};
constexpr uint64_t kPaddedStep = 8;
constexpr uint64_t kPaddedFlat = 40;

v1::Manifest PaddedManifest() {
  v1::Manifest manifest;
  const std::pair<const char*, uint64_t> tensors[] = {
      {"wte", 10}, {"h.0.experts.3.up", 5}, {"h.0.experts.7.up", 12},
      {"head", 3}, {"h.1.experts.7.up", 4}, {"h.1.experts.3.up", 6}};
  for (const auto& [name, count] : tensors) {
    v1::Tensor* const tensor = manifest.add_tensors();
    tensor->set_name(name);
    tensor->add_shape(count);
    tensor->set_offset(manifest.elements());
    manifest.set_elements(manifest.elements() + count);
  }
  return manifest;
}

v1::RunSpec PaddedSpec() {
  v1::RunSpec spec;
  spec.mutable_exchange()->set_codec("int8");
  spec.mutable_exchange()->set_chunk_elements(kPaddedStep);
  spec.mutable_outer()->set_rule("nesterov");
  spec.mutable_experts()->set_owners(2);
  spec.mutable_experts()->add_tensors("*.experts.#.*");
  return spec;
}

std::string PiecesText(const std::vector<FragmentMap::Piece>& pieces) {
  std::string all;
  for (const FragmentMap::Piece& one : pieces) {
    absl::StrAppend(&all, one.first, "=", one.at, "x", one.count, " ");
  }
  return all;
}

std::vector<float> Counting(size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 1.0f);
  return values;
}

// Broken: two experts would share a chunk, or the values of one would be taken for another's.
TEST(ExpertVector, PartsBeginAtChunksAndKeepTheirOrder) {
  const FragmentMap map(kPaddedParts, kPaddedStep);
  EXPECT_EQ(map.elements(), 48u);
  EXPECT_EQ(PiecesText(map.pieces()), "0=0x10 10=16x5 15=32x12 27=10x3 30=44x4 34=21x6 ");
  EXPECT_EQ(PiecesText(map.Pieces(0, 48)), "0=0x10 27=10x3 10=16x5 34=21x6 15=32x12 30=44x4 ");
  // The last part is not padded.
  EXPECT_EQ(FragmentMap(Parts{{{0, 3}}, {{3, 5}}}, kPaddedStep).elements(), 13u);
}

// Broken: a chunk that ends in padding would be stepped beyond its part, or a snapshot's block by
// the chunks of other values.
TEST(ExpertVector, PiecesOfARangeLeaveOutThePadding) {
  const FragmentMap map(kPaddedParts, kPaddedStep);
  EXPECT_EQ(PiecesText(map.Pieces(8, 8)), "8=8x2 27=10x3 ") << "and 3 zeros";
  EXPECT_EQ(PiecesText(map.Pieces(13, 3)), "") << "padding alone";
  EXPECT_EQ(PiecesText(map.Pieces(24, 10)), "37=24x3 15=32x2 ");
  EXPECT_EQ(PiecesText(map.Pieces(48, 0)), "");
  EXPECT_EQ(PiecesText(map.Meeting(0, 40)), PiecesText(map.pieces()));
  EXPECT_EQ(PiecesText(map.Meeting(12, 20)), "12=18x3 15=32x12 27=10x3 30=44x2 ");
  EXPECT_EQ(PiecesText(map.Meeting(34, 1)), "34=21x1 ");
  EXPECT_EQ(PiecesText(map.Meeting(40, 100)), "");
}

// Broken: an expert that nobody has trained would be stepped, or one beside it would not be.
TEST(ExpertVector, WhatIsRemovedIsInNoPiece) {
  FragmentMap map(kPaddedParts, kPaddedStep);
  map.Remove(16, 16);  // the chunks of the first expert
  EXPECT_EQ(PiecesText(map.pieces()), "0=0x10 15=32x12 27=10x3 30=44x4 ");
  EXPECT_EQ(PiecesText(map.Pieces(8, 32)), "8=8x2 27=10x3 15=32x8 ");
  EXPECT_EQ(PiecesText(map.Meeting(8, 12)), "8=8x2 15=32x5 ");
  EXPECT_EQ(map.elements(), 48u) << "the grid stays the same";
  map.Remove(13, 3);  // padding
  EXPECT_EQ(PiecesText(map.pieces()), "0=0x10 15=32x12 27=10x3 30=44x4 ");
  map.Remove(4, 8);  // cuts two pieces, each on one side
  EXPECT_EQ(PiecesText(map.pieces()), "0=0x4 15=32x12 29=12x1 30=44x4 ");
  map.Remove(34, 3);  // cuts a piece in two
  EXPECT_EQ(PiecesText(map.Pieces(32, 16)), "15=32x2 20=37x7 30=44x4 ");
  map.Remove(0, 48);
  EXPECT_EQ(PiecesText(map.pieces()), "");
  EXPECT_EQ(PiecesText(map.Meeting(0, 40)), "");
}

// Broken: values would be taken from the flat vector as if it were the entry's.
TEST(ExpertVector, IsFlatOnlyInTheSameOrderWithoutPadding) {
  EXPECT_FALSE(FragmentMap(kPaddedParts, kPaddedStep).IsFlat(kPaddedFlat));
  EXPECT_FALSE(FragmentMap(kPaddedParts, kPaddedStep).IsFlat(48));
  EXPECT_FALSE(FragmentMap(kPaddedParts, 1).IsFlat(kPaddedFlat)) << "in another order";
  EXPECT_TRUE(FragmentMap(Parts{{{0, 16}}, {{16, 8}}}, kPaddedStep).IsFlat(24));
  EXPECT_FALSE(FragmentMap(Parts{{{0, 13}}, {{13, 8}}}, kPaddedStep).IsFlat(21));
  EXPECT_TRUE(FragmentMap(std::vector<FragmentRange>{{0, 40}}).IsFlat(40));
}

// Broken: an update would be sent as the values of other tensors, or the padding would be whatever
// lay in memory, so that two peers do not send the same bytes.
TEST(ExpertVector, GathersAndScattersAllValuesAndNoPadding) {
  const FragmentMap map(kPaddedParts, kPaddedStep);
  const std::vector<float> flat = Counting(kPaddedFlat);
  std::vector<float> entry = GatherEntry(map, flat);
  ASSERT_EQ(entry.size(), 48u);
  EXPECT_EQ(entry[9], 10.0f);
  EXPECT_EQ(entry[10], 28.0f) << "the second range of the shared part";
  EXPECT_EQ(entry[16], 11.0f) << "the first expert";
  EXPECT_EQ(entry[21], 35.0f);
  EXPECT_EQ(entry[32], 16.0f) << "the second expert";
  for (const size_t padding : {13, 14, 15, 27, 28, 29, 30, 31}) {
    EXPECT_EQ(entry[padding], 0.0f) << padding;
    entry[padding] = -5.0f;
  }
  EXPECT_EQ(std::count(entry.begin(), entry.end(), 0.0f), 0) << "each value is there once";
  std::vector<float> back(kPaddedFlat, -1.0f);
  ScatterEntry(map, entry, absl::MakeSpan(back));
  EXPECT_EQ(back, flat);
}

// Broken: a peer would send, or a reducer take, the chunks of another part than those that its
// expert lies in.
TEST(ExpertVector, ARunsGridSaysThePartOfEachChunk) {
  const v1::Manifest manifest = PaddedManifest();
  ASSERT_TRUE(CheckFragments(PaddedSpec(), manifest).ok())
      << CheckFragments(PaddedSpec(), manifest);
  const Fragments fragments(PaddedSpec(), manifest);
  ASSERT_NE(fragments.experts(), nullptr);
  EXPECT_EQ(fragments.experts()->numbers, (std::vector<uint32_t>{3, 7}));
  EXPECT_EQ(fragments.experts()->parts, kPaddedParts);
  EXPECT_FALSE(fragments.several());
  EXPECT_EQ(fragments.elements(), kPaddedFlat);
  for (const uint64_t version : {1, 2, 9}) {
    const ChunkGrid grid = fragments.Grid(version, kPaddedStep);
    EXPECT_EQ(grid.elements(), 48u);
    ASSERT_EQ(grid.chunks(), 6u);
    EXPECT_EQ(grid.experts(), 2u);
    std::vector<uint32_t> parts;
    for (uint32_t chunk = 0; chunk < grid.chunks(); ++chunk) parts.push_back(grid.Part(chunk));
    EXPECT_THAT(parts, ::testing::ElementsAre(0, 0, 1, 1, 2, 2));
    EXPECT_EQ(PiecesText(fragments.Of(version).pieces()),
              PiecesText(FragmentMap(kPaddedParts, kPaddedStep).pieces()));
  }
  EXPECT_EQ(FragmentElements(PaddedSpec(), manifest, 4), 48u);
  EXPECT_EQ(MostEntryElements(PaddedSpec(), manifest), 48u);
}

// Broken: a run without experts would get another layout, and no peer could read its history.
TEST(ExpertVector, ARunWithoutExpertsIsFlat) {
  v1::RunSpec spec = PaddedSpec();
  spec.clear_experts();
  const Fragments fragments(spec, PaddedManifest());
  EXPECT_EQ(fragments.experts(), nullptr);
  EXPECT_TRUE(fragments.Of(1).IsFlat(kPaddedFlat));
  const ChunkGrid grid = fragments.Grid(1, kPaddedStep);
  EXPECT_EQ(grid.chunks(), 5u);
  EXPECT_EQ(grid.experts(), 0u);
  EXPECT_EQ(grid.Part(4), 0u);
}

}  // namespace
}  // namespace atolld
