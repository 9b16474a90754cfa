#include "membership/experts/expert_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace atolld {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

v1::Manifest TensorsOf(const std::vector<std::pair<std::string, std::vector<uint64_t>>>& tensors) {
  v1::Manifest manifest;
  uint64_t offset = 0;
  for (const auto& [name, shape] : tensors) {
    v1::Tensor* const tensor = manifest.add_tensors();
    tensor->set_name(name);
    tensor->set_offset(offset);
    uint64_t values = 1;
    for (const uint64_t dimension : shape) {
      tensor->add_shape(dimension);
      values *= dimension;
    }
    offset += values;
  }
  manifest.set_elements(offset);
  return manifest;
}

v1::ExpertsSpec ExpertsOf(const std::vector<std::string>& patterns) {
  v1::ExpertsSpec spec;
  spec.set_owners(2);
  for (const std::string& pattern : patterns) spec.add_tensors(pattern);
  return spec;
}

// Two layers of experts 2, 9 and 10, as a converter may list them: the last layer sorted by text.
v1::Manifest Mixture() {
  return TensorsOf({{"embedding", {5, 4}},
                    {"h.0.experts.2.up", {3, 2}},
                    {"h.0.experts.2.down", {7}},
                    {"h.0.experts.9.up", {3}},
                    {"h.0.experts.10.up", {4}},
                    {"h.0.norm", {1}},
                    {"h.1.experts.10.up", {4}},
                    {"h.1.experts.2.up", {6}},
                    {"h.1.experts.9.up", {3}},
                    {"head", {2}}});
}

ExpertParts Divided() { return *DivideIntoExperts(ExpertsOf({"*.experts.#.*"}), Mixture()); }

std::string OwnedOf(uint32_t experts, const std::vector<uint32_t>& owned) {
  std::string bitmap = OwnsNothing(experts);
  for (const uint32_t i : owned) {
    bitmap[i / 8] = static_cast<char>(static_cast<uint8_t>(bitmap[i / 8]) | (1u << (i % 8)));
  }
  return bitmap;
}

std::string RefusalOf(const std::vector<std::string>& patterns, const v1::Manifest& manifest) {
  const absl::StatusOr<ExpertParts> divided = DivideIntoExperts(ExpertsOf(patterns), manifest);
  EXPECT_EQ(divided.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(divided.status().message());
}

// Broken: a tensor would belong to an expert that its name does not say, or to none.
TEST(ExpertParts, APatternHasOneWholeNumber) {
  const struct {
    const char* pattern;
    const char* name;
    int number;  // -1 if the name does not match
  } cases[] = {
      {"*.experts.#.*", "model.layers.3.mlp.experts.17.up_proj.weight", 17},
      {"*.experts.#.*", "model.layers.3.mlp.experts.7.up_proj.weight", 7},
      {"*.experts.#.*", "model.layers.3.mlp.shared_expert.up_proj.weight", -1},
      {"*.experts.#.*", "model.experts.x.3.weight", -1},
      {"expert.#.*", "expert.0.w", 0},
      {"expert.#.*", "an.expert.0.w", -1},
      {"expert.#.*", "expert.0.", 0},
      {"expert.#.*", "expert.0", -1},
      {"expert#", "expert12", 12},
      {"expert#", "expert12a", -1},
      {"*#", "a1.b23", 23},
      {"*#", "a1.b", -1},
      {"#*", "4th", 4},
      {"e#2", "e12", -1},
      {"e1#", "e12", -1},
      {"*.#.*", "a.5.b.6.c", 5},
      {"expert.#.w", "expert.007.w", 7},
      {"expert.#.w", "expert.99999999999.w", -1},
      {"experts", "experts", -1},
      {"*a*b.#**", "aab.b.3", 3},
      {"*a*b.#**c", "xb.ab.3.ca", -1},
      {"**#", "7", 7},
  };
  for (const auto& one : cases) {
    uint32_t number = 0;
    const bool matches = MatchesExpert(one.pattern, one.name, &number);
    EXPECT_EQ(matches, one.number >= 0) << one.pattern << " " << one.name;
    if (matches && one.number >= 0) {
      EXPECT_EQ(number, static_cast<uint32_t>(one.number)) << one.pattern << " " << one.name;
    }
  }
}

// Broken: a value would be trained by the owners of another expert, by two sets of peers or by
// nobody; or machines would number the parts differently.
TEST(ExpertParts, PartsTileTheVectorByTheExpertsNumbers) {
  const ExpertParts divided = Divided();
  EXPECT_THAT(divided.numbers, ElementsAre(2, 9, 10)) << "by number, not by text";
  EXPECT_EQ(divided.experts(), 3u);
  ASSERT_EQ(divided.parts.size(), 4u);
  EXPECT_THAT(divided.parts[0], ElementsAre(PartRange{0, 20}, PartRange{40, 1}, PartRange{54, 2}));
  EXPECT_THAT(divided.parts[1], ElementsAre(PartRange{20, 13}, PartRange{45, 6}))
      << "tensors that touch are one range";
  EXPECT_THAT(divided.parts[2], ElementsAre(PartRange{33, 3}, PartRange{51, 3}));
  EXPECT_THAT(divided.parts[3], ElementsAre(PartRange{36, 4}, PartRange{41, 4}));
  std::vector<int> covered(Mixture().elements(), 0);
  for (const auto& part : divided.parts) {
    for (const PartRange& range : part) {
      for (uint64_t i = range.first; i < range.first + range.count; ++i) ++covered[i];
    }
  }
  EXPECT_EQ(covered, std::vector<int>(covered.size(), 1));
}

// Broken: the tensors of one expert that different patterns name would be different experts.
TEST(ExpertParts, SeveralPatternsNameTheSameExperts) {
  const v1::Manifest manifest = TensorsOf(
      {{"up.0", {2}}, {"up.1", {2}}, {"gate", {3}}, {"down.1.w", {4}}, {"down.0.w", {4}}});
  const ExpertParts divided = *DivideIntoExperts(ExpertsOf({"up.#", "down.#.*"}), manifest);
  EXPECT_THAT(divided.numbers, ElementsAre(0, 1));
  EXPECT_THAT(divided.parts[0], ElementsAre(PartRange{4, 3}));
  EXPECT_THAT(divided.parts[1], ElementsAre(PartRange{0, 2}, PartRange{11, 4}));
  EXPECT_THAT(divided.parts[2], ElementsAre(PartRange{2, 2}, PartRange{7, 4}));
}

// Broken: a run would begin whose patterns do not mean what its owner thinks, and every peer would
// train everything or nothing.
TEST(ExpertParts, WhatCannotBeDividedIsRefusedByName) {
  const v1::Manifest manifest = Mixture();
  EXPECT_THAT(RefusalOf({"*.experts.*"}, manifest),
              AllOf(HasSubstr("\"*.experts.*\""), HasSubstr("one #")));
  EXPECT_THAT(RefusalOf({"h.#.experts.#.*"}, manifest), HasSubstr("\"h.#.experts.#.*\""));
  EXPECT_THAT(RefusalOf({"*.experts.#.*", "*.expert.#.*"}, manifest),
              AllOf(HasSubstr("\"*.expert.#.*\""), HasSubstr("no tensor")));
  EXPECT_THAT(RefusalOf({"*.experts.2#.*"}, manifest), HasSubstr("no tensor"));
  EXPECT_THAT(RefusalOf({}, manifest), HasSubstr("0 experts"));
  EXPECT_THAT(RefusalOf({"e.#"}, TensorsOf({{"e.3", {1}}, {"shared", {1}}})),
              HasSubstr("1 experts"));
  EXPECT_THAT(RefusalOf({"e.#"}, TensorsOf({{"e.3", {1}}, {"e.4", {1}}})),
              HasSubstr("every tensor"));
  std::vector<std::pair<std::string, std::vector<uint64_t>>> many = {{"shared", {1}}};
  for (uint32_t i = 0; i < kMostExperts; ++i) many.push_back({absl::StrCat("e.", i), {1}});
  EXPECT_TRUE(DivideIntoExperts(ExpertsOf({"e.#"}), TensorsOf(many)).ok());
  many.push_back({absl::StrCat("e.", kMostExperts), {1}});
  EXPECT_THAT(RefusalOf({"e.#"}, TensorsOf(many)), HasSubstr(absl::StrCat(kMostExperts + 1)));
}

// Broken: a record with such a pattern would keep every peer of the run busy for years.
TEST(ExpertParts, APatternOfManyStarsTakesNoTime) {
  std::string pattern;
  while (pattern.size() + 5 <= kLongestExpertPattern) pattern += "*a";
  pattern += "b.#";
  ASSERT_TRUE(CheckExpertPattern(pattern).ok());
  const std::string name(4096, 'a');
  uint32_t number = 0;
  EXPECT_FALSE(MatchesExpert(pattern, name + ".1", &number));
  EXPECT_TRUE(MatchesExpert(pattern, name + "b.1", &number));
  EXPECT_EQ(number, 1u);
}

// Broken: a record could have patterns without end, each of which is compared with every tensor.
TEST(ExpertParts, PatternsAreFewAndShort) {
  const std::string longest = "*.experts.#.*" + std::string(kLongestExpertPattern - 13, '*');
  EXPECT_TRUE(DivideIntoExperts(ExpertsOf({longest}), Mixture()).ok());
  EXPECT_THAT(RefusalOf({longest + "*"}, Mixture()),
              HasSubstr("a pattern has 257 characters; it must have at most 256"));
  const std::vector<std::string> most(kMostExpertPatterns, "*.experts.#.*");
  EXPECT_TRUE(CheckExpertPatternCount(most.size()).ok());
  EXPECT_THAT(
      RefusalOf(std::vector<std::string>(kMostExpertPatterns + 1, "*.experts.#.*"), Mixture()),
      HasSubstr("[experts] tensors has 17 patterns; it must have at most 16"));
}

// Broken: a worker would train an expert of other peers, or leave its own or a shared tensor as it
// is.
TEST(ExpertParts, FrozenIsWhatOthersOwn) {
  const ExpertParts divided = Divided();
  EXPECT_THAT(FrozenRanges(divided, OwnsAll(3)), IsEmpty());
  EXPECT_THAT(FrozenRanges(divided, ""), IsEmpty()) << "a run without experts";
  EXPECT_THAT(FrozenRanges(divided, OwnsNothing(3)),
              ElementsAre(PartRange{20, 20}, PartRange{41, 13}))
      << "experts that touch are one range";
  EXPECT_THAT(FrozenRanges(divided, OwnedOf(3, {0})),
              ElementsAre(PartRange{33, 7}, PartRange{41, 4}, PartRange{51, 3}));
  EXPECT_THAT(FrozenRanges(divided, OwnedOf(3, {0, 2})),
              ElementsAre(PartRange{33, 3}, PartRange{51, 3}));
}

// Broken: a bitmap of another model would be taken for one of this run, or a chunk for one that its
// sender may not send.
TEST(ExpertParts, ABitmapHasABitForEachExpert) {
  for (const uint32_t experts : {2u, 8u, 9u}) {
    EXPECT_TRUE(ValidOwned(OwnsNothing(experts), experts));
    EXPECT_TRUE(ValidOwned(OwnsAll(experts), experts));
    EXPECT_FALSE(ValidOwned("", experts));
    EXPECT_FALSE(ValidOwned(OwnsAll(experts) + std::string(1, '\0'), experts));
  }
  EXPECT_FALSE(ValidOwned("\x04", 2)) << "a bit beyond the experts";
  EXPECT_FALSE(ValidOwned(std::string("\x00\x02", 2), 9));
  const std::string owned = OwnedOf(9, {1, 8});
  EXPECT_TRUE(Covers(owned, 0)) << "the shared part";
  EXPECT_FALSE(Covers(owned, 1));
  EXPECT_TRUE(Covers(owned, 2));
  EXPECT_TRUE(Covers(owned, 9));
  EXPECT_TRUE(Covers("", 3)) << "a run without experts";
  EXPECT_FALSE(Covers(OwnsNothing(9), 1));
}

// Broken: a person could not tell from a line which experts a peer owns.
TEST(ExpertParts, OwnedExpertsAreNamedByTheirNumbers) {
  const std::vector<uint32_t> numbers = {0, 1, 2, 3, 7, 8, 12};
  EXPECT_EQ(NameOwned(numbers, OwnsNothing(7)), "none");
  EXPECT_EQ(NameOwned(numbers, OwnsAll(7)), "0-3, 7-8, 12");
  EXPECT_EQ(NameOwned(numbers, OwnedOf(7, {0, 2, 3, 6})), "0, 2-3, 12");
  EXPECT_EQ(NameOwned(numbers, OwnedOf(7, {3, 4})), "3, 7") << "numbers 4 to 6 do not exist";
}

// Broken: a run without the section would be divided, or one with it would not.
TEST(ExpertParts, ARunHasExpertsIfItNamesOwners) {
  v1::RunSpec spec;
  EXPECT_FALSE(HasExperts(spec));
  spec.mutable_experts()->set_owners(1);
  EXPECT_TRUE(HasExperts(spec));
}

}  // namespace
}  // namespace atolld
