#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/unit/worker/model/models.h"
#include "tests/unit/worker/training/fixtures.h"
#include "worker/base/manifest.h"
#include "worker/hub/hub_config.h"
#include "worker/model/architectures.h"
#include "worker/model/torch_edge.h"

namespace atolld {
namespace {

constexpr double kTolerance = 1e-5;  // relative, fp32 against fp64

std::map<std::string, std::vector<double>> ReadReferenceFile(const std::string& path) {
  std::map<std::string, std::vector<double>> reference;
  std::ifstream file(path);
  std::string name;
  size_t count = 0;
  while (file >> name >> count) {
    std::vector<double>& values = reference[name];
    values.resize(count);
    for (double& value : values) file >> value;
  }
  return reference;
}

// The largest difference, relative to the tensor's largest value.
double RelativeError(const at::Tensor& tensor, const std::vector<double>& reference) {
  const at::Tensor flat = tensor.detach().reshape({-1}).contiguous();
  EXPECT_EQ(flat.numel(), static_cast<int64_t>(reference.size()));
  double difference = 0, size = 0;
  for (size_t i = 0; i < reference.size(); ++i) {
    const double ours = static_cast<double>(flat.data_ptr<float>()[i]);
    difference = std::max(difference, std::abs(ours - reference[i]));
    size = std::max(size, std::abs(reference[i]));
  }
  return difference / size;
}

// The shapes of make_model_reference.py.
v1::ModelSpec ReferenceModelOf(const std::string& kind, bool tied) {
  v1::ModelSpec model = kind == "llama" ? TinyLlama() : TinyGpt2();
  model.set_context(8);
  model.set_vocabulary(16);
  model.set_hidden(12);
  model.set_norm_epsilon(1e-3);
  model.set_untied(!tied);
  return model;
}

void Compare(const std::string& kind, const std::string& path, bool tied) {
  const auto model = MakeModel(ReferenceModelOf(kind, tied));
  ASSERT_TRUE(model.ok()) << model.status();
  const v1::Manifest& manifest = (*model)->manifest();
  const auto elements = static_cast<int64_t>(manifest.elements());
  const at::Tensor flat = at::empty({elements}), gradient = at::zeros({elements});
  Lcg lcg;
  for (const v1::Tensor& tensor : manifest.tensors()) {
    const bool norm = tensor.shape_size() == 1 && !absl::EndsWith(tensor.name(), ".bias");
    for (uint64_t i = 0; i < TensorElements(tensor); ++i) {
      flat.data_ptr<float>()[tensor.offset() + i] =
          static_cast<float>((lcg.Next() / 16777216.0 - 0.5) * 0.5 + (norm ? 1.0 : 0.0));
    }
  }
  const at::Tensor rows = at::empty({3, 9}, at::kLong);
  for (int64_t i = 0; i < rows.numel(); ++i) rows.data_ptr<int64_t>()[i] = lcg.Next() % 16;

  const ModelParameters parameters = (*model)->BindTrainable(flat, gradient);
  const at::Tensor tokens = rows.narrow(1, 0, 8), targets = rows.narrow(1, 1, 8);
  const auto reference = ReadReferenceFile(path);
  const std::string prefix = tied ? "tied/" : "untied/";
  ASSERT_EQ(reference.count(prefix + "loss"), 1u);
  const at::Tensor logits = (*model)->Logits(parameters, tokens, 0);
  EXPECT_LT(RelativeError(logits, reference.at(prefix + "logits")), kTolerance);
  const at::Tensor loss = (*model)->Loss(parameters, tokens, targets, 0);
  EXPECT_LT(RelativeError(loss, reference.at(prefix + "loss")), kTolerance);
  loss.backward();
  for (const v1::Tensor& tensor : manifest.tensors()) {
    const at::Tensor ours = gradient.narrow(0, static_cast<int64_t>(tensor.offset()),
                                            static_cast<int64_t>(TensorElements(tensor)));
    ASSERT_EQ(reference.count(prefix + tensor.name()), 1u) << tensor.name();
    EXPECT_LT(RelativeError(ours, reference.at(prefix + tensor.name())), kTolerance)
        << tensor.name();
  }
}

// Broken: what is trained would not be GPT-2, and what is exported would compute something else.
TEST(ModelTest, Gpt2AgreesWithTheReference) {
  for (const bool tied : {true, false}) Compare("gpt2", ATOLL_GPT2_REFERENCE, tied);
}

// Broken: what is trained would not be Llama, and what is exported would compute something else.
TEST(ModelTest, LlamaAgreesWithTheReference) {
  for (const bool tied : {true, false}) Compare("llama", ATOLL_LLAMA_REFERENCE, tied);
}

// One model of decoder_reference.txt or mixture_reference.txt: what transformers says of it, by
// name.
struct DecoderCase {
  std::string name, config;
  std::map<std::string, std::vector<double>> values;
};

std::vector<DecoderCase> ReadDecoderCases(const std::string& path) {
  std::vector<DecoderCase> cases;
  std::ifstream file(path);
  std::string word;
  while (file >> word) {
    if (word == "case") {
      cases.emplace_back();
      file >> cases.back().name >> cases.back().config;
      continue;
    }
    size_t count = 0;
    file >> count;
    std::vector<double>& values = cases.back().values[word];
    values.resize(count);
    for (double& value : values) file >> value;
  }
  return cases;
}

// Of make_decoder_reference.py: the length, the product with sin(0), sin(1), ..., three values.
void ExpectSummary(const at::Tensor& tensor, const DecoderCase& one, const std::string& name) {
  ASSERT_EQ(one.values.count(name), 1u) << one.name << " " << name;
  const at::Tensor flat = tensor.detach().to(at::kDouble).reshape({-1}).contiguous();
  const double* const at = flat.data_ptr<double>();
  const auto count = static_cast<size_t>(flat.numel());
  double squares = 0, product = 0, largest = 0;
  for (size_t i = 0; i < count; ++i) {
    squares += at[i] * at[i];
    product += at[i] * std::sin(static_cast<double>(i));
    largest = std::max(largest, std::abs(at[i]));
  }
  const double length = std::sqrt(squares);
  const double ours[] = {length, product, at[0], at[count / 2], at[count - 1]};
  const double sizes[] = {length, length, largest, largest, largest};
  const std::vector<double>& theirs = one.values.at(name);
  ASSERT_EQ(theirs.size(), 5u);
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_LE(std::abs(ours[i] - theirs[i]), kTolerance * sizes[i])
        << one.name << " " << name << " " << i;
  }
}

void ExpectWhatTransformersComputes(const std::string& path, size_t models) {
  const std::vector<DecoderCase> cases = ReadDecoderCases(path);
  ASSERT_EQ(cases.size(), models);
  for (const DecoderCase& one : cases) {
    const auto spec = ParseHubConfig(one.config);
    ASSERT_TRUE(spec.ok()) << one.name << ": " << spec.status();
    const bool gemma = absl::StartsWith(spec->decoder().family(), "gemma");
    const auto model = MakeModel(*spec);
    ASSERT_TRUE(model.ok()) << one.name << ": " << model.status();
    const v1::Manifest& manifest = (*model)->manifest();
    const auto elements = static_cast<int64_t>(manifest.elements());
    const at::Tensor flat = at::empty({elements}), gradient = at::zeros({elements});
    for (const v1::Tensor& tensor : manifest.tensors()) {
      Lcg lcg(tensor.name());
      const bool norm = tensor.shape_size() == 1 && !absl::EndsWith(tensor.name(), ".bias");
      for (uint64_t i = 0; i < TensorElements(tensor); ++i) {
        flat.data_ptr<float>()[tensor.offset() + i] = static_cast<float>(
            (lcg.Next() / 16777216.0 - 0.5) * 0.5 + (norm && !gemma ? 1.0 : 0.0));
      }
    }
    Lcg lcg("tokens");
    const at::Tensor rows = at::empty({2, 25}, at::kLong);
    for (int64_t i = 0; i < rows.numel(); ++i) {
      rows.data_ptr<int64_t>()[i] = lcg.Next() % spec->vocabulary();
    }
    const ModelParameters parameters = (*model)->BindTrainable(flat, gradient);
    const at::Tensor tokens = rows.narrow(1, 0, 24), targets = rows.narrow(1, 1, 24);
    const at::Tensor logits = (*model)->Logits(parameters, tokens, 0);
    ExpectSummary(logits, one, "logits");
    EXPECT_LT(RelativeError(logits[logits.size(0) - 1], one.values.at("last")), kTolerance)
        << one.name;
    const at::Tensor loss = (*model)->Loss(parameters, tokens, targets, 0);
    EXPECT_LT(RelativeError(loss, one.values.at("loss")), kTolerance) << one.name;
    loss.backward();
    EXPECT_EQ(one.values.size(), 3u + static_cast<size_t>(manifest.tensors_size())) << one.name;
    for (const v1::Tensor& tensor : manifest.tensors()) {
      ExpectSummary(gradient.narrow(0, static_cast<int64_t>(tensor.offset()),
                                    static_cast<int64_t>(TensorElements(tensor))),
                    one, tensor.name());
    }
  }
}

// Broken: a model of Hugging Face would be read as another one, and train to nonsense.
TEST(ModelTest, EveryDecoderComputesWhatTransformersDoes) {
  ExpectWhatTransformersComputes(ATOLL_DECODER_REFERENCE, 18);
}

// Broken: tokens would go to other experts than in the model that was imported, or their router
// would be trained to another balance.
TEST(ModelTest, EveryMixtureComputesWhatTransformersDoes) {
  ExpectWhatTransformersComputes(ATOLL_MIXTURE_REFERENCE, 6);
}

// Broken: a Gemma would begin with norms of twice what is neutral.
TEST(ModelTest, AGemmasNormsBeginAtZero) {
  for (const v1::ModelSpec& spec : TinyDecoders()) {
    const auto model = MakeModel(spec);
    ASSERT_TRUE(model.ok()) << model.status();
    const at::Tensor flat = at::empty({static_cast<int64_t>((*model)->manifest().elements())});
    (*model)->Initialise(flat, 1);
    const double expected = absl::StartsWith(spec.decoder().family(), "gemma") ? 0 : 1;
    const ModelParameters bound = (*model)->Bind(flat);
    for (size_t i = 0; i < bound.size(); ++i) {
      const std::string& name = (*model)->manifest().tensors(static_cast<int>(i)).name();
      if (bound[i].dim() != 1 || absl::EndsWith(name, ".bias")) continue;
      EXPECT_TRUE(at::equal(bound[i], at::full_like(bound[i], expected))) << name;
    }
    const at::Tensor tokens = at::arange(16, at::kLong).view({1, 16});
    const at::Tensor targets = (tokens * 7 + 3) % 256;
    EXPECT_NEAR((*model)->Loss(bound, tokens, targets, 0).item<double>(), std::log(256.0), 0.1)
        << spec.decoder().family();
  }
}

// Broken: a position could see what comes after it, and the loss would be too good to be true.
TEST(ModelTest, LogitsDoNotDependOnLaterTokens) {
  std::vector<v1::ModelSpec> specs = TinyDecoders();
  specs.push_back(TinyGpt2());
  specs.push_back(TinyLlama());
  for (const v1::ModelSpec& spec : specs) {
    const auto model = MakeModel(spec);
    ASSERT_TRUE(model.ok()) << model.status();
    const at::Tensor flat = at::empty({static_cast<int64_t>((*model)->manifest().elements())});
    (*model)->Initialise(flat, 1);
    const ModelParameters parameters = (*model)->Bind(flat);
    const at::Tensor tokens = at::arange(8, at::kLong).view({1, 8});
    at::Tensor changed = tokens.clone();
    changed.data_ptr<int64_t>()[5] = 15;
    const at::Tensor a = (*model)->Logits(parameters, tokens, 0);
    const at::Tensor b = (*model)->Logits(parameters, changed, 0);
    // Of a mixture, other tokens share an expert's products then, which round in another way.
    if (spec.decoder().experts() != 0) {
      EXPECT_TRUE(at::allclose(a.narrow(0, 0, 5), b.narrow(0, 0, 5), 1e-4, 1e-7));
    } else {
      EXPECT_TRUE(at::equal(a.narrow(0, 0, 5), b.narrow(0, 0, 5)));
    }
    EXPECT_FALSE(at::equal(a.narrow(0, 5, 3), b.narrow(0, 5, 3)));
  }
}

// Broken: a run would begin far from ln(vocabulary), or with biases and norms that are not neutral.
TEST(ModelTest, InitialParametersAreNeutral) {
  for (const v1::ModelSpec& spec : {TinyGpt2(), TinyLlama()}) {
    const auto model = MakeModel(spec);
    ASSERT_TRUE(model.ok()) << model.status();
    const at::Tensor flat = at::empty({static_cast<int64_t>((*model)->manifest().elements())});
    (*model)->Initialise(flat, 1);
    const ModelParameters parameters = (*model)->Bind(flat);
    for (size_t i = 0; i < parameters.size(); ++i) {
      const std::string& name = (*model)->manifest().tensors(static_cast<int>(i)).name();
      if (parameters[i].dim() != 1) continue;
      const double expected = absl::EndsWith(name, ".bias") ? 0 : 1;
      EXPECT_TRUE(at::equal(parameters[i], at::full_like(parameters[i], expected))) << name;
    }
    const at::Tensor tokens = at::arange(16, at::kLong).view({1, 16});
    const at::Tensor targets = (tokens * 7 + 3) % 256;
    const double loss = (*model)->Loss(parameters, tokens, targets, 0).item<double>();
    EXPECT_NEAR(loss, std::log(256.0), 0.1) << spec.kind();
  }
}

// Broken: a user would read where in libtorch's source it gave up, and not what is wrong.
TEST(TorchEdgeTest, ErrorsQuoteNoSource) {
  EXPECT_EQ(
      WithoutTorchSource("[enforce fail at inline_container.cc:197] . the archive ends early"),
      "the archive ends early");
  EXPECT_EQ(WithoutTorchSource("shape [2]\nException raised from x at ../a.cpp:3"), "shape [2]");
  EXPECT_EQ(WithoutTorchSource("[enforce fail at x.cc:1] . "), "libtorch refuses it");
  EXPECT_EQ(WithoutTorchSource("plain"), "plain");
}

}  // namespace
}  // namespace atolld
