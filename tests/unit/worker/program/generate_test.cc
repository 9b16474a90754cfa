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
}  // namespace atolld
