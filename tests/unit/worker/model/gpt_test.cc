#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/unit/worker/model/models.h"
#include "tests/unit/worker/training/fixtures.h"
#include "worker/base/manifest.h"
#include "worker/model/architectures.h"

namespace atolld {
namespace {

std::map<std::string, std::vector<float>> ReadReference() {
  std::map<std::string, std::vector<float>> reference;
  std::ifstream file(ATOLL_GPT_REFERENCE);
  std::string name;
  size_t count = 0;
  while (file >> name >> count) {
    std::vector<float>& values = reference[name];
    values.resize(count);
    for (float& value : values) file >> value;
  }
  return reference;
}

double LargestDifference(const at::Tensor& tensor, const std::vector<float>& reference) {
  const at::Tensor flat = tensor.detach().reshape({-1}).contiguous();
  EXPECT_EQ(flat.numel(), static_cast<int64_t>(reference.size()));
  double largest = 0;
  for (size_t i = 0; i < reference.size(); ++i) {
    const double difference =
        std::abs(static_cast<double>(flat.data_ptr<float>()[i] - reference[i]));
    largest = std::max(largest, difference);
  }
  return largest;
}

v1::ModelSpec ReferenceModel() {
  v1::ModelSpec model = TinySpec().model();
  model.set_width(8);
  model.set_context(8);
  model.set_vocabulary(16);
  return model;
}

// Broken: the model would not be nanoGPT's: other losses, and exports that compute something else
// elsewhere.
TEST(GptTest, ForwardAndBackwardAgreeWithPyTorch) {
  const v1::ModelSpec model = ReferenceModel();
  const auto manifest = MakeManifest(model);
  ASSERT_TRUE(manifest.ok());
  const auto elements = static_cast<int64_t>(manifest->elements());
  const at::Tensor flat = at::empty({elements}), gradient = at::zeros({elements});
  Lcg lcg;
  for (const v1::Tensor& tensor : manifest->tensors()) {
    for (uint64_t i = 0; i < TensorElements(tensor); ++i) {
      flat.data_ptr<float>()[tensor.offset() + i] = static_cast<float>(
          (lcg.Next() / 16777216.0 - 0.5) * 0.5 + (tensor.shape_size() == 1 ? 1.0 : 0.0));
    }
  }
  const at::Tensor rows = at::empty({3, 9}, at::kLong);
  for (int64_t i = 0; i < rows.numel(); ++i) rows.data_ptr<int64_t>()[i] = lcg.Next() % 16;

  const std::unique_ptr<Model> made = *MakeModel(model);
  const Model& gpt = *made;
  const ModelParameters parameters = gpt.BindTrainable(flat, gradient);
  const at::Tensor tokens = rows.narrow(1, 0, 8), targets = rows.narrow(1, 1, 8);
  const auto reference = ReadReference();
  EXPECT_LT(LargestDifference(gpt.Logits(parameters, tokens, 0), reference.at("logits")), 2e-6);
  const at::Tensor loss = gpt.Loss(parameters, tokens, targets, 0);
  EXPECT_LT(LargestDifference(loss, reference.at("loss")), 1e-6);
  loss.backward();
  EXPECT_LT(LargestDifference(gradient, reference.at("gradient")), 1e-6);
}

// Broken: a position could see what comes after it, and the loss would be too good to be true.
TEST(GptTest, LogitsDoNotDependOnLaterTokens) {
  const v1::ModelSpec model = ReferenceModel();
  const auto manifest = MakeManifest(model);
  const std::unique_ptr<Model> made = *MakeModel(model);
  const Model& gpt = *made;
  const at::Tensor flat = at::empty({static_cast<int64_t>(manifest->elements())});
  gpt.Initialise(flat, 1);
  const ModelParameters parameters = gpt.Bind(flat);
  const at::Tensor tokens = at::arange(8, at::kLong).view({1, 8});
  at::Tensor changed = tokens.clone();
  changed.data_ptr<int64_t>()[5] = 15;
  const at::Tensor a = gpt.Logits(parameters, tokens, 0), b = gpt.Logits(parameters, changed, 0);
  EXPECT_TRUE(at::equal(a.narrow(0, 0, 5), b.narrow(0, 0, 5)));
  EXPECT_FALSE(at::equal(a.narrow(0, 5, 3), b.narrow(0, 5, 3)));
}

// Broken: training would start from another distribution than GPT-2's, or differ from start to
// start.
TEST(GptTest, InitialParametersAreAFunctionOfTheSeed) {
  v1::ModelSpec model = TinySpec().model();
  model.set_width(64);
  const auto manifest = MakeManifest(model);
  const std::unique_ptr<Model> made = *MakeModel(model);
  const Model& gpt = *made;
  const at::Tensor a = at::empty({static_cast<int64_t>(manifest->elements())});
  const at::Tensor b = at::empty_like(a), c = at::empty_like(a);
  gpt.Initialise(a, 1);
  gpt.Initialise(b, 1);
  gpt.Initialise(c, 2);
  EXPECT_TRUE(at::equal(a, b));
  EXPECT_FALSE(at::equal(a, c));
  const ModelParameters parameters = gpt.Bind(a);
  EXPECT_NEAR(parameters[0].std().item<double>(), 0.02, 0.001);
  EXPECT_NEAR(parameters[2 + 2].std().item<double>(), 0.01, 0.001);
  EXPECT_NEAR(parameters[8 + 5].std().item<double>(), 0.01, 0.001);
  EXPECT_TRUE(at::equal(parameters.back(), at::ones({64})));
}

// Broken: dropout would be off while training, or on while evaluating.
TEST(GptTest, DropoutActsOnlyWhenAskedFor) {
  const v1::ModelSpec model = TinySpec().model();
  const auto manifest = MakeManifest(model);
  const std::unique_ptr<Model> made = *MakeModel(model);
  const Model& gpt = *made;
  const at::Tensor flat = at::empty({static_cast<int64_t>(manifest->elements())});
  gpt.Initialise(flat, 1);
  const ModelParameters parameters = gpt.Bind(flat);
  const at::Tensor tokens = at::arange(16, at::kLong).view({1, 16});
  const at::Tensor plain = gpt.Logits(parameters, tokens, 0);
  EXPECT_TRUE(at::equal(plain, gpt.Logits(parameters, tokens, 0)));
  at::manual_seed(1);
  const at::Tensor dropped = gpt.Logits(parameters, tokens, 0.5);
  EXPECT_FALSE(at::equal(plain, dropped));
  at::manual_seed(1);
  EXPECT_TRUE(at::equal(dropped, gpt.Logits(parameters, tokens, 0.5)));
}

}  // namespace
}  // namespace atolld
