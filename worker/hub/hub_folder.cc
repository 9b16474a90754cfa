#include "worker/hub/hub_folder.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "compression/base/lora_slices.h"
#include "compression/base/status_macros.h"
#include "worker/base/file_io.h"
#include "worker/base/manifest.h"
#include "worker/hub/expert_layout.h"
#include "worker/hub/hub_config.h"
#include "worker/hub/json_text.h"
#include "worker/hub/output_folder.h"
#include "worker/hub/safetensors.h"

namespace atolld {
namespace {

constexpr char kImportedFrom[] = "# imported from ";

// Returns what CopyTokenizer copies, as names within the folder.
std::vector<std::string> TokenizerFilesIn(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  const auto add = [&](const std::string& within, const auto& belongs) {
    const std::string place = absl::StrCat(folder, "/", within);
    for (std::filesystem::directory_iterator it(place, error), end; !error && it != end;
         it.increment(error)) {
      const std::string name = it->path().filename().string();
      if (it->is_regular_file(error) && belongs(name)) names.push_back(within + name);
    }
  };
  if (folder.empty()) return names;
  add("", [](const std::string& name) {
    return BelongsToTokenizer(name) || name == "generation_config.json";
  });
  add(absl::StrCat(kMoreTemplates, "/"), BelongsToTokenizer);
  return names;
}

// GPT-2's matrices are Conv1D's in Hugging Face's files, [in, out]; ours are [out, in].
bool IsTransposed(const v1::ModelSpec& model, const std::string& name) {
  return model.kind() != "llama" &&
         (absl::EndsWith(name, "c_attn.weight") || absl::EndsWith(name, "c_proj.weight") ||
          absl::EndsWith(name, "c_fc.weight"));
}

// Returns the shape in Hugging Face's files.
std::vector<uint64_t> HubShape(const v1::ModelSpec& model, const v1::Tensor& tensor) {
  std::vector<uint64_t> shape(tensor.shape().begin(), tensor.shape().end());
  if (IsTransposed(model, tensor.name())) std::reverse(shape.begin(), shape.end());
  return shape;
}

// Sets `out`, [columns, rows], to the transpose of `in`, [rows, columns].
void Transpose(absl::Span<const float> in, uint64_t rows, uint64_t columns, absl::Span<float> out) {
  constexpr uint64_t kBlock = 32;  // both sides stay within the cache
  for (uint64_t first = 0; first < rows; first += kBlock) {
    const uint64_t last = std::min(rows, first + kBlock);
    for (uint64_t column = 0; column < columns; ++column) {
      for (uint64_t row = first; row < last; ++row) {
        out[column * rows + row] = in[row * columns + column];
      }
    }
  }
}

// The biases that GPT-2 has in Hugging Face's files and our kind "gpt" lacks: names and sizes, all
// values 0. Empty for other kinds.
struct ZeroBias {
  std::string name;
  uint64_t elements;
};
std::vector<ZeroBias> ZeroBiases(const v1::ModelSpec& model, const v1::Manifest& manifest) {
  std::vector<ZeroBias> biases;
  if (model.kind() != "gpt") return biases;
  for (const v1::Tensor& tensor : manifest.tensors()) {
    if (absl::StrContains(tensor.name(), ".wte.") || absl::StrContains(tensor.name(), ".wpe.")) {
      continue;
    }
    const absl::string_view module = absl::StripSuffix(tensor.name(), ".weight");
    biases.push_back({absl::StrCat(module, ".bias"), tensor.shape(0)});
  }
  return biases;
}

const char kWhole[] = "model.safetensors";
const char kIndex[] = "model.safetensors.index.json";

// The files of a folder and the place of each tensor, by its name without what wrappers add.
struct Shards {
  struct Place {
    const SafetensorsFile* file;
    std::string stored_name;
  };
  std::map<std::string, std::unique_ptr<SafetensorsFile>> files;
  std::map<std::string, Place> places;
};

absl::Status OpenShard(const std::string& folder, const std::string& name, Shards* shards) {
  if (shards->files.count(name) > 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(auto file, SafetensorsFile::Open(absl::StrCat(folder, "/", name)));
  for (const auto& [tensor, stored] : file->tensors()) {
    const auto [at, fresh] =
        shards->places.emplace(PlainTensorName(tensor), Shards::Place{file.get(), tensor});
    if (!fresh) {
      return absl::DataLossError(absl::StrCat(folder, ": tensor ", absl::CEscape(tensor),
                                              " is there twice, in ", at->second.file->path(),
                                              " and in ", file->path()));
    }
  }
  shards->files[name] = std::move(file);
  return absl::OkStatus();
}

absl::StatusOr<Shards> OpenShards(const std::string& folder) {
  Shards shards;
  std::error_code error;
  const std::string index = absl::StrCat(folder, "/", kIndex);
  if (!std::filesystem::exists(index, error)) {
    const std::string pickled = absl::StrCat(folder, "/pytorch_model.bin");
    if (!std::filesystem::exists(absl::StrCat(folder, "/", kWhole), error) &&
        (std::filesystem::exists(pickled, error) ||
         std::filesystem::exists(pickled + ".index.json", error))) {
      return absl::InvalidArgumentError(
          absl::StrCat(folder,
                       " has its weights as pytorch_model.bin, which is not read: save the "
                       "model with safe_serialization=True, as safetensors"));
    }
    RETURN_IF_ERROR(OpenShard(folder, kWhole, &shards));
    return shards;
  }
  ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(index));
  const absl::StatusOr<nlohmann::json> json = ParseJsonObject(text);
  RETURN_IF_ERROR(Annotate(json.status(), index));
  if (!json->contains("weight_map") || !(*json)["weight_map"].is_object()) {
    return absl::DataLossError(absl::StrCat(index, " has no weight_map"));
  }
  for (const auto& [tensor, file] : (*json)["weight_map"].items()) {
    // A name that leads elsewhere could have us read any file.
    if (!file.is_string() || file.get_ref<const std::string&>().find('/') != std::string::npos) {
      return absl::DataLossError(absl::StrCat(index, ": the file of tensor ", absl::CEscape(tensor),
                                              " must be a name within the folder"));
    }
    RETURN_IF_ERROR(OpenShard(folder, file.get<std::string>(), &shards));
    if (shards.places.count(PlainTensorName(tensor)) == 0) {
      return absl::DataLossError(
          absl::StrCat(index, ": tensor ", absl::CEscape(tensor), " is not in its file"));
    }
  }
  return shards;
}

// Returns true for what some files hold besides the parameters: masks and tables that are computed
// anyway.
bool IsBuffer(const std::string& name) {
  return absl::EndsWith(name, ".attn.bias") || absl::EndsWith(name, ".attn.masked_bias") ||
         absl::EndsWith(name, ".rotary_emb.inv_freq");
}

// Returns the name under which a tensor is stored: files of the model without its head lack the
// prefix.
std::string NameThere(const std::string& name, const Shards& shards) {
  for (const char* prefix : {"transformer.", "model."}) {
    const std::string bare(absl::StripPrefix(name, prefix));
    if (shards.places.count(name) == 0 && shards.places.count(bare) > 0) return bare;
  }
  return name;
}

absl::Status ReadTensor(const Shards& shards, const std::string& folder, const std::string& name,
                        const std::vector<uint64_t>& shape, absl::Span<float> out,
                        uint64_t first = 0) {
  const auto place = shards.places.find(name);
  if (place == shards.places.end()) {
    return absl::InvalidArgumentError(absl::StrCat(folder, ": tensor ", name, " is missing"));
  }
  return place->second.file->Read(place->second.stored_name, shape, out, first);
}

constexpr char kHead[] = "lm_head.weight";

bool IsEmbedding(const std::string& name) {
  return name == "transformer.wte.weight" || name == "model.embed_tokens.weight";
}

// Returns the name under which a tensor of `model` is stored. A tied embedding may also be stored
// as the head, or only as the head.
std::string PlaceOf(const v1::ModelSpec& model, const std::string& name, const Shards& shards) {
  const std::string there = NameThere(name, shards);
  const bool missing = shards.places.count(there) == 0;
  return missing && !model.untied() && IsEmbedding(name) && shards.places.count(kHead) > 0 ? kHead
                                                                                           : there;
}

// Returns where a tensor of `model` is stored: by itself, or in one that the experts of its layer
// share. If both are there, the one by itself is left over.
TensorPlace StoredPlaceOf(const v1::ModelSpec& model, const v1::Tensor& tensor,
                          const Shards& shards) {
  const TensorPlace own{PlaceOf(model, tensor.name(), shards), HubShape(model, tensor)};
  if (model.kind() != "llama") return own;
  absl::optional<TensorPlace> fused = FusedPlaceOf(DecoderShapeOf(model), tensor.name(), own.shape);
  if (!fused.has_value()) return own;
  fused->name = NameThere(fused->name, shards);
  return shards.places.count(fused->name) > 0 ? *fused : own;
}

// A head that is stored besides the embedding to which it is tied must equal it.
absl::Status CheckTiedHead(const Shards& shards, const HubModel& model, const std::string& folder) {
  const auto place = shards.places.find(kHead);
  if (model.spec.untied() || place == shards.places.end()) return absl::OkStatus();
  for (const v1::Tensor& tensor : model.manifest.tensors()) {
    if (!IsEmbedding(tensor.name())) continue;
    const auto embedding =
        absl::MakeConstSpan(model.parameters).subspan(tensor.offset(), TensorElements(tensor));
    const std::vector<uint64_t> shape(tensor.shape().begin(), tensor.shape().end());
    const auto& stored = place->second.file->tensors().at(place->second.stored_name);
    std::vector<float> head(embedding.size());
    if (stored.shape == shape) {
      RETURN_IF_ERROR(ReadTensor(shards, folder, kHead, shape, absl::MakeSpan(head)));
    }
    if (stored.shape == shape && std::equal(head.begin(), head.end(), embedding.begin())) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        place->second.file->path(), ": tensor ", kHead, " differs from ", tensor.name(),
        ", and config.json ties the two; set \"tie_word_embeddings\": false there to keep both, or "
        "take ",
        kHead, " out of the file"));
  }
  return absl::OkStatus();
}

absl::Status ReadTensors(const Shards& shards, const std::string& folder, HubModel* model,
                         std::set<std::string>* read) {
  std::vector<float> stored;
  for (const v1::Tensor& tensor : model->manifest.tensors()) {
    const TensorPlace place = StoredPlaceOf(model->spec, tensor, shards);
    read->insert(place.name);
    const absl::Span<float> out =
        absl::MakeSpan(model->parameters).subspan(tensor.offset(), TensorElements(tensor));
    if (!IsTransposed(model->spec, tensor.name())) {
      RETURN_IF_ERROR(ReadTensor(shards, folder, place.name, place.shape, out, place.first));
      continue;
    }
    stored.resize(out.size());
    RETURN_IF_ERROR(ReadTensor(shards, folder, place.name, place.shape, absl::MakeSpan(stored)));
    Transpose(stored, place.shape[0], place.shape[1], out);
  }
  for (const ZeroBias& bias : ZeroBiases(model->spec, model->manifest)) {
    const std::string name = NameThere(bias.name, shards);
    read->insert(name);
    stored.resize(bias.elements);
    RETURN_IF_ERROR(ReadTensor(shards, folder, name, {bias.elements}, absl::MakeSpan(stored)));
    for (const float value : stored) {
      if (value == 0) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(folder, ": tensor ", name,
                       " is not zero, and with exact GELU only models without "
                       "biases are read"));
    }
  }
  return absl::OkStatus();
}

std::string ShardName(size_t index, size_t count) {
  return count == 1 ? kWhole : absl::StrFormat("model-%05d-of-%05d.safetensors", index + 1, count);
}

absl::Status WriteText(const std::string& path, const std::string& text) {
  const absl::Span<const uint8_t> parts[] = {
      AsBytes(absl::MakeConstSpan(text.data(), text.size()))};
  return WriteFileDurably(path, parts);
}

struct Planned {
  const v1::Tensor* tensor;  // null: a zero bias
  std::string name;
  std::vector<uint64_t> shape;
  uint64_t elements;
};

TensorToWrite Convert(const v1::ModelSpec& model, const Planned& plan,
                      absl::Span<const float> parameters, DType dtype) {
  std::vector<float> values(plan.elements, 0.0f);
  if (plan.tensor == nullptr) return MakeTensor(plan.name, plan.shape, dtype, values);
  const auto ours = parameters.subspan(plan.tensor->offset(), plan.elements);
  if (!IsTransposed(model, plan.name)) return MakeTensor(plan.name, plan.shape, dtype, ours);
  Transpose(ours, plan.shape[1], plan.shape[0], absl::MakeSpan(values));
  return MakeTensor(plan.name, plan.shape, dtype, values);
}

// Divides the tensors into files of at most `limit` bytes, each with at least one tensor.
std::vector<std::vector<Planned>> PlanShards(const v1::ModelSpec& model,
                                             const v1::Manifest& manifest, DType dtype,
                                             uint64_t limit) {
  std::vector<Planned> all;
  for (const v1::Tensor& tensor : manifest.tensors()) {
    all.push_back({&tensor, tensor.name(), HubShape(model, tensor), TensorElements(tensor)});
  }
  for (const ZeroBias& bias : ZeroBiases(model, manifest)) {
    all.push_back({nullptr, bias.name, {bias.elements}, bias.elements});
  }
  std::vector<std::vector<Planned>> shards(1);
  uint64_t held = 0;
  for (Planned& plan : all) {
    const uint64_t bytes = plan.elements * DTypeBytes(dtype);
    if (!shards.back().empty() && held + bytes > limit) {
      shards.emplace_back();
      held = 0;
    }
    held += bytes;
    shards.back().push_back(std::move(plan));
  }
  return shards;
}

// A or B of one adapter, with the slices that are wanted of it.
struct JoinedMatrix {
  std::string name;
  std::vector<uint64_t> shape;
  std::vector<float> values;
};

// Joins the first slices of each adapter, up to `rank`: A by rows and B by columns.
std::vector<JoinedMatrix> JoinSlices(const v1::ModelSpec& model, const v1::Manifest& manifest,
                                     absl::Span<const float> parameters, uint32_t rank) {
  const auto slices = static_cast<int>(SlicesOf(model));
  const uint64_t ranks = model.lora_rank() / SlicesOf(model);  // of a slice
  std::vector<JoinedMatrix> matrices;
  for (int first = 0; first < manifest.tensors_size(); first += slices) {
    const v1::Tensor& tensor = manifest.tensors(first);
    const bool by_rows = absl::StrContains(tensor.name(), ".lora_A.");
    JoinedMatrix matrix;
    matrix.name = slices == 1 ? tensor.name()
                              : absl::StrReplaceAll(tensor.name(),
                                                    {{absl::StrCat(".", SliceName(0), "."), "."}});
    const uint64_t rows = by_rows ? rank : tensor.shape(0);
    const uint64_t columns = by_rows ? tensor.shape(1) : rank;
    matrix.shape = {rows, columns};
    matrix.values.resize(rows * columns);
    for (uint64_t slice = 0; slice < rank / ranks; ++slice) {
      const v1::Tensor& part = manifest.tensors(first + static_cast<int>(slice));
      const absl::Span<const float> from = parameters.subspan(part.offset(), TensorElements(part));
      const uint64_t width = part.shape(1);
      const uint64_t begin = by_rows ? slice * ranks * columns : slice * ranks;
      for (uint64_t row = 0; row < part.shape(0); ++row) {
        const auto at = static_cast<std::ptrdiff_t>(begin + row * columns);
        const absl::Span<const float> line = from.subspan(row * width, width);
        std::copy(line.begin(), line.end(), matrix.values.begin() + at);
      }
    }
    matrices.push_back(std::move(matrix));
  }
  return matrices;
}

}  // namespace

absl::StatusOr<HubModel> ReadHubFolder(const std::string& folder) {
  HubModel model;
  const std::string config_path = absl::StrCat(folder, "/config.json");
  ASSIGN_OR_RETURN(const std::string config, ReadWholeFile(config_path));
  absl::StatusOr<v1::ModelSpec> spec = ParseHubConfig(config);
  RETURN_IF_ERROR(Annotate(spec.status(), config_path));
  model.spec = *std::move(spec);
  ASSIGN_OR_RETURN(model.manifest, MakeManifest(model.spec));
  ASSIGN_OR_RETURN(const Shards shards, OpenShards(folder));
  // Checked before memory is taken: a config of a few bytes can say any size.
  uint64_t held = 0;
  for (const auto& [name, file] : shards.files) held += file->bytes().size();
  if (model.manifest.elements() > held) {
    return absl::InvalidArgumentError(absl::StrCat(folder, ": its files have ", held,
                                                   " bytes; the model of config.json has ",
                                                   model.manifest.elements(), " parameters"));
  }
  model.parameters.resize(model.manifest.elements());
  std::set<std::string> read;
  RETURN_IF_ERROR(ReadTensors(shards, folder, &model, &read));
  RETURN_IF_ERROR(CheckTiedHead(shards, model, folder));
  for (const auto& [name, place] : shards.places) {
    if (read.count(name) > 0 || IsBuffer(name)) continue;
    if (name == kHead && !model.spec.untied()) continue;
    return absl::InvalidArgumentError(absl::StrCat(place.file->path(), ": tensor ",
                                                   absl::CEscape(place.stored_name),
                                                   " has no place in the model of config.json"));
  }
  return model;
}

absl::StatusOr<HubModel> ReadImportedFolder(const std::string& folder) {
  HubModel model;
  const std::string section_path = absl::StrCat(folder, "/", kModelSection);
  ASSIGN_OR_RETURN(const std::string section, ReadWholeFile(section_path));
  absl::StatusOr<v1::ModelSpec> spec = ParseModelSection(section);
  RETURN_IF_ERROR(Annotate(spec.status(), section_path));
  model.spec = *std::move(spec);
  ASSIGN_OR_RETURN(model.manifest, MakeManifest(model.spec));
  const std::string path = absl::StrCat(folder, "/", kWhole);
  ASSIGN_OR_RETURN(const auto file, SafetensorsFile::Open(path));
  // Checked before memory is taken: the section can say any size.
  if (model.manifest.elements() > file->bytes().size()) {
    return absl::InvalidArgumentError(absl::StrCat(path, " has ", file->bytes().size(),
                                                   " bytes; the model of ", kModelSection, " has ",
                                                   model.manifest.elements(), " parameters"));
  }
  model.parameters.resize(model.manifest.elements());
  RETURN_IF_ERROR(LoadParameters(path, model.manifest, absl::MakeSpan(model.parameters)));
  return model;
}

bool IsImportedFolder(const std::string& folder) {
  std::error_code error;
  return std::filesystem::exists(absl::StrCat(folder, "/", kModelSection), error) &&
         !std::filesystem::exists(absl::StrCat(folder, "/config.json"), error);
}

std::string ImportedFrom(const std::string& folder) {
  return absl::StrCat(kImportedFrom, absl::CEscape(folder), "\n");
}

std::string FolderOfBase(const std::string& base) {
  const std::filesystem::path folder = std::filesystem::path(base).parent_path();
  std::error_code error;
  if (!std::filesystem::is_regular_file(base, error)) return base;
  if (std::filesystem::exists(folder / "config.json", error)) return folder.string();
  const std::string section = ReadWholeFile((folder / kModelSection).string()).value_or("");
  for (absl::string_view line : absl::StrSplit(section, '\n')) {
    std::string from;
    if (absl::ConsumePrefix(&line, kImportedFrom) && absl::CUnescape(line, &from)) return from;
  }
  return base;
}

absl::Status WriteHubFolder(const std::string& folder, const v1::ModelSpec& model,
                            absl::Span<const float> parameters, const HubWriteOptions& options) {
  ASSIGN_OR_RETURN(const v1::Manifest manifest, MakeManifest(model));
  if (parameters.size() != manifest.elements()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "export: ", parameters.size(), " parameters; the model has ", manifest.elements()));
  }
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  const auto shards = PlanShards(model, manifest, options.dtype, options.shard_bytes);
  nlohmann::ordered_json places = nlohmann::ordered_json::object();
  uint64_t bytes = 0;
  for (size_t i = 0; i < shards.size(); ++i) {
    const std::string name = ShardName(i, shards.size());
    std::vector<TensorToWrite> tensors;
    for (const Planned& plan : shards[i]) {
      tensors.push_back(Convert(model, plan, parameters, options.dtype));
      bytes += tensors.back().bytes.size();
      places[plan.name] = name;
    }
    RETURN_IF_ERROR(WriteTensors(absl::StrCat(folder, "/", name), options.dtype, tensors));
  }
  // What an earlier export left would lead readers astray.
  std::filesystem::remove(absl::StrCat(folder, "/", kIndex), error);
  if (shards.size() > 1) {
    const nlohmann::ordered_json index = {{"metadata", {{"total_size", bytes}}},
                                          {"weight_map", places}};
    RETURN_IF_ERROR(WriteText(absl::StrCat(folder, "/", kIndex), index.dump(2) + "\n"));
  }
  // Last: with it the folder is one of a model.
  const std::string dtype = options.dtype == DType::kF32 ? "float32" : "bfloat16";
  return WriteText(absl::StrCat(folder, "/config.json"), FormatHubConfig(model, dtype));
}

absl::StatusOr<int> CopyTokenizer(const std::string& from, const std::string& to) {
  int copied = 0;
  for (const std::string& name : TokenizerFilesIn(from)) {
    std::error_code error;
    const std::string source = absl::StrCat(from, "/", name);
    const std::filesystem::path target = absl::StrCat(to, "/", name);
    std::filesystem::create_directories(target.parent_path(), error);
    std::filesystem::copy_file(source, target, std::filesystem::copy_options::overwrite_existing,
                               error);
    if (error) {
      return absl::Status(
          absl::ErrnoToStatusCode(error.value()),
          absl::StrCat(source, " cannot be copied to ", target.string(), ": ", error.message()));
    }
    ++copied;
  }
  return copied;
}

uint64_t BytesOfTokenizer(const std::string& from) {
  uint64_t bytes = 0;
  for (const std::string& name : TokenizerFilesIn(from)) {
    std::error_code error;
    const uint64_t size = std::filesystem::file_size(absl::StrCat(from, "/", name), error);
    if (!error) bytes += size;
  }
  return bytes;
}

absl::Status WriteAdapterFolder(const std::string& folder, const v1::ModelSpec& model,
                                absl::Span<const float> parameters, const std::string& base,
                                DType dtype, uint32_t rank) {
  if (rank == 0) rank = model.lora_rank();
  if (rank != model.lora_rank()) {
    RETURN_IF_ERROR(CheckFirstRanks(rank, model.lora_rank(), model.lora_slice(), "--lora-rank"));
  }
  ASSIGN_OR_RETURN(const v1::Manifest manifest, MakeManifest(model));
  if (model.lora_rank() == 0 || parameters.size() != manifest.elements()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "export: ", parameters.size(), " parameters; the adapters have ", manifest.elements()));
  }
  std::vector<TensorToWrite> tensors;
  for (const JoinedMatrix& matrix : JoinSlices(model, manifest, parameters, rank)) {
    tensors.push_back(MakeTensor(absl::StrCat("base_model.model.", matrix.name), matrix.shape,
                                 dtype, matrix.values));
  }
  nlohmann::ordered_json config = {
      {"peft_type", "LORA"},
      {"task_type", "CAUSAL_LM"},
      {"base_model_name_or_path", base},
      {"r", rank},
      {"lora_alpha", model.lora_alpha() * rank / model.lora_rank()},
      {"lora_dropout", 0.0},
      {"bias", "none"},
      {"fan_in_fan_out", model.kind() != "llama"},  // GPT-2's matrices are Conv1D's there
      {"inference_mode", true},
      {"target_modules", nlohmann::ordered_json::array()}};
  for (const std::string& target : model.lora_targets()) config["target_modules"].push_back(target);
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  RETURN_IF_ERROR(WriteTensors(absl::StrCat(folder, "/adapter_model.safetensors"), dtype, tensors));
  return WriteText(absl::StrCat(folder, "/adapter_config.json"), config.dump(2) + "\n");
}

}  // namespace atolld
