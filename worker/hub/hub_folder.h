// Folders as Hugging Face has them. A model's: config.json, model.safetensors (or shards of it with
// an index), and what belongs to its tokenizer. Adapters' as PEFT has them: adapter_config.json and
// adapter_model.safetensors. Blocking; any thread.
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

// Every tensor must be there and of the shape that config.json says; none may be left over, and a
// head that config.json ties to the embedding must be the same where it is stored too. The error
// names file and tensor.
absl::StatusOr<HubModel> ReadHubFolder(const std::string& folder);

// What `atoll import` makes: model.toml, a [model] section, beside model.safetensors with the
// parameters under our names, as a run begins with them.
inline constexpr char kModelSection[] = "model.toml";
bool IsImportedFolder(const std::string& folder);
absl::StatusOr<HubModel> ReadImportedFolder(const std::string& folder);

struct HubWriteOptions {
  DType dtype = DType::kF32;
  uint64_t shard_bytes = 5000000000;  // a file has at most so many, where a tensor does not alone
};

// Makes `folder` where it is missing. `parameters` are of `model`'s manifest.
absl::Status WriteHubFolder(const std::string& folder, const v1::ModelSpec& model,
                            absl::Span<const float> parameters, const HubWriteOptions& options);

// Copies what a tokenizer consists of, where it is there. Returns how many files.
absl::StatusOr<int> CopyTokenizer(const std::string& from, const std::string& to);

// Of what CopyTokenizer copies; `from` may be empty.
uint64_t BytesOfTokenizer(const std::string& from);

// Makes `folder` where it is missing. `parameters` are of `model`'s manifest, which must be one of
// adapters. `base` is what PEFT's base_model_name_or_path says.
absl::Status WriteAdapterFolder(const std::string& folder, const v1::ModelSpec& model,
                                absl::Span<const float> parameters, const std::string& base,
                                DType dtype);

}  // namespace atolld
