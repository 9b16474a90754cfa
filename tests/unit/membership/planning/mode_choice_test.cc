#include "membership/planning/mode_choice.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

constexpr double kAsked = 0.95;

ModeQuestion QuestionAt(double bytes_per_second, uint32_t steps = 25) {
  ModeQuestion question;
  question.links = EqualPeers(4, bytes_per_second, absl::Milliseconds(5));
  question.parameters = 4000000;
  question.chunk_elements = 65536;
  question.steps = steps;
  question.step_seconds = 0.2;
  return question;
}

std::vector<LevelCodecs> Int8AndInt4() {
  return {*ParseLevels("int8", ""), *ParseLevels("int4", "")};
}

absl::StatusOr<ModeOption> ChosenAt(double bytes_per_second, uint32_t steps = 25) {
  return ChooseMode(QuestionAt(bytes_per_second, steps), kAsked, Int8AndInt4(),
                    [](const ModeShape&) { return true; });
}

struct ModePreference {
  ModeShape shape;
  size_t codec;
};

// All that may be chosen, the best first, as the header says it.
std::vector<ModePreference> ModesInOrder(uint32_t steps) {
  std::vector<ModePreference> all = {{{"sync", 1, 0}, 0}, {{"sync", 1, 0}, 1}};
  for (const uint32_t overlap : {1u, 2u, 5u, steps}) {
    for (const size_t codec : {size_t{0}, size_t{1}}) {
      for (uint32_t fragments = overlap == steps ? 4 : 1; fragments * steps <= 500;
           fragments *= 2) {
        all.push_back({{"streaming", fragments, overlap}, codec});
      }
    }
  }
  all.push_back({{"eager", 1, 0}, 0});
  all.push_back({{"eager", 1, 0}, 1});
  return all;
}

// Would break: a mode taken that costs more in loss than another that is as good, or that does not
// reach what was asked for. From lines that need nothing to lines for which nothing is enough.
TEST(ModeChoice, ItIsTheFirstThatReachesWhatIsAskedFor) {
  const std::vector<LevelCodecs> codecs = Int8AndInt4();
  const std::map<uint32_t, std::vector<std::string>> right = {
      {25, {"sync", "streaming", "none"}}, {250, {"sync", "streaming", "eager", "none"}}};
  for (const auto& [steps, kinds_in_order] : right) {
    std::vector<std::string> kinds;
    for (double rate = 1e9; rate > 1e3; rate /= 1.3) {
      const absl::StatusOr<ModeOption> chosen = ChosenAt(rate, steps);
      const ModeOption* first = nullptr;
      std::vector<ModeOption> options;
      for (const ModePreference& one : ModesInOrder(steps)) {
        options.push_back(PredictMode(QuestionAt(rate, steps), one.shape, codecs[one.codec]));
      }
      for (const ModeOption& option : options) {
        if (first == nullptr && option.round.utilisation() >= kAsked) first = &option;
      }
      ASSERT_EQ(chosen.ok(), first != nullptr) << rate;
      const std::string kind = chosen.ok() ? chosen->shape.kind : "none";
      if (kinds.empty() || kinds.back() != kind) kinds.push_back(kind);
      if (!chosen.ok()) continue;
      EXPECT_EQ(ModeText(chosen->shape), ModeText(first->shape)) << rate;
      EXPECT_EQ(chosen->codec, first->codec) << rate;
      EXPECT_GE(chosen->round.utilisation(), kAsked) << rate;
    }
    EXPECT_EQ(kinds, kinds_in_order) << steps;
  }
}

// Would break: a run that is given a mode which its other settings exclude.
TEST(ModeChoice, WhatTheRunMayNotHaveIsPassedOver) {
  double rate = 1e9;
  while (ChosenAt(rate)->shape.kind == "sync") rate /= 1.3;
  ASSERT_EQ(ChosenAt(rate)->shape.kind, "streaming");
  const auto without = [&](const std::string& kind) {
    return ChooseMode(QuestionAt(rate), kAsked, Int8AndInt4(),
                      [&](const ModeShape& shape) { return shape.kind != kind; });
  };
  ASSERT_TRUE(without("streaming").ok());
  EXPECT_EQ(without("streaming")->shape.kind, "eager");
  EXPECT_EQ(without("eager")->shape.kind, "streaming");
}

// Would break: a line that fills whole rounds gets a mode that costs more in loss, or so few
// fragments that streaming costs as much.
TEST(ModeChoice, AnExchangeAsLongAsTheRoundIsHiddenByStreaming) {
  ModeOption longest;
  for (double rate = 1e9; rate > 1e3; rate /= 1.05) {
    const absl::StatusOr<ModeOption> chosen = ChosenAt(rate, 100);
    if (chosen.ok()) longest = *chosen;
  }
  EXPECT_EQ(longest.shape.kind, "streaming");
  EXPECT_EQ(longest.shape.overlap_steps, 100u);
  EXPECT_GE(longest.shape.fragments, 4u);
  EXPECT_GE(longest.round.utilisation(), kAsked);
}

// Would break: an overlap tried twice, or longer than the round.
TEST(ModeChoice, OverlapsEndWithTheRound) {
  const std::map<uint32_t, std::vector<uint32_t>> right = {
      {0, {}}, {1, {1}}, {2, {1, 2}}, {4, {1, 2, 4}}, {5, {1, 2, 5}}, {6, {1, 2, 5, 6}}};
  for (const auto& [steps, overlaps] : right) EXPECT_EQ(OverlapsToTry(steps), overlaps) << steps;
}

// Would break: a refusal that does not say what to do.
TEST(ModeChoice, ARefusalSaysWithHowManyStepsItWouldGo) {
  ModeQuestion question = QuestionAt(2e4);
  const auto any = [](const ModeShape&) { return true; };
  const absl::StatusOr<ModeOption> none = ChooseMode(question, kAsked, Int8AndInt4(), any);
  ASSERT_EQ(none.status().code(), absl::StatusCode::kFailedPrecondition);
  const std::string message(none.status().message());
  EXPECT_THAT(message, HasSubstr("no mode trains 95.0 % of the time by the plan: "));
  EXPECT_THAT(message, HasSubstr("instead of 25"));
  const std::string before = "[inner] steps = ";
  question.steps =
      static_cast<uint32_t>(std::stoul(message.substr(message.find(before) + before.size())));
  EXPECT_GT(question.steps, 25u);
  EXPECT_TRUE(ChooseMode(question, kAsked, Int8AndInt4(), any).ok()) << message;
  question.steps /= 2;
  EXPECT_FALSE(ChooseMode(question, kAsked, Int8AndInt4(), any).ok()) << "it says far too many";
}

// Would break: an operator who cannot see why the run has its mode.
TEST(ModeChoice, TheReasonNamesBothSharesAndWhatSyncWouldDo) {
  double rate = 1e9;
  while (ChosenAt(rate)->shape.kind == "sync") rate /= 1.3;
  const ModeOption chosen = *ChosenAt(rate);
  const ModeOption sync = PredictMode(QuestionAt(rate), {"sync", 1, 0}, Int8AndInt4().front());
  const std::string why = WhyMode(chosen, sync, kAsked);
  EXPECT_THAT(why, HasSubstr(ModeText(chosen.shape) + " with int"));
  EXPECT_THAT(why, HasSubstr("of 95.0 % asked for"));
  EXPECT_THAT(why, HasSubstr("; sync with int8 would train "));
  EXPECT_EQ(WhyMode(sync, sync, 0.5).find("; sync with"), std::string::npos);
}

}  // namespace
}  // namespace atolld
