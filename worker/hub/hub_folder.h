// Reads and writes folders in the format of Hugging Face. A model's folder has config.json,
// model.safetensors (or shards of it with an index) and the files of its tokenizer. A folder of
// adapters is in PEFT's format: adapter_config.json and adapter_model.safetensors. The functions
// block, and may be called from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "atoll/v1/run.pb.h"
#include "worker/hub/safetensors.h"

namespace atolld {

struct HubModel {
  v1::ModelSpec spec;
  v1::Manifest manifest;
  std::vector<float> parameters;
};

// Reads a model. It must have exactly the tensors that config.json implies, with the right shapes.
// If config.json ties the head to the embedding and the head is also stored, the two must be equal.
// The message of an error names the file and the tensor.
absl::StatusOr<HubModel> ReadHubFolder(const std::string& folder);

// The name of the file with a [model] section that `atoll import` writes in an imported folder. The
// parameters in that folder's model.safetensors have our names; a run begins with them.
inline constexpr char kModelSection[] = "model.toml";
bool IsImportedFolder(const std::string& folder);

// Returns the comment line of model.toml that names the folder from which the model was imported.
std::string ImportedFrom(const std::string& folder);

// Returns the name that PEFT should load as the base model of adapters whose base file is `base`.
// If `atoll import` has made the file, this is the folder that was imported; if a config.json is in
// the same folder, it is that folder; otherwise it is `base` itself.
std::string FolderOfBase(const std::string& base);
absl::StatusOr<HubModel> ReadImportedFolder(const std::string& folder);

struct HubWriteOptions {
  DType dtype = DType::kF32;
  // The largest size of a file, unless a single tensor is larger.
  uint64_t shard_bytes = 5000000000;
};

// Writes a model. Creates `folder` if it is missing. `parameters` has the layout of the manifest of
// `model`.
absl::Status WriteHubFolder(const std::string& folder, const v1::ModelSpec& model,
                            absl::Span<const float> parameters, const HubWriteOptions& options);

// Copies the files of a tokenizer: files with the usual names and endings, chat templates
// (including the folder of further templates) and generation_config.json. Returns how many files it
// copied.
absl::StatusOr<int> CopyTokenizer(const std::string& from, const std::string& to);

// Returns the total size of the files that CopyTokenizer would copy. `from` may be empty.
uint64_t BytesOfTokenizer(const std::string& from);

// Writes adapters, whose slices are joined to one adapter for each module. Creates `folder` if it
// is missing. `parameters` has the layout of the manifest of `model`, which must have adapters.
// `base` becomes PEFT's base_model_name_or_path. If `rank` is not 0, writes only the first so many
// ranks, scaled as in the run. Fails with INVALID_ARGUMENT if CheckFirstRanks does.
absl::Status WriteAdapterFolder(const std::string& folder, const v1::ModelSpec& model,
                                absl::Span<const float> parameters, const std::string& base,
                                DType dtype, uint32_t rank = 0);

}  // namespace atolld
