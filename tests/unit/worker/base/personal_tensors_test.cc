#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/worker/training/fixtures.h"
#include "worker/base/manifest.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

std::string PersonalError(v1::ModelSpec model, const std::vector<std::string>& patterns) {
  for (const std::string& pattern : patterns) model.add_local(pattern);
  return std::string(MakeManifest(model).status().message());
}

// Broken: a pattern would keep other tensors at home than its author meant.
TEST(PersonalTensorsTest, AStarStandsForAnyCharacters) {
  for (const char* pattern : {"lm_head.weight", "lm_head.*", "*", "*head*", "l*.w*t", "**t"}) {
    EXPECT_TRUE(MatchesPattern(pattern, "lm_head.weight")) << pattern;
  }
  for (const char* pattern : {"", "lm_head", "*.bias", "lm_head.weight.*", "head*", "l*.w*q"}) {
    EXPECT_FALSE(MatchesPattern(pattern, "lm_head.weight")) << pattern;
  }
}

// Broken: what stays at home would be exchanged, or what is exchanged would not be the first part
// of the vector.
TEST(PersonalTensorsTest, PersonalTensorsLieBehindTheSharedOnes) {
  v1::ModelSpec model = TinySpec().model();
  const v1::Manifest plain = *MakeManifest(model);
  model.add_local("transformer.h.0.*");
  const v1::Manifest whole = *MakeManifest(model);
  const v1::Manifest shared = SharedPart(whole, PersonalPatterns(model));
  const v1::Manifest personal = PersonalPart(whole, PersonalPatterns(model));
  EXPECT_EQ(whole.elements(), plain.elements());
  EXPECT_EQ(shared.elements() + personal.elements(), plain.elements());
  EXPECT_EQ(personal.tensors_size(), 6);
  uint64_t offset = 0;
  for (const v1::Manifest* part : {&shared, &personal}) {
    for (const v1::Tensor& tensor : part->tensors()) {
      EXPECT_EQ(tensor.offset(), offset) << tensor.name();
      EXPECT_EQ(tensor.name().rfind("transformer.h.0.", 0) == 0, part == &personal);
      offset += TensorElements(tensor);
    }
  }
  for (int i = 0; i < plain.tensors_size(); ++i) {
    EXPECT_EQ(whole.tensors(i).name(), plain.tensors(i).name());
  }
}

// Broken: a misspelt pattern would share what was to stay at home; or nothing would be exchanged;
// or half of a tied tensor.
TEST(PersonalTensorsTest, NamesWhatIsWrong) {
  const v1::ModelSpec tied = TinySpec().model();
  EXPECT_THAT(PersonalError(tied, {"transformer.ln_g.*"}),
              HasSubstr("matches no tensor of the model; the nearest is transformer.ln_f.weight"));
  EXPECT_THAT(PersonalError(tied, {"*"}), HasSubstr("matches every tensor"));
  for (const char* half : {"lm_head.*", "transformer.wte.*"}) {
    EXPECT_THAT(PersonalError(tied, {half}), HasSubstr("which are one tensor here")) << half;
  }
  EXPECT_EQ(PersonalError(tied, {"lm_head.*", "transformer.wte.*"}), "");
}

// Broken: a pattern would be matched against the base beneath adapters, which nobody trains.
TEST(PersonalTensorsTest, OfAdaptersTheirOwnNamesCount) {
  v1::ModelSpec model = TinySpec().model();
  model.set_lora_rank(2);
  model.set_lora_alpha(4);
  model.set_base_digest(std::string(32, 'x'));
  model.add_lora_targets("c_attn");
  EXPECT_THAT(PersonalError(model, {"transformer.ln_f.*"}), HasSubstr("matches no tensor"));
  model.add_local("*.lora_A.weight");
  const auto whole = MakeManifest(model);
  ASSERT_TRUE(whole.ok()) << whole.status();
  const v1::Manifest shared = SharedPart(*whole, PersonalPatterns(model));
  EXPECT_EQ(shared.tensors_size(), 2);
  for (const v1::Tensor& tensor : shared.tensors()) {
    EXPECT_THAT(tensor.name(), HasSubstr(".lora_B."));
  }
  EXPECT_EQ(PersonalPart(*whole, PersonalPatterns(model)).elements(), 2u * 2 * 16);
}

}  // namespace
}  // namespace atolld
