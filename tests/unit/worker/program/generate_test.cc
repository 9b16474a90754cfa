#include "worker/program/generate.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/worker/training/fixtures.h"
#include "worker/base/manifest.h"

namespace atolld {
namespace {

// Broken: sampled text would not follow the model's distribution, its temperature or its top-k.
TEST(GenerateTest, SamplesTheSoftmax) {
  const std::vector<float> logits = {0.0f, 1.0986123f, 0.6931472f};  // 1 : 3 : 2
  EXPECT_EQ(SampleIndex(logits, 1.0, 0, 0.0), 1u);
  EXPECT_EQ(SampleIndex(logits, 1.0, 0, 0.49), 1u);
  EXPECT_EQ(SampleIndex(logits, 1.0, 0, 0.51), 2u);
  EXPECT_EQ(SampleIndex(logits, 1.0, 0, 0.82), 2u);
  EXPECT_EQ(SampleIndex(logits, 1.0, 0, 0.84), 0u);
  EXPECT_EQ(SampleIndex(logits, 1.0, 2, 0.59), 1u);  // 3 : 2
  EXPECT_EQ(SampleIndex(logits, 1.0, 2, 0.99), 2u);
  EXPECT_EQ(SampleIndex(logits, 0.5, 0, 0.63), 1u);  // 9 : 4 : 1
  EXPECT_EQ(SampleIndex(logits, 0.5, 0, 0.65), 2u);
  EXPECT_EQ(SampleIndex(logits, 0.0, 0, 0.99), 1u);
}

// Broken: unlikely tokens would be sampled that top-p is there to leave out, or likely ones left
// out.
TEST(GenerateTest, TopPKeepsTheFewestThatMakeUpTheShare) {
  const std::vector<float> logits = {0.0f, 1.0986123f, 0.6931472f};  // 1 : 3 : 2
  EXPECT_EQ(SampleIndex(logits, 1.0, 0, 0.99, 1.0), 0u);
  EXPECT_EQ(SampleIndex(logits, 1.0, 0, 0.99, 0.9), 0u);
  EXPECT_EQ(SampleIndex(logits, 1.0, 0, 0.99, 0.8), 2u);  // 3 : 2 make up 5/6
  EXPECT_EQ(SampleIndex(logits, 1.0, 0, 0.59, 0.8), 1u);
  EXPECT_EQ(SampleIndex(logits, 1.0, 0, 0.61, 0.8), 2u);
  EXPECT_EQ(SampleIndex(logits, 1.0, 0, 0.99, 0.45), 1u);  // 3 alone makes up 1/2
  EXPECT_EQ(SampleIndex(logits, 1.0, 0, 0.99, 0.0), 1u);
  EXPECT_EQ(SampleIndex(logits, 1.0, 2, 0.99, 0.55), 1u);  // of 3 : 2, 3/5
}

// Broken: text could not be made again from its seed, or would stop at the end of the context.
TEST(GenerateTest, IsAFunctionOfTheSeedAndPassesTheContext) {
  const v1::ModelSpec model = TinySpec().model();
  std::vector<float> parameters(MakeManifest(model)->elements());
  for (size_t i = 0; i < parameters.size(); ++i) {
    parameters[i] = static_cast<float>((i * 2654435761u) % 1000) * 1e-3f - 0.5f;
  }
  const auto text = [&](uint64_t seed, uint64_t tokens) {
    GenerateOptions options;
    options.prompt = "sea";
    options.seed = seed;
    options.tokens = tokens;
    std::string out;
    const absl::Status status =
        Generate(model, parameters, *MakeByteTokenizer(), options, [&](uint32_t token) {
          out += static_cast<char>(token);
          return out.size() < 30;
        });
    EXPECT_TRUE(status.ok()) << status;
    return out;
  };
  EXPECT_EQ(text(1, 25).size(), 25u);
  EXPECT_EQ(text(1, 100).size(), 30u);
  EXPECT_EQ(text(1, 25), text(1, 25));
  EXPECT_NE(text(1, 25), text(2, 25));
}

// Broken: parameters of another model would be read past their end.
TEST(GenerateTest, RefusesWhatDoesNotFit) {
  const std::vector<float> parameters(7);
  const auto sink = [](uint32_t) { return true; };
  const auto bytes = MakeByteTokenizer();
  EXPECT_TRUE(absl::IsInvalidArgument(Generate(TinySpec().model(), parameters, *bytes, {}, sink)));
  v1::ModelSpec small = TinySpec().model();
  small.set_vocabulary(100);
  const std::vector<float> enough(MakeManifest(small)->elements());
  EXPECT_EQ(Generate(small, enough, *bytes, {}, sink).message(),
            "generate: the model's vocabulary has 100 tokens, the tokenizer's 256");
}

}  // namespace

namespace {

struct Shown {
  std::string text;   // all that was shown
  std::string early;  // what was shown before the last byte was taken
  bool done;
};

Shown Feed(const std::string& text, const std::vector<std::string>& stops) {
  StopStrings filter(stops);
  Shown shown;
  for (const char byte : text) {
    shown.early = shown.text;
    shown.text += filter.Take(static_cast<uint8_t>(byte));
    if (filter.done()) break;
  }
  shown.text += filter.Rest();
  shown.done = filter.done();
  return shown;
}

// Broken: a text would go on after its end, show the stop or a part of it, or lose bytes that only
// looked like one.
TEST(StopStringsTest, TheTextEndsBeforeTheFirstStop) {
  EXPECT_EQ(Feed("one END two", {"END"}).text, "one ");
  EXPECT_TRUE(Feed("one END two", {"END"}).done);
  EXPECT_EQ(Feed("one EN two", {"END"}).text, "one EN two");
  EXPECT_EQ(Feed("one EEND", {"END"}).text, "one E");
  EXPECT_EQ(Feed("ababac!", {"abac"}).text, "ab");
  EXPECT_EQ(Feed("a;b\nc", {"\n", ";"}).text, "a");
  EXPECT_EQ(Feed("x\n\ny", {"\n\n", "END"}).text, "x");
  EXPECT_EQ(Feed("one EN", {"END"}).text, "one EN");
  EXPECT_FALSE(Feed("one EN", {"END"}).done);
  EXPECT_EQ(Feed("anything", {}).text, "anything");
  EXPECT_EQ(Feed("anything", {""}).text, "anything");
}

// Broken: text would come only at its end, or a stop be on the screen before it is known as one.
TEST(StopStringsTest, WhatCannotBeAStopIsShownAtOnce) {
  EXPECT_EQ(Feed("abc", {"END"}).early, "ab");
  EXPECT_EQ(Feed("abEN", {"END"}).early, "ab");
  EXPECT_EQ(Feed("abENx", {"END"}).early, "ab");
}

}  // namespace

}  // namespace atolld
