#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/script.h>

#include <algorithm>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/unit/worker/training/fixtures.h"
#include "tests/unit/worker/training/npy.h"
#include "worker/base/file_io.h"
#include "worker/program/workload.h"
#include "worker/torchscript/torchscript_trainer.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

// y = 2a - b + 1 of 100 rows, learned by a linear model with a frozen scale and a buffer.
constexpr char kSquares[] = R"(
def forward(self, x, y):
    guess = torch.matmul(x, self.weight) * self.scale + self.bias
    if self.training:
        self.seen.add_(1)
    return torch.mean((guess - y) ** 2)
)";

class TorchScriptTest : public ::testing::Test {
 protected:
  TorchScriptTest() {
    std::vector<float> x, y;
    for (int i = 0; i < 100; ++i) {
      x.push_back(static_cast<float>(i % 7) / 7);
      x.push_back(static_cast<float>(i % 11) / 11);
      y.push_back(2 * x[x.size() - 2] - x.back() + 1);
    }
    std::filesystem::create_directory(folder_ / "data");
    Write("data/x.npy", Npy<float>("<f4", "100, 2", x));
    Write("data/y.npy", Npy<float>("<f4", "100,", y));
  }

  void Write(const std::string& name, const std::string& bytes) {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
  }

  // A file of this forward, and the run that trains it.
  v1::RunSpec SpecOf(const std::string& forward, at::ScalarType type = at::kFloat) {
    torch::jit::Module module("Tiny");
    module.register_parameter("weight", torch::zeros({2}, type), /*is_buffer=*/false);
    module.register_parameter("bias", torch::full({1}, 0.5, type), /*is_buffer=*/false);
    module.register_parameter("scale", torch::ones({1}), /*is_buffer=*/false);
    module.attr("weight").toTensor().set_requires_grad(true);
    module.attr("bias").toTensor().set_requires_grad(true);
    module.register_buffer("seen", torch::zeros({1}));
    module.register_attribute("training", c10::BoolType::get(), true);
    module.define(forward);
    module.save(folder_ / "model.pt");
    return SpecOfFile();
  }

  v1::RunSpec SpecOfFile() {
    v1::RunSpec spec = TinySpec();
    spec.mutable_model()->Clear();
    spec.mutable_model()->set_kind("torchscript");
    spec.mutable_model()->set_context(1);
    spec.mutable_model()->set_file(folder_ / "model.pt");
    Sha256Stream sha;
    sha.Add(*ReadWholeFile(folder_ / "model.pt"));
    spec.mutable_model()->set_file_digest(sha.Finish());
    spec.mutable_inner()->set_learning_rate(0.1);
    spec.mutable_inner()->set_min_learning_rate(0.1);
    spec.mutable_inner()->set_weight_decay(0);
    return spec;
  }

  absl::StatusOr<std::unique_ptr<Trainer>> Make(const v1::RunSpec& spec) {
    auto arrays = Arrays::Open(folder_ / "data", 0.2);
    EXPECT_TRUE(arrays.ok()) << arrays.status();
    auto corpus = ArrayCorpus::Make(spec, *std::move(arrays));
    EXPECT_TRUE(corpus.ok()) << corpus.status();
    return MakeTorchScriptTrainer(spec, *std::move(corpus));
  }

  std::string ErrorOf(const v1::RunSpec& spec) {
    const auto trainer = Make(spec);
    return absl::StrReplaceAll(trainer.status().message(), {{folder_.path(), "DIR"}});
  }

  static std::vector<uint64_t> Samples(uint64_t step) {
    std::vector<uint64_t> samples(4);
    std::iota(samples.begin(), samples.end(), step * 4);
    return samples;
  }

  static double LossOf(Trainer& trainer, absl::Span<const float> theta) {
    return trainer.Evaluate(theta, 0, 1, nullptr)->loss_sum / 20;
  }

  const TemporaryFolder folder_;
};

// Broken: a TorchScript file would not be trained, or something else in it than what it says.
TEST_F(TorchScriptTest, LearnsWhatTheFileSays) {
  const auto made = Make(SpecOf(kSquares));
  ASSERT_TRUE(made.ok()) << made.status();
  Trainer& trainer = **made;
  ASSERT_EQ(trainer.manifest().tensors_size(), 2);  // neither what is frozen nor the buffer
  EXPECT_EQ(trainer.manifest().tensors(0).name(), "weight");
  EXPECT_EQ(trainer.manifest().tensors(1).name(), "bias");
  EXPECT_EQ(trainer.manifest().tensors(1).offset(), 2u);
  EXPECT_EQ(trainer.manifest().elements(), 3u);
  ASSERT_TRUE(trainer.Initialise().ok());
  EXPECT_EQ(trainer.parameters()[2], 0.5f);
  EXPECT_GT(LossOf(trainer, trainer.parameters()), 0.3);
  for (uint64_t step = 0; step < 300; ++step) {
    const auto loss = trainer.Step(step, Samples(step));
    ASSERT_TRUE(loss.ok()) << loss.status();
  }
  EXPECT_NEAR(trainer.parameters()[0], 2, 0.05);
  EXPECT_NEAR(trainer.parameters()[1], -1, 0.05);
  EXPECT_NEAR(trainer.parameters()[2], 1, 0.05);
  EXPECT_LT(LossOf(trainer, trainer.parameters()), 0.001);
}

// Broken: what a rebase writes into the flat vector would not be what the model trains on.
TEST_F(TorchScriptTest, ParametersAreTheFlatVector) {
  const auto made = Make(SpecOf(kSquares));
  ASSERT_TRUE(made.ok()) << made.status();
  Trainer& trainer = **made;
  const std::vector<float> right = {2, -1, 1}, other = {0, 0, 0};
  std::copy(right.begin(), right.end(), trainer.parameters().begin());
  EXPECT_LT(*trainer.Step(0, Samples(0)), 1e-9);
  EXPECT_NEAR(trainer.gradient()[0], 0, 1e-5);
  // And evaluation is of what it is given, and leaves the worker's own as they were.
  std::copy(right.begin(), right.end(), trainer.parameters().begin());
  EXPECT_GT(LossOf(trainer, other), 0.3);
  EXPECT_EQ(trainer.parameters()[0], 2.0f);
  EXPECT_LT(*trainer.Step(1, Samples(1)), 1e-9);
}

// Broken: peers that evaluate shares would report another loss than one that evaluates all.
TEST_F(TorchScriptTest, SharesSumToTheWhole) {
  const auto made = Make(SpecOf(kSquares));
  ASSERT_TRUE(made.ok()) << made.status();
  const std::vector<float> theta = {1, 2, 3};
  const auto whole = (*made)->Evaluate(theta, 0, 1, nullptr);
  EvaluationSum parts;
  for (uint32_t share = 0; share < 3; ++share) {
    const auto part = (*made)->Evaluate(theta, share, 3, nullptr);
    parts.loss_sum += part->loss_sum;
    parts.tokens += part->tokens;
  }
  EXPECT_EQ(whole->tokens, 20u);
  EXPECT_EQ(parts.tokens, 20u);
  EXPECT_NEAR(parts.loss_sum, whole->loss_sum, 1e-4);
  EXPECT_TRUE(absl::IsCancelled((*made)->Evaluate(theta, 0, 1, [] { return true; }).status()));
}

// Broken: buffers would drift apart between peers, since nobody averages them.
TEST_F(TorchScriptTest, BuffersStayAsInTheFile) {
  const std::string forward = R"(
def forward(self, x, y):
    loss = torch.mean(x) * torch.sum(self.weight) + torch.sum(self.bias) + self.seen[0]
    if self.training:
        self.seen.add_(100)
    return loss
)";
  const auto made = Make(SpecOf(forward));
  ASSERT_TRUE(made.ok()) << made.status();
  ASSERT_TRUE((*made)->Initialise().ok());
  for (uint64_t step = 0; step < 3; ++step) EXPECT_LT(*(*made)->Step(step, Samples(step)), 10);
  EXPECT_LT(LossOf(**made, (*made)->parameters()), 10);
}

// Broken: a file that cannot be trained would end a worker with pages of somebody else's words.
TEST_F(TorchScriptTest, SaysInOneLineWhatCannotBeTrained) {
  const auto returning = [](const std::string& arguments, const std::string& value) {
    return absl::StrCat("\ndef forward(self, ", arguments, "):\n    return ", value, "\n");
  };
  EXPECT_EQ(ErrorOf(SpecOf(returning("x, y", "torch.matmul(x, self.weight)"))),
            "model: DIR/model.pt: forward gives a tensor of Float [4]; it must be a scalar loss");
  EXPECT_EQ(ErrorOf(SpecOf(returning("x, y", "torch.mean(x)"))),
            "model: DIR/model.pt: forward's loss depends on no parameter that needs a gradient");
  EXPECT_EQ(ErrorOf(SpecOf(returning("x", "torch.sum(self.weight)"))), "");  // found by its name
  EXPECT_EQ(ErrorOf(SpecOf(returning("p, q", "torch.mean(self.weight) * torch.mean(q)"))), "");
  EXPECT_EQ(ErrorOf(SpecOf(returning("p, q, r", "torch.mean(p)"))),
            "model: DIR/model.pt: forward takes (p, q, r); the data has 2 arrays (x, y)");
  const std::string failing = ErrorOf(SpecOf(returning("x, y", "torch.mm(x, y)")));
  EXPECT_THAT(failing, HasSubstr("model: DIR/model.pt: forward fails on the data: "));
  EXPECT_EQ(failing.find('\n'), std::string::npos) << failing;
  EXPECT_EQ(ErrorOf(SpecOf(returning("x, y", "torch.mean(self.weight)"), at::kDouble)),
            "model: DIR/model.pt: parameter weight is of Double; it must be Float");

  v1::RunSpec other = SpecOf(kSquares);
  other.mutable_model()->set_file_digest(std::string(32, '\1'));
  EXPECT_THAT(ErrorOf(other), HasSubstr("; the run trains 01010101"));
  Write("model.pt", "not a model");
  EXPECT_EQ(ErrorOf(SpecOfFile()),
            "model: DIR/model.pt is not a TorchScript file that this libtorch can load");
}

// Broken: a script that draws random numbers would train to other bits each time, or silently on
// one of the devices.
TEST_F(TorchScriptTest, SeveralDevicesAreRefused) {
  v1::Configure configure;
  *configure.mutable_spec() = SpecOf(kSquares);
  configure.set_data_path(folder_ / "data");
  EXPECT_TRUE(OpenWorkload(configure, {"cpu"}).ok());
  EXPECT_EQ(OpenWorkload(configure, {"cpu", "cpu"}).status().message(),
            "a model of kind 'torchscript' trains on one device, and [worker] device names 2 "
            "(cpu,cpu); name one");
}

// Broken: a personal layer would be exchanged, or be evaluated with another peer's values.
TEST_F(TorchScriptTest, PersonalTensorsStay) {
  v1::RunSpec spec = SpecOf(kSquares);
  spec.mutable_model()->add_local("weig*");
  const auto made = Make(spec);
  ASSERT_TRUE(made.ok()) << made.status();
  Trainer& trainer = **made;
  ASSERT_EQ(trainer.manifest().tensors_size(), 1);
  EXPECT_EQ(trainer.manifest().tensors(0).name(), "bias");
  EXPECT_EQ(trainer.manifest().tensors(0).offset(), 0u);
  EXPECT_EQ(trainer.manifest().elements(), 1u);
  ASSERT_EQ(trainer.personal().size(), 2u);
  EXPECT_EQ(trainer.parameters()[0], 0.5f);
  const std::vector<float> theta = {0.5f};
  const double before = LossOf(trainer, theta);
  for (uint64_t step = 0; step < 300; ++step) {
    ASSERT_TRUE(trainer.Step(step, Samples(step)).ok());
  }
  EXPECT_NEAR(trainer.personal()[0], 2, 0.05);
  EXPECT_NEAR(trainer.parameters()[0], 1, 0.05);
  EXPECT_LT(LossOf(trainer, theta), before);
  spec.mutable_model()->add_local("wieght");
  EXPECT_EQ(ErrorOf(spec),
            "model: DIR/model.pt: model.local \"wieght\" matches no tensor of the model; the "
            "nearest is weight");
}

// Broken: parties of arrays would train on the first one's rows, or one with a single row on none.
TEST_F(TorchScriptTest, PrivateRowsAreEachPartysOwn) {
  v1::RunSpec spec = SpecOf(kSquares);
  spec.mutable_data()->set_private_(true);
  spec.mutable_data()->set_validation_fraction(0.2);
  std::filesystem::create_directories(folder_ / "parties/1");
  std::filesystem::create_directories(folder_ / "parties/2");
  Write("parties/1/x.npy", Npy<float>("<f4", "1, 2", {1, 1}));
  Write("parties/1/y.npy", Npy<float>("<f4", "1,", {2}));
  std::filesystem::copy_file(folder_ / "data/x.npy", folder_ / "parties/2/x.npy");
  std::filesystem::copy_file(folder_ / "data/y.npy", folder_ / "parties/2/y.npy");
  v1::Configure configure;
  *configure.mutable_spec() = spec;
  configure.set_data_path(folder_ / "parties");
  configure.set_parties(2);
  configure.set_validation_path(folder_ / "data");
  const auto load = OpenWorkload(configure, {"cpu"});
  ASSERT_TRUE(load.ok()) << load.status();
  EXPECT_EQ(load->samples, 81u);
  EXPECT_EQ(load->own_validation_tokens, 20u);
  EXPECT_EQ(load->validation_tokens, 100u);
  EXPECT_EQ(load->data_digest, "");
  Trainer& trainer = *load->trainer;
  const std::vector<uint64_t> samples = {0};
  ASSERT_TRUE(trainer.Initialise().ok());
  EXPECT_NEAR(*trainer.Step(0, samples), 2.25, 1e-6);  // (0.5 - 2)^2
  ASSERT_TRUE(trainer.Use(*load->parties->Open(2)).ok());
  ASSERT_TRUE(trainer.Initialise().ok());
  EXPECT_LT(*trainer.Step(0, samples), 2.2);
  const auto common =
      trainer.EvaluateOn(*load->common, trainer.parameters(), trainer.personal(), 0, 1, {});
  ASSERT_TRUE(common.ok()) << common.status();
  EXPECT_EQ(common->tokens, 100u);
}

}  // namespace
}  // namespace atolld
