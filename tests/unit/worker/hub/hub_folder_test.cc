#include "worker/hub/hub_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "compression/base/decoder.h"
#include "tests/unit/worker/model/models.h"
#include "tests/unit/worker/training/fixtures.h"
#include "worker/base/file_io.h"
#include "worker/base/manifest.h"
#include "worker/hub/hub_config.h"
#include "worker/hub/output_folder.h"
#include "worker/hub/safetensors.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

// Values that bf16 holds exactly, all different within a tensor's row.
std::vector<float> SomeParameters(const v1::ModelSpec& model) {
  std::vector<float> parameters(MakeManifest(model)->elements());
  Lcg lcg;
  for (float& value : parameters) value = static_cast<float>(lcg.Next() % 255) / 64.0f - 2.0f;
  return parameters;
}

std::vector<v1::ModelSpec> Models() {
  v1::ModelSpec untied = TinyGpt2(), tied = TinyLlama();
  untied.set_untied(true);
  tied.set_untied(false);
  std::vector<v1::ModelSpec> models = {TinySpec().model(), TinyGpt2(), untied, TinyLlama(), tied};
  for (const v1::ModelSpec& decoder : TinyDecoders()) models.push_back(decoder);
  return models;
}

bool IndependentReaderTakes(const std::string& folder, const std::string& dtype,
                            const std::string& tensor, uint64_t index, float value) {
  return std::system(absl::StrCat("python3 ", ATOLL_HUB_READER, " ", folder, " ", dtype, " ",
                                  tensor, " ", index, " ", absl::StrFormat("%.9g", value))
                         .c_str()) == 0;
}

void Write(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

std::string ReadError(const std::string& folder) {
  return std::string(ReadHubFolder(folder).status().message());
}

// Broken: what one run has trained another would begin with changed, or at all only in one file.
TEST(HubFolderTest, EveryKindComesBackAsItWas) {
  for (const v1::ModelSpec& model : Models()) {
    for (const uint64_t shard : {uint64_t{5000000000}, uint64_t{4096}}) {
      for (const DType dtype : {DType::kF32, DType::kBF16}) {
        const TemporaryFolder folder;
        const std::vector<float> parameters = SomeParameters(model);
        ASSERT_TRUE(WriteHubFolder(folder.path(), model, parameters, {dtype, shard}).ok());
        const auto read = ReadHubFolder(folder.path());
        ASSERT_TRUE(read.ok()) << read.status();
        EXPECT_EQ(read->spec.SerializeAsString(), model.SerializeAsString());
        EXPECT_EQ(read->parameters, parameters);
        const TemporaryFolder again;
        ASSERT_TRUE(
            WriteHubFolder(again.path(), read->spec, read->parameters, {dtype, shard}).ok());
        for (const std::string& name : ModelFilesIn(folder.path())) {
          EXPECT_EQ(*ReadWholeFile(again / name), *ReadWholeFile(folder / name)) << name;
        }
      }
    }
  }
}

// Broken: Hugging Face's libraries would refuse the folder, or compute with transposed matrices.
TEST(HubFolderTest, AnIndependentReaderTakesThem) {
  for (const v1::ModelSpec& model : Models()) {
    const TemporaryFolder folder;
    const std::vector<float> parameters = SomeParameters(model);
    ASSERT_TRUE(WriteHubFolder(folder.path(), model, parameters, {DType::kF32, 4096}).ok());
    const auto manifest = MakeManifest(model);
    const v1::Tensor* matrix = nullptr;  // the first that is not square, if it is transposed there
    for (const v1::Tensor& tensor : manifest->tensors()) {
      const bool llama = model.kind() == "llama";
      const std::string end = llama ? "k_proj.weight" : "c_attn.weight";
      if (matrix == nullptr && tensor.name().find(end) != std::string::npos) matrix = &tensor;
    }
    ASSERT_NE(matrix, nullptr);
    const float value = parameters[matrix->offset() + 3 * matrix->shape(1) + 5];  // [3, 5]
    const uint64_t index = model.kind() == "llama" ? 3 * matrix->shape(1) + 5     // [3, 5]
                                                   : 5 * matrix->shape(0) + 3;    // [5, 3]
    EXPECT_TRUE(IndependentReaderTakes(folder.path(), "F32", matrix->name(), index, value));
    if (model.has_decoder()) continue;  // their numbers are stored as Llama's are
    ASSERT_TRUE(WriteHubFolder(folder.path(), model, parameters, {DType::kBF16}).ok());
    EXPECT_TRUE(IndependentReaderTakes(folder.path(), "BF16", matrix->name(), index, value));
    EXPECT_FALSE(IndependentReaderTakes(folder.path(), "BF16", matrix->name(), index, value + 1));
  }
}

// Broken: half-precision weights would be read as other numbers.
TEST(HubFolderTest, HalvesAreRead) {
  const uint16_t bits[] = {0x0000, 0x8000, 0x3c00, 0xc000, 0x0001, 0x03ff, 0x7bff, 0x3555};
  const float expected[] = {0.0f,     -0.0f,        1.0f,     -2.0f,
                            0x1p-24f, 0x1.ff8p-15f, 65504.0f, 0x1.554p-2f};
  std::vector<float> out(8);
  ToFloats(DType::kF16, AsBytes(absl::MakeConstSpan(bits)), absl::MakeSpan(out));
  for (int i = 0; i < 8; ++i) EXPECT_EQ(out[i], expected[i]) << i;
  // Ties go to the even neighbour.
  const float between[] = {1.00390625f, 1.01171875f, -3.0e38f};
  std::vector<uint8_t> bytes(6);
  FromFloats(DType::kBF16, between, absl::MakeSpan(bytes));
  out.resize(3);
  ToFloats(DType::kBF16, bytes, absl::MakeSpan(out));
  EXPECT_EQ(out[0], 1.0f);
  EXPECT_EQ(out[1], 1.015625f);
  EXPECT_NEAR(out[2], -3.0e38f, 1e36f);
}

// Broken: a model would be taken that computes something else than ours, and train to nonsense.
TEST(HubFolderTest, ConfigsOfOtherModelsAreRefused) {
  const std::string llama = FormatHubConfig(TinyLlama(), "float32");
  const std::string gpt2 = FormatHubConfig(TinyGpt2(), "float32");
  ASSERT_TRUE(ParseHubConfig(llama).ok()) << ParseHubConfig(llama).status();
  const struct {
    const std::string& text;
    const char* from;
    const char* to;
    const char* message;
  } cases[] = {
      {llama, "\"model_type\": \"llama\"", "\"model_type\": \"bert\"", "model_type is bert"},
      {llama, "\"model_type\": \"llama\"", "\"model_type\": \"falcon\"",
       "a run trains a model of any other type with [model] kind = \"huggingface\""},
      {llama, "\"silu\"", "\"gelu\"", "hidden_act is gelu"},
      {llama, "\"mlp_bias\": false", "\"mlp_bias\": true", "mlp_bias is true"},
      {llama, "\"head_dim\": 4", "\"head_dim\": 0", "head_dim is 0"},
      {llama, "\"mlp_bias\": false", "\"rope_scaling\": {\"rope_type\": \"llama3\"}",
       "rope_scaling.factor is missing"},
      {llama, "\"mlp_bias\": false", "\"partial_rotary_factor\": 0.5",
       "partial_rotary_factor is 0.5"},
      {llama, "\"rms_norm_eps\": 1e-05", "\"rms_norm_eps\": \"small\"", "must be a number"},
      {llama, "\"hidden_size\": 16", "\"hidden_size\": -16", "must be a whole number"},
      {llama, "\"hidden_size\": 16", "\"hidden_size\": 17", "it must divide model.width"},
      {llama, "\"hidden_size\": 16", "\"hidden_size\": 4294967296", "what is read is below 2^32"},
      {llama, "\"hidden_size\": 16", "\"hidden_size\": 16, \"hidden_size\": 8", "is there twice"},
      {gpt2, "\"gelu_new\"", "\"relu\"", "activation_function is relu"},
      {llama, "\"mlp_bias\": false", "\"quantization_config\": {\"quant_method\": \"gptq\"}",
       "quantization_config is gptq; what is read is a model of plain weights"},
      {llama, "\"mlp_bias\": false", "\"quantization_config\": {\"load_in_8bit\": true}",
       "quantization_config is of an unnamed method"},
      {gpt2, "{", "[", "it is not a JSON object"},
  };
  for (const auto& one : cases) {
    const std::string text = absl::StrReplaceAll(one.text, {{one.from, one.to}});
    ASSERT_NE(text, one.text) << one.from;
    EXPECT_THAT(std::string(ParseHubConfig(text).status().message()), HasSubstr(one.message));
  }
}

// The config.json of a family, with one part of it changed or `"mlp_bias": false` replaced.
std::string ConfigOf(const std::string& family, const std::string& from, const std::string& to) {
  for (const v1::ModelSpec& model : TinyDecoders()) {
    const std::string& name = model.decoder().family();
    if ((name.empty() ? "llama" : name) != family) continue;
    const std::string text = FormatHubConfig(model, "float32");
    const std::string changed = absl::StrReplaceAll(text, {{from, to}});
    EXPECT_NE(text, changed) << family << " " << from;
    return changed;
  }
  ADD_FAILURE() << family;
  return "";
}

// Broken: what the maths of a model hangs on would be passed over, and it would compute something
// else here.
TEST(HubFolderTest, WhatADecoderDoesNotHaveIsRefusedByName) {
  const std::string any = "\"attention_dropout\": 0.0";
  const struct {
    const char* family;
    std::string from, to;
    const char* message;
  } cases[] = {
      {"llama", any, "\"attn_logit_softcapping\": 50.0", "attn_logit_softcapping is 50.0"},
      {"llama", any, "\"num_local_experts\": 8",
       "num_local_experts is 8; what is read is a model "
       "of model_type llama, which has no such key"},
      {"llama", any, "\"sliding_window\": 4", "sliding_window is 4"},
      {"llama", any, "\"auto_map\": {\"AutoModelForCausalLM\": \"a.B\"}", "auto_map is"},
      {"llama", "LlamaForCausalLM", "LlamaForTokenClassification", "architectures is"},
      {"llama", "\"llama3\"", "\"longrope\"", "rope_scaling is longrope; what is read is default"},
      {"llama", "\"low_freq_factor\"", "\"short_factor\"", "rope_scaling.short_factor is 1.0"},
      {"llama", "\"high_freq_factor\": 4.0", "\"high_freq_factor\": 0.5", "rope_high is 0.5"},
      {"mistral", any, "\"attention_bias\": true", "attention_bias is true"},
      {"mistral", any, "\"layer_types\": [\"full_attention\", \"full_attention\"]",
       "what sliding_window says of all layers"},
      {"qwen2", "\"yarn\",", "\"yarn\", \"truncate\": false,", "rope_scaling.truncate is false"},
      {"qwen2", "\"sliding_attention\"", "\"chunked_attention\"", "layer_types is"},
      {"qwen2", "\"sliding_window\": 6", "\"sliding_window\": null", "without a sliding_window"},
      {"qwen3", any, "\"num_experts\": 8", "num_experts is 8"},
      {"smollm3", "\"no_rope_layers\": [", "\"no_rope_layers\": [2,", "no_rope_layers is 2"},
      {"olmo2", any, "\"clip_qkv\": 8.0", "clip_qkv is 8.0"},
      {"gemma2", any, "\"use_bidirectional_attention\": true",
       "use_bidirectional_attention is true"},
      {"gemma3", "\"final_logit_softcapping\": null", "\"final_logit_softcapping\": 30.0",
       "final_logit_softcapping is 30.0"},
      {"gemma3", "\"gelu_pytorch_tanh\"", "\"gelu\"", "hidden_activation is gelu"},
      {"mixtral", any, "\"router_jitter_noise\": 0.1", "router_jitter_noise is 0.1"},
      {"mixtral", any, "\"norm_topk_prob\": false", "norm_topk_prob is false"},
      {"mixtral", "\"num_local_experts\": 4", "\"num_local_experts\": 0",
       "model.experts is 0; it must be 1-1024"},
      {"qwen3_moe", "\"num_local_experts\": 5", "\"num_local_experts\": 8",
       "num_experts is 5; what is read is what num_local_experts says, 8"},
      {"qwen3_moe", "\"num_experts_per_tok\": 3", "\"num_experts_per_tok\": 6",
       "model.experts_per_token is 6; it must be 1-5"},
      {"qwen3_moe", any, "\"shared_expert_intermediate_size\": 8",
       "shared_expert_intermediate_size is 8"},
      {"qwen3_moe", "\"decoder_sparse_step\": 1", "\"decoder_sparse_step\": 4",
       "mlp_only_layers is all layers"},
      {"olmoe", "\"clip_qkv\": 0.5", "\"clip_qkv\": -1.0", "clip_qkv is -1.0"},
      {"gemma3", "gemma3_text", "gemma3", "model_type is gemma3; what is read is gpt2, llama"},
  };
  for (const auto& one : cases) {
    const std::string text = ConfigOf(one.family, one.from, one.to);
    EXPECT_THAT(std::string(ParseHubConfig(text).status().message()), HasSubstr(one.message));
  }
}

// Broken: a config.json that leaves out what is usual would be read as another model than the one
// that transformers makes of it.
TEST(HubFolderTest, WhatAConfigLeavesOutIsWhatTransformersTakes) {
  const auto shape = [](const std::string& text) {
    const auto spec = ParseHubConfig(text);
    EXPECT_TRUE(spec.ok()) << text << ": " << spec.status();
    return spec.ok() ? DecoderShapeOf(*spec) : DecoderShape();
  };
  EXPECT_EQ(shape(R"({"model_type": "mistral"})").window, 4096u);
  EXPECT_EQ(shape(R"({"model_type": "mistral", "sliding_window": null})").window, 0u);
  EXPECT_EQ(shape(R"({"model_type": "qwen2", "sliding_window": 8})").window, 0u);
  const DecoderShape late = shape(R"({"model_type": "qwen2", "use_sliding_window": true,
      "num_hidden_layers": 3, "max_window_layers": 1})");
  EXPECT_EQ(late.window, 4096u);
  EXPECT_EQ(late.layer_pattern, "gll");
  EXPECT_EQ(shape(R"({"model_type": "qwen3", "hidden_size": 1024})").head_width, 128u);
  EXPECT_EQ(shape(R"({"model_type": "smollm3"})").layer_pattern, "gggn");
  const DecoderShape gemma3 = shape(R"({"model_type": "gemma3_text"})");
  EXPECT_EQ(gemma3.layer_pattern, "lllllg");
  EXPECT_EQ(gemma3.local_rope_theta, 10000);
  EXPECT_EQ(gemma3.query_scalar, 256u);
  EXPECT_EQ(shape(R"({"model_type": "gemma2"})").attention_cap, 50);
  EXPECT_EQ(shape(R"({"model_type": "gemma2", "attn_logit_softcapping": null})").attention_cap, 0);
  const DecoderShape mixtral = shape(R"({"model_type": "mixtral"})");
  EXPECT_EQ(mixtral.experts.count, 8u);
  EXPECT_EQ(mixtral.experts.per_token, 2u);
  EXPECT_EQ(mixtral.window, 0u);
  const DecoderShape qwen = shape(R"({"model_type": "qwen3_moe", "num_hidden_layers": 4,
      "decoder_sparse_step": 2, "mlp_only_layers": [3], "max_window_layers": 28,
      "use_sliding_window": true, "output_router_logits": true})");
  EXPECT_EQ(qwen.experts.count, 128u);
  EXPECT_EQ(qwen.experts.hidden, 768u);
  EXPECT_EQ(qwen.experts.pattern, "ded");
  EXPECT_EQ(qwen.experts.router_loss, 0.001);
  EXPECT_EQ(qwen.window, 4096u);
  EXPECT_EQ(qwen.layer_pattern, "");
  const DecoderShape olmoe = shape(R"({"model_type": "olmoe", "router_aux_loss_coef": 0.1})");
  EXPECT_EQ(olmoe.experts.count, 64u);
  EXPECT_EQ(olmoe.experts.per_token, 8u);
  EXPECT_EQ(olmoe.experts.router_loss, 0);  // transformers adds it only if router's logits are out
  EXPECT_EQ(olmoe.qkv_clip, 0);
  EXPECT_TRUE(ParseHubConfig(R"({"model_type": "olmo2"})")->untied());
  EXPECT_FALSE(ParseHubConfig(R"({"model_type": "smollm3"})")->untied());
  EXPECT_EQ(ParseHubConfig(R"({"model_type": "smollm3"})")->rope_theta(), 2000000);
  // transformers 4 keeps the base beside the scaling, 5 with it.
  const char* const both[] = {
      R"({"model_type": "llama", "rope_theta": 500000.0, "rope_scaling": {"rope_type": "llama3",
          "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 8192}})",
      R"({"model_type": "llama", "rope_parameters": {"rope_type": "llama3", "rope_theta": 500000.0,
          "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 8192}})"};
  EXPECT_EQ(ParseHubConfig(both[0])->SerializeAsString(),
            ParseHubConfig(both[1])->SerializeAsString());
  EXPECT_EQ(shape(both[0]).rope_context, 8192u);
}

// Broken: a model would be refused for a part of its config that changes nothing.
TEST(HubFolderTest, ConfigsAreRefusedByWhatTheyChange) {
  const std::string llama = FormatHubConfig(TinyLlama(), "float32");
  for (const char* part :
       {"\"quantization_config\": null", "\"quantization_config\": {}",
        "\"quantization_config\": {\"load_in_4bit\": false, \"load_in_8bit\": false}",
        "\"rope_scaling\": {\"type\": \"linear\", \"factor\": 1.0}",
        "\"partial_rotary_factor\": 1.0"}) {
    const absl::Status status =
        ParseHubConfig(absl::StrReplaceAll(llama, {{"\"mlp_bias\": false", part}})).status();
    EXPECT_TRUE(status.ok()) << part << ": " << status;
  }
}

// Broken: a folder that lacks part of a model would leave zeros in it, one line of reason missing.
TEST(HubFolderTest, FoldersThatDoNotFitAreNamed) {
  const v1::ModelSpec model = TinyGpt2();
  const TemporaryFolder folder;
  ASSERT_TRUE(WriteHubFolder(folder.path(), model, SomeParameters(model), {}).ok());
  const std::string file = folder / "model.safetensors";
  const std::string whole = *ReadWholeFile(file);
  const auto rename = [&](const std::string& from, const std::string& to) {
    ASSERT_EQ(from.size(), to.size());
    Write(file, absl::StrReplaceAll(whole, {{from, to}}));
  };
  rename("h.1.ln_1.bias", "h.1.ln_9.bias");
  EXPECT_THAT(ReadError(folder.path()), HasSubstr("tensor transformer.h.1.ln_1.bias is missing"));
  rename("\"dtype\":\"F32\",\"shape\":[48]", "\"dtype\":\"I32\",\"shape\":[48]");
  EXPECT_THAT(ReadError(folder.path()), HasSubstr("dtype I32 is not read; F32, F16 and BF16 are"));
  rename("\"shape\":[16,48]", "\"shape\":[48,16]");
  EXPECT_THAT(ReadError(folder.path()), HasSubstr("has shape [48, 16]; the model's has [16, 48]"));
  Write(file, whole);
  const std::string config = *ReadWholeFile(folder / "config.json");
  Write(folder / "config.json",
        absl::StrReplaceAll(config, {{"\"n_layer\": 2", "\"n_layer\": 1"}}));
  EXPECT_THAT(ReadError(folder.path()), HasSubstr("has no place in the model of config.json"));
  Write(folder / "config.json",
        absl::StrReplaceAll(config, {{"\"vocab_size\": 256", "\"vocab_size\": 9000000"}}));
  EXPECT_THAT(ReadError(folder.path()), HasSubstr("the model of config.json has"));
  Write(folder / "config.json", config);
  Write(folder / "model.safetensors.index.json", R"({"weight_map": {"x": "../../etc/passwd"}})");
  EXPECT_THAT(ReadError(folder.path()), HasSubstr("must be a name within the folder"));
  Write(folder / "model.safetensors.index.json", R"({"weight_map": {"x": "model.safetensors"}})");
  EXPECT_THAT(ReadError(folder.path()), HasSubstr("tensor x is not in its file"));
}

// Broken: "no such file" would be said of a folder that has its weights, and not what to do.
TEST(HubFolderTest, PickledWeightsAreNamed) {
  for (const char* pickled : {"pytorch_model.bin", "pytorch_model.bin.index.json"}) {
    const v1::ModelSpec model = TinyLlama();
    const TemporaryFolder folder;
    ASSERT_TRUE(WriteHubFolder(folder.path(), model, SomeParameters(model), {}).ok());
    Write(folder / pickled, "weights");
    EXPECT_EQ(ReadError(folder.path()), "") << "the safetensors beside it are read";
    std::filesystem::remove(folder / "model.safetensors");
    EXPECT_THAT(ReadError(folder.path()),
                HasSubstr("has its weights as pytorch_model.bin, which is not read: save the model "
                          "with safe_serialization=True, as safetensors"));
  }
}

// Broken: the files of GPT-2 itself, with names of the bare model and masks beside the weights,
// would not be read.
TEST(HubFolderTest, NamesOfTheBareModelAndMasksAreTaken) {
  const v1::ModelSpec model = TinyGpt2();
  const TemporaryFolder folder;
  const std::vector<float> parameters = SomeParameters(model);
  ASSERT_TRUE(WriteHubFolder(folder.path(), model, parameters, {}).ok());
  std::vector<TensorToWrite> bare;
  {
    const auto file = SafetensorsFile::Open(folder / "model.safetensors");
    ASSERT_TRUE(file.ok());
    for (const auto& [name, tensor] : (*file)->tensors()) {
      std::vector<float> values((tensor.end - tensor.begin) / 4);
      ASSERT_TRUE((*file)->Read(name, tensor.shape, absl::MakeSpan(values)).ok());
      bare.push_back(MakeTensor(name.substr(std::string("transformer.").size()), tensor.shape,
                                DType::kF32, values));
    }
  }
  const std::vector<float> mask(16 * 16, 1);
  bare.push_back(MakeTensor("h.0.attn.bias", {1, 1, 16, 16}, DType::kF32, mask));
  ASSERT_TRUE(WriteTensors(folder / "model.safetensors", DType::kF32, bare).ok());
  const auto read = ReadHubFolder(folder.path());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->parameters, parameters);
}

// The tensors of a folder's file, by name.
std::map<std::string, TensorToWrite> Tensors(const std::string& folder) {
  std::map<std::string, TensorToWrite> tensors;
  const auto file = SafetensorsFile::Open(folder + "/model.safetensors");
  EXPECT_TRUE(file.ok()) << file.status();
  for (const auto& [name, tensor] : (*file)->tensors()) {
    const absl::Span<const uint8_t> bytes = (*file)->bytes(tensor);
    tensors[name] = {name, tensor.shape, {bytes.begin(), bytes.end()}};
  }
  return tensors;
}

void WriteAll(const std::string& folder, const std::map<std::string, TensorToWrite>& tensors) {
  std::vector<TensorToWrite> all;
  for (const auto& [name, tensor] : tensors) all.push_back(tensor);
  ASSERT_TRUE(WriteTensors(folder + "/model.safetensors", DType::kF32, all).ok());
}

// Makes the layout that transformers 5 keeps in memory: a tensor for all gates and ups of a layer,
// and one for all downs.
void FuseExperts(const v1::ModelSpec& model, std::map<std::string, TensorToWrite>* tensors) {
  const DecoderShape shape = DecoderShapeOf(model);
  const DecoderFamily::ExpertNames& names = FindDecoderFamily(shape.family)->experts;
  for (uint32_t layer = 0; layer < model.layers(); ++layer) {
    if (!HasExperts(shape, layer)) continue;
    const std::string prefix = absl::StrCat("model.layers.", layer, ".");
    const std::string module = absl::StrCat(prefix, names.module, ".");
    const auto take = [tensors](const std::string& name) {
      TensorToWrite taken = tensors->at(name);
      tensors->erase(name);
      return taken;
    };
    TensorToWrite router = take(module + "gate.weight"), both, down;
    router.name = prefix + "mlp.gate.weight";
    both.name = prefix + "mlp.experts.gate_up_proj";
    down.name = prefix + "mlp.experts.down_proj";
    for (uint32_t i = 0; i < shape.experts.count; ++i) {
      const std::string expert = absl::StrCat(module, "experts.", i, ".");
      for (const absl::string_view part : {names.gate, names.up, names.down}) {
        const TensorToWrite one = take(absl::StrCat(expert, part, ".weight"));
        TensorToWrite& into = part == names.down ? down : both;
        into.bytes.insert(into.bytes.end(), one.bytes.begin(), one.bytes.end());
        const uint64_t rows = part == names.down ? one.shape[0] : 2 * one.shape[0];
        into.shape = {shape.experts.count, rows, one.shape[1]};
      }
    }
    for (const TensorToWrite* one : {&router, &both, &down}) (*tensors)[one->name] = *one;
  }
}

// Broken: what transformers 5 saves with save_original_format=False could not be read, one expert's
// matrices would become another's, or a file that has an expert twice would be taken.
TEST(HubFolderTest, ExpertsThatShareATensorAreRead) {
  for (const v1::ModelSpec& model : TinyMixtures()) {
    const TemporaryFolder folder;
    const std::vector<float> parameters = SomeParameters(model);
    ASSERT_TRUE(WriteHubFolder(folder.path(), model, parameters, {}).ok());
    std::map<std::string, TensorToWrite> tensors = Tensors(folder.path());
    const auto& names = FindDecoderFamily(DecoderShapeOf(model).family)->experts;
    const std::string twice =
        absl::StrCat("model.layers.1.", names.module, ".experts.0.", names.up, ".weight");
    const TensorToWrite alone = tensors.at(twice);
    FuseExperts(model, &tensors);
    WriteAll(folder.path(), tensors);
    const auto read = ReadHubFolder(folder.path());
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->parameters, parameters);
    tensors[twice] = alone;
    WriteAll(folder.path(), tensors);
    EXPECT_THAT(ReadError(folder.path()), HasSubstr(twice + " has no place"));
    tensors.erase(twice);
    TensorToWrite& down = tensors.at("model.layers.1.mlp.experts.down_proj");
    std::swap(down.shape[1], down.shape[2]);
    WriteAll(folder.path(), tensors);
    EXPECT_THAT(ReadError(folder.path()), HasSubstr("mlp.experts.down_proj has shape ["));
    tensors.erase("model.layers.1.mlp.experts.down_proj");
    WriteAll(folder.path(), tensors);
    EXPECT_THAT(ReadError(folder.path()), HasSubstr("experts.0."));
  }
}

// Broken: a head that was trained apart from its embedding would be dropped without a word, or a
// model that is stored under its head's name alone be refused.
TEST(HubFolderTest, ATiedHeadIsTheEmbeddingOrIsNamed) {
  v1::ModelSpec llama = TinyLlama();
  llama.set_untied(false);
  for (const v1::ModelSpec& model : {llama, TinyGpt2(), TinySpec().model()}) {
    const std::string embedding =
        model.kind() == "llama" ? "model.embed_tokens.weight" : "transformer.wte.weight";
    const TemporaryFolder folder;
    const std::vector<float> parameters = SomeParameters(model);
    ASSERT_TRUE(WriteHubFolder(folder.path(), model, parameters, {}).ok());
    std::map<std::string, TensorToWrite> tensors = Tensors(folder.path());
    TensorToWrite head = tensors.at(embedding);
    head.name = "lm_head.weight";
    tensors["lm_head.weight"] = head;
    WriteAll(folder.path(), tensors);
    EXPECT_EQ(ReadHubFolder(folder.path())->parameters, parameters);
    tensors.erase(embedding);
    WriteAll(folder.path(), tensors);
    const auto alone = ReadHubFolder(folder.path());
    ASSERT_TRUE(alone.ok()) << alone.status();
    EXPECT_EQ(alone->parameters, parameters);
    ASSERT_TRUE(WriteHubFolder(folder.path(), model, parameters, {}).ok());
    tensors = Tensors(folder.path());
    head.bytes[0] ^= 1;
    tensors["lm_head.weight"] = head;
    WriteAll(folder.path(), tensors);
    EXPECT_THAT(ReadError(folder.path()), HasSubstr("lm_head.weight differs from " + embedding));
    EXPECT_THAT(ReadError(folder.path()), HasSubstr("\"tie_word_embeddings\": false"));
  }
}

// Broken: what torch.compile or data parallel training has saved could not be read.
TEST(HubFolderTest, NamesThatWrappersHaveChangedAreTaken) {
  EXPECT_EQ(PlainTensorName("module._orig_mod.model.layers.0._orig_mod.mlp.weight"),
            "model.layers.0.mlp.weight");
  EXPECT_EQ(PlainTensorName("model.module.weight"), "model.module.weight");
  const v1::ModelSpec model = TinyLlama();
  const std::vector<float> parameters = SomeParameters(model);
  for (const std::string prefix : {"_orig_mod.", "module.", "module._orig_mod."}) {
    const TemporaryFolder folder;
    ASSERT_TRUE(WriteHubFolder(folder.path(), model, parameters, {}).ok());
    std::map<std::string, TensorToWrite> wrapped;
    for (auto& [name, tensor] : Tensors(folder.path())) {
      tensor.name = prefix + name;
      wrapped[tensor.name] = tensor;
    }
    WriteAll(folder.path(), wrapped);
    const auto read = ReadHubFolder(folder.path());
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->parameters, parameters);
    std::vector<float> loaded(parameters.size());
    ASSERT_TRUE(
        LoadParameters(folder / "model.safetensors", *MakeManifest(model), absl::MakeSpan(loaded))
            .ok());
    EXPECT_EQ(loaded, parameters);
  }
}

// Broken: `atoll generate` and `atoll eval` could not read what `atoll import` has written.
TEST(HubFolderTest, AnImportedFolderIsReadByItsSection) {
  for (const v1::ModelSpec& model : Models()) {
    const TemporaryFolder folder;
    const std::vector<float> parameters = SomeParameters(model);
    Write(folder / "model.toml", "# a model\n\n" + FormatModelSection(model));
    ASSERT_TRUE(
        WriteSafetensors(folder / "model.safetensors", *MakeManifest(model), parameters).ok());
    EXPECT_TRUE(IsImportedFolder(folder.path()));
    const auto read = ReadImportedFolder(folder.path());
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->spec.SerializeAsString(), model.SerializeAsString());
    EXPECT_EQ(read->parameters, parameters);
  }
  EXPECT_THAT(std::string(ParseModelSection("[model]\nlayers = many\n").status().message()),
              HasSubstr("the line layers = many does not belong to a [model] section"));
}

// Broken: a chat would begin without the tokenizer that the model was made for, or without its
// template.
TEST(HubFolderTest, TokenizersComeAlong) {
  const TemporaryFolder from, to;
  const std::vector<std::string> names = {
      "tokenizer.json", "chat_template.jinja",    "additional_chat_templates/tools.jinja",
      "spiece.model",   "qwen.tiktoken",          "generation_config.json",
      "vocab.txt",      "special_tokens_map.json"};
  std::filesystem::create_directories(from / "additional_chat_templates");
  for (const std::string& name : names) Write(from / name, name);
  for (const char* other : {"secret.txt", "config.json", "model.safetensors", "README.md"}) {
    Write(from / other, "no");
  }
  EXPECT_EQ(CopyTokenizer(from.path(), to / "new").value_or(-1), static_cast<int>(names.size()));
  uint64_t bytes = 0;
  for (const std::string& name : names) {
    EXPECT_EQ(ReadWholeFile(to / "new/" + name).value_or(""), name);
    bytes += name.size();
  }
  EXPECT_EQ(BytesOfTokenizer(from.path()), bytes);
  EXPECT_EQ(BytesOfTokenizer(""), 0u);
  EXPECT_FALSE(std::filesystem::exists(to / "new/secret.txt"));
  EXPECT_FALSE(std::filesystem::exists(to / "new/config.json"));
  EXPECT_EQ(ModelFilesIn(to / "new").size(), names.size());
}

// Broken: adapters would leave a run without the name of what they are of.
TEST(HubFolderTest, TheBaseOfAnImportedFileIsTheFolderThatItWasMadeOf) {
  const TemporaryFolder folder;
  const std::string file = folder / "model.safetensors";
  EXPECT_EQ(FolderOfBase("someone/tiny-chat"), "someone/tiny-chat");
  Write(file, "weights");
  EXPECT_EQ(FolderOfBase(file), file);
  Write(folder / "model.toml", "[model]\n" + ImportedFrom("/models/a \"b\"\n"));
  EXPECT_EQ(FolderOfBase(file), "/models/a \"b\"\n");
  Write(folder / "config.json", "{}");
  EXPECT_EQ(FolderOfBase(file), folder.path());
}

}  // namespace
}  // namespace atolld
