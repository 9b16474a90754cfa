#include "daemon/cli/beforehand.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "compression/base/status_macros.h"
#include "compression/base/words.h"
#include "daemon/config/config_sections.h"
#include "daemon/config/data_config.h"
#include "daemon/config/run_record.h"
#include "daemon/config/training_memory.h"
#include "daemon/config/worker_program.h"
#include "daemon/program/format.h"
#include "daemon/program/process.h"

namespace atolld {
namespace {

constexpr int kCountSeconds = 86400;  // a large text on a small machine
constexpr int kDeviceSeconds = 60;    // libtorch may be read from a cold disk
// A worker reads this much in seconds, and a text that is too short is far below it.
constexpr uint64_t kSmallBytes = uint64_t{64} << 20;
constexpr int kFewFiles = 10000;

bool HasText(const Config& config) {
  return config.model.kind != kStubKind && !IsForeign(config.model.kind);
}

bool IsSmall(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_regular_file(path, error)) {
    return std::filesystem::file_size(path, error) <= kSmallBytes;
  }
  uint64_t bytes = 0;
  int files = 0;
  auto file = std::filesystem::recursive_directory_iterator(path, error);
  for (const auto end = decltype(file)(); !error && file != end; file.increment(error)) {
    std::error_code unknown;
    if (!file->is_regular_file(unknown)) continue;
    bytes += file->file_size(unknown);
    if (++files > kFewFiles || bytes > kSmallBytes) return false;
  }
  return true;
}

// Returns the answer of `atoll-worker data inspect` about one source, whose tokenizer is compared
// with those of `initial` and `base`; either may be empty.
absl::StatusOr<nlohmann::json> Inspect(const std::string& worker, const std::string& path,
                                       const DataConfig& data, const std::string& initial = "",
                                       const std::string& base = "") {
  const absl::StatusOr<std::string> answer = RunAndCapture({worker,
                                                            "data",
                                                            "inspect",
                                                            "--path",
                                                            path,
                                                            "--kind",
                                                            IsChat(data) ? "chat" : data.kind,
                                                            "--template",
                                                            data.chat_template,
                                                            "--tokenizer",
                                                            data.tokenizer,
                                                            "--field",
                                                            data.field,
                                                            "--end-of-text",
                                                            data.end_of_text,
                                                            "--on-bad-line",
                                                            data.on_bad_line,
                                                            "--width",
                                                            absl::StrCat(data.width),
                                                            "--validation-fraction",
                                                            absl::StrCat(data.validation_fraction),
                                                            "--tokens",
                                                            "0",
                                                            "--initial",
                                                            initial,
                                                            "--base",
                                                            base,
                                                            "--json",
                                                            "true"},
                                                           kCountSeconds);
  RETURN_IF_ERROR(answer.status());
  nlohmann::json json = nlohmann::json::parse(*answer, nullptr, /*allow_exceptions=*/false);
  for (const char* key : {"vocabulary", "train_tokens", "validation_tokens"}) {
    if (json.is_object() && json.contains(key) && json[key].is_number_unsigned()) continue;
    return absl::InternalError(absl::StrCat(worker, " data inspect gave no ", key, ": ", *answer));
  }
  return json;
}

// Returns the worker's own message, without its name and how it ended.
std::string WordsOf(const absl::Status& status) {
  constexpr absl::string_view kName = ": atoll-worker: ";
  const absl::string_view message = status.message();
  const size_t at = message.find(kName);
  return std::string(at == absl::string_view::npos ? message : message.substr(at + kName.size()));
}

// Returns how many tokens a split must exceed, as the worker has it.
uint32_t ShortestSplit(const Config& config, size_t sources) {
  // Each conversation is a sequence, as long as it is.
  if (IsChat(config.data) && config.data.packing == "none") return 0;
  // One private text that is shorter than the context is a sequence, too (docs/data.md).
  return config.data.is_private && sources == 1 ? 1 : config.model.context;
}

absl::Status TooShort(absl::string_view split, const std::string& path, uint64_t tokens,
                      uint32_t context) {
  if (context <= 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "data '", path, "': the ", split, " split has ", Counted(tokens, "token"),
        "; a party trains from ", context == 0 ? "one conversation" : "two tokens", " on"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("data '", path, "': the ", split, " split has ", tokens,
                   " tokens; a sequence of [model] context = ", context, " needs ",
                   uint64_t{context} + 1, ": a longer text or a smaller context"));
}

}  // namespace

absl::Status CountVocabulary(const std::string& worker, Config* config) {
  if (config->model.vocabulary != 0 || !HasText(*config) || !NeedsCounting(config->data)) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const std::vector<DataSource> sources, SourcesOf(config->data));
  if (sources.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const nlohmann::json json, Inspect(worker, sources[0].path, config->data));
  config->model.vocabulary = json["vocabulary"].get<uint32_t>();
  return absl::OkStatus();
}

absl::StatusOr<DataFound> InspectData(const std::string& worker, Config* config, ConfigUse use) {
  DataFound found;
  if (!HasText(*config)) return found;
  ASSIGN_OR_RETURN(const std::vector<DataSource> sources, SourcesOf(config->data));
  for (const DataSource& source : sources) {
    if (!IsSmall(source.path)) {
      RETURN_IF_ERROR(CountVocabulary(worker, config));
      return found;
    }
  }
  const uint32_t context = ShortestSplit(*config, sources.size());
  const ConfigModel& model = config->model;
  const bool compared = use != ConfigUse::kPeer;
  const std::string initial = compared ? model.initial : "", base = compared ? model.base : "";
  std::string paths;
  for (const DataSource& source : sources) {
    const absl::StatusOr<nlohmann::json> json =
        Inspect(worker, source.path, config->data, initial, base);
    if (!json.ok()) return absl::InvalidArgumentError(WordsOf(json.status()));
    const auto train = (*json)["train_tokens"].get<uint64_t>();
    const auto vocabulary = (*json)["vocabulary"].get<uint64_t>();
    if (train <= context) return TooShort("training", source.path, train, context);
    if (config->model.vocabulary == 0 && NeedsCounting(config->data)) {
      config->model.vocabulary = static_cast<uint32_t>(vocabulary);
    }
    if (config->model.vocabulary != 0 && vocabulary > config->model.vocabulary) {
      return absl::InvalidArgumentError(
          absl::StrCat("data '", source.path, "' has token ids up to ", vocabulary - 1,
                       "; [model] vocabulary = ", config->model.vocabulary,
                       " must be more than that, or left out for what the tokenizer has"));
    }
    found.train_tokens += train;
    found.validation_tokens += (*json)["validation_tokens"].get<uint64_t>();
    absl::StrAppend(&paths, paths.empty() ? "" : ", ", source.path);
  }
  // A party that holds nothing out has no loss of its own, and trains.
  if (!sources.empty() && config->data.validation_fraction > 0 && !config->data.is_private &&
      found.validation_tokens <= context) {
    return TooShort("validation", paths, found.validation_tokens, context);
  }
  found.read = !sources.empty();
  return found;
}

absl::Status CheckDevices(const std::string& worker, const Config& config) {
  if (!config.worker.program.empty() || config.model.kind == kStubKind ||
      config.model.kind == kExternalKind || config.model.kind == kHuggingFaceKind ||
      (!absl::StrContains(config.worker.device, "cuda") && config.worker.device != kMetal)) {
    return absl::OkStatus();
  }
  const absl::Status found =
      RunAndCapture({worker, "probe", "--device", config.worker.device}, kDeviceSeconds).status();
  return found.ok() ? found : absl::InvalidArgumentError(WordsOf(found));
}

absl::Status CheckFits(const Config& config, uint32_t workers, const MemoryLimit& memory) {
  if (IsForeign(config.model.kind) || memory.bytes == 0) return absl::OkStatus();
  // fp32: what daemon and worker share, parameters and update, unless it lies on the disk; on a CPU
  // the worker's own parameters and gradients, too. What an optimiser keeps depends on which it is.
  const bool gpu = absl::StrContains(config.worker.device, "cuda") ||
                   config.model.kind == kStubKind || config.worker.device == "auto";
  const bool on_disk = config.peer.values_in == "disk";
  const double bytes = (on_disk ? 0 : 8) + (gpu ? 0 : 8);
  const auto parameters = static_cast<double>(TrainedParameters(MakeModelSpec(config.model)));
  const double needed = bytes * parameters * workers;
  if (needed <= static_cast<double>(memory.bytes)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "[model] has ", WithThousands(static_cast<uint64_t>(parameters)), " parameters: ", workers,
      workers == 1 ? " peer needs" : " peers on this machine need", " more than ",
      FormatBytes(needed), " of memory, and this process may have ",
      FormatBytes(static_cast<double>(memory.bytes)), memory.source.empty() ? "" : " (",
      memory.source, memory.source.empty() ? "" : ")",
      on_disk ? "" : "; [peer] values_in = \"disk\" keeps 8 bytes a parameter out of it"));
}

absl::Status CheckTrainingFits(const Config& config) {
  if (config.worker.memory == 0) return absl::OkStatus();
  const v1::RunSpec spec = MakeRunSpec(config);
  if (!KnowsTrainingMemory(spec.model(), config.worker.device)) return absl::OkStatus();
  const TrainingFit fit = FitTraining(spec, CopiesOn(config.worker.device), config.worker.memory,
                                      {config.run.peers, config.worker.lora_rank});
  if (fit.fits) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      MisfitText(fit, config.worker.memory),
      " by [worker] memory: raise it, or take a smaller model or a smaller [inner] batch"));
}

}  // namespace atolld
