#include "worker/hub/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <vector>

#include "tests/unit/worker/training/fixtures.h"
#include "worker/base/file_io.h"
#include "worker/base/manifest.h"

namespace atolld {
namespace {

// Broken: Hugging Face's loader would refuse what we export, or read other values.
TEST(SafetensorsTest, AnIndependentReaderFindsEveryTensor) {
  const TemporaryFolder folder;
  const auto manifest = MakeManifest(TinySpec().model());
  ASSERT_TRUE(manifest.ok());
  std::vector<float> parameters(manifest->elements());
  for (size_t i = 0; i < parameters.size(); ++i) parameters[i] = 0.5f * static_cast<float>(i);
  ASSERT_TRUE(WriteSafetensors(folder / "m.safetensors", *manifest, parameters).ok());

  const auto bytes = ReadWholeFile(folder / "m.safetensors");
  ASSERT_TRUE(bytes.ok());
  uint64_t length = 0;
  std::memcpy(&length, bytes->data(), 8);
  ASSERT_LE(8 + length, bytes->size());
  EXPECT_EQ(length % 8, 0u);
  const nlohmann::json header = nlohmann::json::parse(bytes->substr(8, length));
  EXPECT_EQ(header["__metadata__"]["format"], "pt");
  EXPECT_EQ(header.size(), static_cast<size_t>(manifest->tensors_size()) + 1);
  const std::string data = bytes->substr(8 + length);
  EXPECT_EQ(data.size(), manifest->elements() * sizeof(float));
  uint64_t covered = 0;
  for (const v1::Tensor& tensor : manifest->tensors()) {
    const nlohmann::json& entry = header.at(tensor.name());
    EXPECT_EQ(entry["dtype"], "F32");
    EXPECT_EQ(entry["shape"].get<std::vector<uint64_t>>(),
              std::vector<uint64_t>(tensor.shape().begin(), tensor.shape().end()));
    const auto offsets = entry["data_offsets"].get<std::vector<uint64_t>>();
    ASSERT_EQ(offsets.size(), 2u);
    EXPECT_EQ(offsets[1] - offsets[0], TensorElements(tensor) * sizeof(float));
    float first = -1;
    std::memcpy(&first, data.data() + offsets[0], sizeof(first));
    EXPECT_EQ(first, 0.5f * static_cast<float>(tensor.offset()));
    covered += offsets[1] - offsets[0];
  }
  EXPECT_EQ(covered, data.size());
}

// Broken: a file of another model would be written under this one's names.
TEST(SafetensorsTest, RefusesAnotherSize) {
  const TemporaryFolder folder;
  const auto manifest = MakeManifest(TinySpec().model());
  const std::vector<float> parameters(3);
  EXPECT_TRUE(
      absl::IsInvalidArgument(WriteSafetensors(folder / "m.safetensors", *manifest, parameters)));
}

// Broken: exported names would not be nanoGPT's, or the tied head would be stored twice.
TEST(ManifestTest, IsNanoGptsCpuConfiguration) {
  v1::ModelSpec model = TinySpec().model();
  model.set_layers(4);
  model.set_heads(4);
  model.set_width(128);
  model.set_context(64);
  model.set_vocabulary(65);
  const auto manifest = MakeManifest(model);
  ASSERT_TRUE(manifest.ok());
  EXPECT_EQ(manifest->elements(), 804096u);  // the published count, positions included
  EXPECT_EQ(manifest->tensors(0).name(), "transformer.wte.weight");
  EXPECT_EQ(manifest->tensors(3).name(), "transformer.h.0.attn.c_attn.weight");
  EXPECT_EQ(manifest->tensors(manifest->tensors_size() - 1).name(), "transformer.ln_f.weight");
}

// Broken: an impossible model would end in an exception of libtorch instead of a line that names
// the field.
TEST(ManifestTest, NamesTheFieldThatIsWrong) {
  v1::ModelSpec model = TinySpec().model();
  model.set_heads(3);
  EXPECT_EQ(CheckModelSpec(model).message(), "model.heads is 3; it must divide model.width (16)");
  model = TinySpec().model();
  model.set_kind("resnet");
  EXPECT_EQ(CheckModelSpec(model).message(),
            "model.kind \"resnet\" is not known; known: gpt, gpt2, llama");
  model = TinySpec().model();
  model.set_dropout(0.95);
  EXPECT_TRUE(absl::IsInvalidArgument(CheckModelSpec(model)));
}

}  // namespace
}  // namespace atolld
