#include "membership/history/fragment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

v1::Manifest ManifestOf(const std::vector<std::pair<std::string, uint64_t>>& tensors) {
  v1::Manifest manifest;
  uint64_t offset = 0;
  for (const auto& [name, count] : tensors) {
    v1::Tensor* const tensor = manifest.add_tensors();
    tensor->set_name(name);
    tensor->add_shape(count);
    tensor->set_offset(offset);
    offset += count;
  }
  manifest.set_elements(offset);
  return manifest;
}

// As a GPT of so many layers has them; `rows` of the embedding.
v1::Manifest GptOf(uint64_t layers, uint64_t width, uint64_t rows) {
  std::vector<std::pair<std::string, uint64_t>> tensors = {{"wte.weight", rows * width},
                                                           {"wpe.weight", 256 * width}};
  for (uint64_t i = 0; i < layers; ++i) {
    const std::string layer = absl::StrCat("h.", i, ".");
    tensors.emplace_back(layer + "ln_1.weight", width);
    tensors.emplace_back(layer + "attn.weight", 4 * width * width);
    tensors.emplace_back(layer + "mlp.weight", 8 * width * width);
  }
  tensors.emplace_back("ln_f.weight", width);
  return ManifestOf(tensors);
}

v1::RunSpec StreamingSpec(uint32_t fragments) {
  v1::RunSpec spec;
  spec.mutable_mode()->set_kind("streaming");
  spec.mutable_mode()->set_fragments(fragments);
  spec.mutable_exchange()->set_codec("int8");
  return spec;
}

uint64_t CountOf(const std::vector<FragmentRange>& ranges) {
  return std::accumulate(ranges.begin(), ranges.end(), uint64_t{0},
                         [](uint64_t sum, const FragmentRange& one) { return sum + one.count; });
}

// Broken: a value would be exchanged twice in a turn, or never; or a fragment would not be
// ascending, so that no two machines agree on what its values are.
TEST(Fragment, RangesTileTheVectorAndAreBalanced) {
  const struct {
    const char* what;
    v1::Manifest manifest;
  } models[] = {{"narrow", GptOf(6, 64, 1000)},
                {"an embedding above all else", GptOf(4, 64, 50257)},
                {"deep", GptOf(24, 128, 4096)},
                {"one tensor", ManifestOf({{"w", 1000003}})},
                {"no numbers", ManifestOf({{"a", 70000}, {"b", 300}, {"c", 50000}, {"d", 9}})}};
  for (const auto& model : models) {
    for (const uint32_t fragments : {2u, 3u, 4u, 7u}) {
      const auto divided = DivideIntoFragments(model.manifest, fragments);
      if (model.manifest.tensors_size() == 4 && fragments > 4) continue;
      ASSERT_TRUE(divided.ok()) << model.what << " " << fragments << ": " << divided.status();
      ASSERT_EQ(divided->size(), fragments);
      std::vector<FragmentRange> all;
      const uint64_t mean = model.manifest.elements() / fragments;
      for (const std::vector<FragmentRange>& ranges : *divided) {
        EXPECT_LE(CountOf(ranges), mean + mean / kFragmentSlack + kFragmentStep * fragments)
            << model.what << " " << fragments;
        for (size_t i = 1; i < ranges.size(); ++i) {
          EXPECT_GT(ranges[i].first, ranges[i - 1].first + ranges[i - 1].count) << "not joined";
        }
        all.insert(all.end(), ranges.begin(), ranges.end());
      }
      std::sort(all.begin(), all.end(),
                [](const FragmentRange& a, const FragmentRange& b) { return a.first < b.first; });
      uint64_t end = 0;
      for (const FragmentRange& one : all) {
        EXPECT_EQ(one.first, end) << model.what << " " << fragments;
        end = one.first + one.count;
      }
      EXPECT_EQ(end, model.manifest.elements());
    }
  }
}

// Broken: neighbouring layers would move together, which the strided pattern of the paper is there
// to avoid; or two tensors of a layer would part.
TEST(Fragment, LayersAreStridedByTheirNumbers) {
  const v1::Manifest manifest = ManifestOf({{"model.layers.0.a", 100},
                                            {"model.layers.0.b", 200},
                                            {"model.layers.1.a", 100},
                                            {"model.layers.1.b", 200},
                                            {"model.layers.10.a", 100},
                                            {"model.layers.10.b", 200},
                                            {"norm.v2", 300}});
  const auto divided = DivideIntoFragments(manifest, 2);
  ASSERT_TRUE(divided.ok()) << divided.status();
  EXPECT_EQ((*divided)[0], (std::vector<FragmentRange>{{0, 300}, {600, 300}}));
  EXPECT_EQ((*divided)[1], (std::vector<FragmentRange>{{300, 300}, {900, 300}}));
}

// Broken: a release would read the history of another one wrong. By hand: layers a, b and c of
// 40,000, 8,192 and 100 values; fragment 0 has a and c, 40,100 values of a mean of 24,146. c goes
// first, whole, and then of a what is wanted of 15,854 in steps of 4,096.
TEST(Fragment, IsDividedAsItIsWritten) {
  const v1::Manifest manifest = ManifestOf({{"a", 40000}, {"b", 8192}, {"c", 100}});
  const auto divided = DivideIntoFragments(manifest, 2);
  ASSERT_TRUE(divided.ok()) << divided.status();
  EXPECT_EQ((*divided)[0], (std::vector<FragmentRange>{{0, 40000 - 3 * 4096}}));
  EXPECT_EQ((*divided)[1], (std::vector<FragmentRange>{{40000 - 3 * 4096, 3 * 4096 + 8192 + 100}}));
  EXPECT_EQ(DivideIntoFragments(manifest, 2).value(), *divided);
}

// Broken: a run would begin whose entries cover nothing, or end in a crash.
TEST(Fragment, MoreThanCanBeMadeAreRefused) {
  const v1::Manifest tiny = ManifestOf({{"a", 3}, {"b", 2}});
  EXPECT_TRUE(DivideIntoFragments(tiny, 1).ok());
  EXPECT_TRUE(DivideIntoFragments(tiny, 2).ok());
  const absl::Status refused = DivideIntoFragments(tiny, 3).status();
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("[mode] fragments = 3 is more than can be made of a model of 2 tensors"));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("; 2 can"));
  EXPECT_FALSE(DivideIntoFragments(GptOf(64, 64, 1000), kMostFragments + 1).ok());
  EXPECT_TRUE(DivideIntoFragments(ManifestOf({{"w", 4 * 4096}}), 4).ok());
  EXPECT_FALSE(DivideIntoFragments(ManifestOf({{"w", 4096}}), 2).ok());
}

// Broken: entries would cover other fragments than their turn's, or a run without them a part.
TEST(Fragment, EntriesTakeTurns) {
  const v1::Manifest manifest = ManifestOf({{"a", 10}, {"b", 20}, {"c", 30}});
  const v1::RunSpec spec = StreamingSpec(3);
  EXPECT_EQ(FragmentOf(spec, 1), 0u);
  EXPECT_EQ(FragmentOf(spec, 3), 2u);
  EXPECT_EQ(FragmentOf(spec, 4), 0u);
  EXPECT_EQ(FragmentRanges(spec, manifest, 5), (std::vector<FragmentRange>{{10, 20}}));
  EXPECT_EQ(FragmentElements(spec, manifest, 6), 30u);
  EXPECT_EQ(MostEntryElements(spec, manifest), 30u);
  EXPECT_EQ(FragmentsOf(StreamingSpec(0)), 1u);
  v1::RunSpec sync;
  sync.mutable_mode()->set_fragments(3);  // which says nothing there
  EXPECT_EQ(FragmentsOf(sync), 1u);
  EXPECT_EQ(FragmentRanges(sync, manifest, 7), (std::vector<FragmentRange>{{0, 60}}));
  EXPECT_EQ(MostEntryElements(sync, manifest), 60u);
}

// Broken: means would be applied to other values than they are of.
TEST(Fragment, MapsBothWays) {
  const FragmentMap map({{10, 5}, {20, 1}, {30, 4}});
  EXPECT_EQ(map.elements(), 10u);
  const auto text = [](const std::vector<FragmentMap::Piece>& pieces) {
    std::string all;
    for (const auto& one : pieces) {
      absl::StrAppend(&all, one.first, "=", one.at, "x", one.count, " ");
    }
    return all;
  };
  EXPECT_EQ(text(map.Pieces(0, 10)), "10=0x5 20=5x1 30=6x4 ");
  EXPECT_EQ(text(map.Pieces(3, 4)), "13=3x2 20=5x1 30=6x1 ");
  EXPECT_EQ(text(map.Pieces(6, 0)), "");
  EXPECT_EQ(text(map.Meeting(0, 10)), "");
  EXPECT_EQ(text(map.Meeting(14, 17)), "14=4x1 20=5x1 30=6x1 ");
  EXPECT_EQ(text(map.Meeting(33, 100)), "33=9x1 ");
  std::vector<float> flat(40);
  std::iota(flat.begin(), flat.end(), 0.0f);
  const std::vector<float> entry = GatherEntry(map, flat);
  EXPECT_EQ(entry, (std::vector<float>{10, 11, 12, 13, 14, 20, 30, 31, 32, 33}));
  std::vector<float> back(40, -1.0f);
  ScatterEntry(map, entry, absl::MakeSpan(back));
  EXPECT_EQ(std::count(back.begin(), back.end(), -1.0f), 30);
  EXPECT_EQ(GatherEntry(map, back), entry);
}

// Broken: a run would be begun in which something is measured from, or made of, the values of
// another fragment.
TEST(Fragment, WhatNeedsAllValuesIsRefused) {
  const v1::Manifest manifest = GptOf(4, 64, 1000);
  EXPECT_TRUE(CheckFragments(StreamingSpec(4), manifest).ok());
  v1::RunSpec control = StreamingSpec(4);
  control.mutable_inner()->set_control_variates(true);
  v1::RunSpec masked = StreamingSpec(4);
  masked.mutable_privacy()->set_masked(true);
  v1::RunSpec noisy = StreamingSpec(4);
  noisy.mutable_privacy()->set_clip_bits(0x3f800000);
  v1::RunSpec centred = StreamingSpec(4);
  centred.mutable_exchange()->set_aggregation("centred_clipping");
  centred.mutable_exchange()->set_clip_bits(0x3f800000);
  v1::RunSpec counting = StreamingSpec(4);
  counting.mutable_outer()->set_rule("delayed_nesterov");
  for (v1::RunSpec* spec : {&control, &masked, &noisy, &centred, &counting}) {
    const absl::Status refused = CheckFragments(*spec, manifest);
    EXPECT_THAT(std::string(refused.message()), HasSubstr("[mode] fragments = 4"));
    spec->mutable_mode()->set_fragments(1);
    EXPECT_TRUE(CheckFragments(*spec, manifest).ok());
  }
}

}  // namespace
}  // namespace atolld
