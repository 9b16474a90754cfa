#include "worker/hub/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/unit/worker/model/models.h"
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

namespace {

using ::testing::HasSubstr;

std::string File(const std::string& header, size_t data_bytes) {
  const uint64_t length = header.size();
  std::string file(8, '\0');
  std::memcpy(file.data(), &length, 8);
  return absl::StrCat(file, header, std::string(data_bytes, '\1'));
}

absl::StatusOr<SafetensorsHeader> Parse(const std::string& file) {
  return ParseSafetensorsHeader(AsBytes(absl::MakeConstSpan(file.data(), file.size())));
}

const char kGood[] =
    R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
    R"("b":{"dtype":"BF16","shape":[],"data_offsets":[24,26]}})";

// Broken: a damaged or hostile file would be read beyond its end, or as something else than it
// says, or its user would not learn what is wrong with it.
TEST(SafetensorsFileTest, EveryFaultIsOneLine) {
  ASSERT_TRUE(Parse(File(kGood, 26)).ok()) << Parse(File(kGood, 26)).status();
  const auto one = [](const std::string& fields) { return absl::StrCat("{\"a\":{", fields, "}}"); };
  const std::string f32 = R"("dtype":"F32",)";
  const struct {
    std::string file;
    const char* message;
  } cases[] = {
      {"", "it has 0 bytes, too few for a header"},
      {std::string(8, '\xff'), "its header is said to have 18446744073709551615 bytes"},
      {File(kGood, 26).substr(0, 60), "bytes; the file has 60"},
      {File("[]", 0), "its header: it is not a JSON object"},
      {File("{\"a\":", 0), "its header: it is not a JSON object"},
      {File(std::string(5000, '[') + "1", 0), "its header: it is"},
      {File(absl::StrCat("{\"a\":", std::string(100, '['), std::string(100, ']'), "}"), 0),
       "nested deeper than 32"},
      {File(absl::StrCat("{\"a\":1,", std::string(kGood).substr(1)), 26), "\"a\" is there twice"},
      {File(kGood, 25), "tensor b: bytes 24-26 are not within the file's 25"},
      {File(kGood, 27), "its tensors end at byte 26 of the data, which has 27"},
      {File(one(f32 + R"("shape":[1],"data_offsets":[4,0])"), 4), "bytes 4-0 are not within"},
      {File(one(f32 + R"("shape":[2],"data_offsets":[0,4])"), 4), "it has 4 bytes; F32 of shape"},
      {File(one(f32 + R"("shape":[4611686018427387905],"data_offsets":[0,4])"), 4), "it has 4"},
      {File(one(f32 + R"("shape":[4294967296,4294967296],"data_offsets":[0,0])"), 0), "it has 0"},
      {File(one(f32 + R"("shape":[-1],"data_offsets":[0,4])"), 4), "it needs a dtype, a shape"},
      {File(one(f32 + R"("shape":[1],"data_offsets":[0])"), 4), "it needs a dtype, a shape"},
      {File(one(f32 + R"("data_offsets":[0,4])"), 4), "it needs a dtype, a shape"},
      {File(one(R"("dtype":"F31","shape":[1],"data_offsets":[0,4])"), 4), "dtype \"F31\" is not"},
      {File(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
            R"("b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
            12),
       "tensor b begins at byte 4, the ones before it end at 8"},
      {File(one(f32 + R"("shape":[1],"data_offsets":[4,8])"), 8),
       "tensor a begins at byte 4, the ones before it end at 0"},
  };
  for (const auto& bad : cases) {
    const auto parsed = Parse(bad.file);
    ASSERT_FALSE(parsed.ok()) << bad.message;
    EXPECT_TRUE(absl::IsDataLoss(parsed.status()));
    EXPECT_THAT(std::string(parsed.status().message()), HasSubstr(bad.message));
    EXPECT_EQ(parsed.status().message().find('\n'), absl::string_view::npos);
  }
}

// Broken: some bytes would be taken for a tensor that is not within the file.
TEST(SafetensorsFileTest, AnyBytesAreAStatusOrTensorsWithinTheFile) {
  const std::string good = File(kGood, 26);
  Lcg lcg;
  int taken = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string file = good.substr(0, lcg.Next() % 4 == 0 ? lcg.Next() % good.size() : good.size());
    for (uint32_t i = lcg.Next() % 4; i > 0 && !file.empty(); --i) {
      // Digits and brackets lead further than other bytes do.
      const char* const likely = "0123456789[]{},:\"-";
      file[lcg.Next() % file.size()] =
          lcg.Next() % 2 == 0 ? likely[lcg.Next() % 18] : static_cast<char>(lcg.Next());
    }
    const auto parsed = Parse(file);
    if (!parsed.ok()) continue;
    ++taken;
    for (const auto& [name, tensor] : parsed->tensors) {
      ASSERT_LE(tensor.begin, tensor.end);
      ASSERT_LE(parsed->data_begin + tensor.end, file.size());
    }
  }
  EXPECT_GT(taken, 1000);  // else nothing was tried
}

}  // namespace

}  // namespace atolld
