#include "worker/hub/adapter_folder.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"
#include "worker/base/file_io.h"
#include "worker/base/manifest.h"
#include "worker/hub/safetensors_writer.h"

namespace atolld {

absl::Status WriteAdapterFolder(const std::string& folder, const v1::ModelSpec& model,
                                absl::Span<const float> parameters, const std::string& base,
                                DType dtype) {
  ASSIGN_OR_RETURN(const v1::Manifest manifest, MakeManifest(model));
  if (model.lora_rank() == 0 || parameters.size() != manifest.elements()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "export: ", parameters.size(), " parameters; the adapters have ", manifest.elements()));
  }
  std::vector<TensorToWrite> tensors;
  for (const v1::Tensor& tensor : manifest.tensors()) {
    tensors.push_back(MakeTensor(absl::StrCat("base_model.model.", tensor.name()),
                                 {tensor.shape().begin(), tensor.shape().end()}, dtype,
                                 parameters.subspan(tensor.offset(), TensorElements(tensor))));
  }
  nlohmann::ordered_json config = {
      {"peft_type", "LORA"},
      {"task_type", "CAUSAL_LM"},
      {"base_model_name_or_path", base},
      {"r", model.lora_rank()},
      {"lora_alpha", model.lora_alpha()},
      {"lora_dropout", 0.0},
      {"bias", "none"},
      {"fan_in_fan_out", model.kind() != "llama"},  // GPT-2's matrices are Conv1D's there
      {"inference_mode", true},
      {"target_modules", nlohmann::ordered_json::array()}};
  for (const std::string& target : model.lora_targets()) config["target_modules"].push_back(target);
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  RETURN_IF_ERROR(WriteTensors(absl::StrCat(folder, "/adapter_model.safetensors"), dtype, tensors));
  const std::string text = config.dump(2) + "\n";
  const absl::Span<const uint8_t> parts[] = {
      AsBytes(absl::MakeConstSpan(text.data(), text.size()))};
  return WriteFileDurably(absl::StrCat(folder, "/adapter_config.json"), parts);
}

}  // namespace atolld
