#include "daemon/cli/worker_tool.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/types/span.h"
#include "compression/base/status_macros.h"
#include "daemon/cli/local_layout.h"
#include "daemon/config/config.h"
#include "daemon/config/config_sections.h"
#include "daemon/config/data_config.h"
#include "daemon/config/worker_program.h"
#include "daemon/program/process.h"
#include "daemon/replica/state/layout.h"
#include "daemon/replica/state/state_stream.h"
#include "daemon/replica/state/verify.h"
#include "membership/history/run_files.h"

namespace atolld {
namespace {

// A CPU makes one token at a time: this is far longer than a person waits for a text.
constexpr int kGenerateSeconds = 3600;
constexpr int kExportSeconds = 3600;
constexpr int kEvaluateSeconds = 86400;  // a large split on a small machine

using OnText = std::function<void(absl::string_view)>;

// Returns true for a folder that `transformers`, `atoll export` or `atoll import` has written.
bool IsModelFolder(Files& files, const std::string& dir) {
  if (files.Exists(GenesisPath(dir))) return false;
  return files.Exists(absl::StrCat(dir, "/config.json")) ||
         files.Exists(absl::StrCat(dir, "/model.toml"));
}

// The state of a run from which something was made.
struct StateOfRun {
  uint64_t version = 0;
  Digest digest{};
};

// Feeds the worker's --state: the spec, then theta as it is made. Nothing is written to disk.
absl::StatusOr<Digest> FeedState(StateStream& state, const WriteInput& write) {
  const auto number = [&](uint64_t value) {
    return write(absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(&value), sizeof value));
  };
  const std::string spec = state.genesis().spec().SerializeAsString();
  RETURN_IF_ERROR(number(spec.size()));
  RETURN_IF_ERROR(write(BytesOf(spec)));
  RETURN_IF_ERROR(number(state.elements()));
  return state.Run(write);
}

// The state of a Hugging Face model has only the values, and that of adapters nothing about their
// base: the replica's config names the model and the base.
absl::Status NameModelBeneath(Files& files, const std::string& replica, const v1::ModelSpec& model,
                              const std::string& mode, std::vector<std::string>* argv) {
  const bool hub = model.kind() == kHuggingFaceKind;
  if (!hub && model.lora_rank() == 0) return absl::OkStatus();
  if (hub && mode != "export") {
    return absl::FailedPreconditionError(
        absl::StrCat("a model of kind 'huggingface' has no `atoll ", mode,
                     "`: write its folder with `atoll export`, and use transformers on that"));
  }
  if (std::find(argv->begin(), argv->end(), "--base") != argv->end()) return absl::OkStatus();
  const std::string path = absl::StrCat(replica, "/config.toml");
  if (files.Exists(path)) {
    const absl::StatusOr<Config> config = LoadConfig(path, ConfigUse::kAny);
    const std::string base = !config.ok() ? "" : hub ? config->model.path : config->model.base;
    if (!base.empty()) {
      argv->insert(argv->end(), {"--base", base});
      return absl::OkStatus();
    }
  }
  return absl::FailedPreconditionError(absl::StrCat(
      path, hub ? " names no [model] path; name the run's folder with --base"
                : " names no [model] base; name what the adapters are of with --base"));
}

// Runs the worker in `mode` on the newest state under `dir`, or on the model in it, with further
// arguments after these.
absl::StatusOr<std::string> RunOnModel(Files& files, const std::string& worker,
                                       const std::string& dir, const std::string& mode,
                                       const std::vector<std::string>& more, int seconds,
                                       const OnText& on_text = {},
                                       std::optional<StateOfRun>* of = nullptr) {
  if (IsModelFolder(files, dir)) {
    std::vector<std::string> argv = {worker, mode, "--model", dir};
    argv.insert(argv.end(), more.begin(), more.end());
    return RunAndCapture(argv, seconds, on_text);
  }
  ASSIGN_OR_RETURN(const std::string replica, FurthestReplica(files, dir));
  ASSIGN_OR_RETURN(const std::unique_ptr<StateStream> state,
                   StateStream::Open(files, replica, std::nullopt));
  std::vector<std::string> argv = {worker, mode, "--state", "-"};
  argv.insert(argv.end(), more.begin(), more.end());
  RETURN_IF_ERROR(NameModelBeneath(files, replica, state->genesis().spec().model(), mode, &argv));
  const std::string kept = absl::StrCat(replica, "/", kWorkerState);
  if (state->genesis().spec().model().local_size() > 0 && files.Exists(kept)) {
    argv.insert(argv.end(), {"--personal", kept});
  }
  // Where the run's text is no bytes, its worker has left the tokenizer there.
  const std::string tokenizer = absl::StrCat(replica, "/", kRunTokenizer);
  const bool named = std::find(more.begin(), more.end(), "--tokenizer") != more.end();
  if (mode == "generate" && !named && files.Exists(tokenizer)) {
    argv.insert(argv.end(), {"--tokenizer", tokenizer});
  }
  StateOfRun made_of{state->version(), {}};
  const auto feed = [&](const WriteInput& write) {
    const absl::StatusOr<Digest> digest = FeedState(*state, write);
    if (digest.ok()) made_of.digest = *digest;
    return digest.status();
  };
  absl::StatusOr<std::string> output = RunAndCapture(argv, seconds, on_text, feed);
  if (output.ok() && of != nullptr) *of = made_of;
  return output;
}

// Returns the file of the run's tokenizer: the config's, the one that the peer has fetched, or the
// one that its worker left in the folder. Empty if the text has none.
std::string TokenizerOf(Files& files, const std::string& replica, const v1::RunSpec& spec,
                        const absl::StatusOr<Config>& config) {
  if (spec.data().tokenizer() != "file") return "";
  std::vector<std::string> places;
  if (config.ok() && IsTokenizerFile(config->data.tokenizer)) {
    places.push_back(config->data.tokenizer);
  }
  if (const v1::RunFile* const listed = FindRunFile(spec, kTokenizerRole)) {
    places.push_back(RunFilePath(replica, *listed));
  }
  places.push_back(absl::StrCat(replica, "/", kRunTokenizer));
  for (const std::string& place : places) {
    if (files.Exists(place)) return place;
  }
  return "";
}

// Returns the data of a peer of this run, in the form that its worker gets: `data` in place of the
// config's, if not empty, and the run's tokenizer.
absl::StatusOr<std::string> DataOf(Files& files, const std::string& dir, const std::string& data) {
  ASSIGN_OR_RETURN(const std::string replica, FurthestReplica(files, dir));
  const std::string path = absl::StrCat(replica, "/config.toml");
  const absl::StatusOr<Config> config =
      files.Exists(path) ? LoadConfig(path, ConfigUse::kAny)
                         : absl::NotFoundError(absl::StrCat(
                               path, " does not exist, so --data must name the run's text"));
  std::string places = data;
  if (data.empty()) {
    RETURN_IF_ERROR(config.status());
    places = WorkerPlaces(config->data);
  }
  if (places.empty()) {
    return absl::NotFoundError(
        absl::StrCat(path, " names no [data] path, so --data must name the run's text"));
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<StateStream> state,
                   StateStream::Open(files, replica, std::nullopt));
  const std::string tokenizer = TokenizerOf(files, replica, state->genesis().spec(), config);
  return tokenizer.empty() ? places : WithTokenizer(places, tokenizer);
}

}  // namespace

std::string AbsoluteFolder(const std::string& path) {
  std::filesystem::path normal = std::filesystem::absolute(path).lexically_normal();
  if (!normal.has_filename()) normal = normal.parent_path();  // "DIR/"
  return normal.string();
}

absl::StatusOr<std::vector<std::string>> ReplicaFolders(Files& files, const std::string& dir) {
  if (!files.Exists(dir)) return absl::NotFoundError(absl::StrCat(dir, " does not exist"));
  if (files.Exists(GenesisPath(dir))) return std::vector<std::string>{dir};
  absl::StatusOr<std::vector<LocalProcess>> processes = ReadPeersFile(files, dir);
  if (absl::IsNotFound(processes.status())) {
    return absl::NotFoundError(absl::StrCat(dir, " is neither a peer's folder nor a local run's"));
  }
  RETURN_IF_ERROR(processes.status());
  std::vector<std::string> folders;
  for (const LocalProcess& process : *processes) {
    if (process.role == "peer" && files.Exists(GenesisPath(process.dir))) {
      folders.push_back(process.dir);
    }
  }
  if (folders.empty()) {
    return absl::NotFoundError(absl::StrCat(dir, " holds no peer that has a state yet"));
  }
  return folders;
}

absl::StatusOr<std::string> FurthestReplica(Files& files, const std::string& dir) {
  ASSIGN_OR_RETURN(const std::vector<std::string> folders, ReplicaFolders(files, dir));
  if (folders.size() == 1) return folders.front();
  std::optional<uint64_t> newest;
  std::string furthest;
  absl::Status last_error = absl::NotFoundError(absl::StrCat(dir, " holds no replica"));
  for (const std::string& folder : folders) {
    const absl::StatusOr<std::vector<LogEntryInfo>> entries = ListLog(files, folder);
    if (!entries.ok()) {
      last_error = entries.status();
      continue;
    }
    const uint64_t version = entries->empty() ? 0 : entries->back().header.version();
    if (newest.has_value() && version <= *newest) continue;
    newest = version;
    furthest = folder;
  }
  if (!newest.has_value()) return last_error;
  return furthest;
}

absl::StatusOr<std::string> FindWorker(const std::string& program, const std::string& kind) {
  const std::string name = WorkerProgramOf(kind);
  std::string path = program;
  if (path.empty() && kind == kHuggingFaceKind) {
    path = FindWorkerProgram(kind, ProgramFolder());
    if (path.empty()) return absl::NotFoundError(NoWorkerText(kind));
  }
  if (path.empty()) path = absl::StrCat(ProgramFolder(), "/", name);
  if (access(path.c_str(), X_OK) == 0) return path;
  return absl::NotFoundError(
      absl::StrCat(path, " is missing or cannot be executed; the target ", name, " builds it"));
}

absl::StatusOr<std::string> FindWorkerOf(Files& files, const std::string& program,
                                         const std::string& dir) {
  std::string kind = "gpt";  // of a model's folder, and where there is no run to tell
  if (program.empty() && !IsModelFolder(files, dir)) {
    const absl::StatusOr<std::string> replica = FurthestReplica(files, dir);
    if (replica.ok()) {
      ASSIGN_OR_RETURN(const std::unique_ptr<StateStream> state,
                       StateStream::Open(files, *replica, std::nullopt));
      if (state->genesis().spec().model().kind() == kHuggingFaceKind) kind = kHuggingFaceKind;
    }
  }
  return FindWorker(program, kind);
}

absl::StatusOr<std::string> GenerateText(Files& files, const std::string& worker,
                                         const std::string& dir, const GenerateRequest& request,
                                         const OnText& on_text) {
  std::vector<std::string> more = {"--prompt",      request.prompt,
                                   "--tokens",      absl::StrCat(request.tokens),
                                   "--temperature", absl::StrCat(request.temperature),
                                   "--top-k",       absl::StrCat(request.top_k),
                                   "--top-p",       absl::StrCat(request.top_p),
                                   "--seed",        absl::StrCat(request.seed)};
  if (!request.stops.empty()) {
    more.insert(more.end(), {"--stop", absl::StrJoin(request.stops, "\x1f")});
  }
  if (!request.base.empty()) more.insert(more.end(), {"--base", request.base});
  if (!request.tokenizer.empty()) more.insert(more.end(), {"--tokenizer", request.tokenizer});
  const bool asked = !request.chat_template.empty();
  if (asked) more.insert(more.end(), {"--template", request.chat_template});
  ASSIGN_OR_RETURN(const std::string text,
                   RunOnModel(files, worker, dir, "generate", more, kGenerateSeconds, on_text));
  return asked ? text : absl::StrCat(request.prompt, text);
}

absl::StatusOr<ModelQuality> EvaluateModel(Files& files, const std::string& worker,
                                           const std::string& dir,
                                           const EvaluationRequest& request) {
  std::string path = request.data.empty() ? request.data : AbsoluteFolder(request.data);
  std::vector<std::string> more = {"--threads", absl::StrCat(request.threads)};
  if (IsModelFolder(files, dir)) {
    if (path.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(dir, " is a model of no run; --data must name the text to evaluate it on"));
    }
    more.insert(more.end(), {"--validation-fraction", absl::StrCat(request.validation_fraction)});
    if (!request.tokenizer.empty()) more.insert(more.end(), {"--tokenizer", request.tokenizer});
  } else if (!request.tokenizer.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("--tokenizer is for a model of no run; ", dir,
                                                   " is a run's, and has its own"));
  }
  if (!IsModelFolder(files, dir)) {
    ASSIGN_OR_RETURN(path, DataOf(files, dir, path));
  }
  more.insert(more.end(), {"--data", path});
  if (!request.base.empty()) more.insert(more.end(), {"--base", request.base});
  ModelQuality quality;
  std::optional<StateOfRun> of;
  ASSIGN_OR_RETURN(const std::string answer,
                   RunOnModel(files, worker, dir, "eval", more, kEvaluateSeconds, {}, &of));
  if (of.has_value()) quality.version = of->version;
  const nlohmann::json json = nlohmann::json::parse(answer, nullptr, /*allow_exceptions=*/false);
  for (const char* key : {"tokens", "loss", "perplexity"}) {
    if (json.is_object() && json.contains(key) && json[key].is_number()) continue;
    return absl::InternalError(absl::StrCat(worker, " eval gave no ", key, ": ", answer));
  }
  quality.tokens = json["tokens"];
  quality.loss = json["loss"];
  quality.perplexity = json["perplexity"];
  quality.bits_per_byte = json.value("bits_per_byte", 0.0);
  return quality;
}

absl::Status ExportModel(Files& files, const std::string& worker, const std::string& dir,
                         const std::string& out) {
  return RunOnModel(files, worker, dir, "export", {"--out", out}, kExportSeconds).status();
}

absl::StatusOr<Exported> ExportHubFolder(Files& files, const std::string& worker,
                                         const std::string& dir, const HubExport& request) {
  std::vector<std::string> more = {"--output", request.output, "--dtype", request.dtype};
  if (!request.tokenizer.empty()) more.insert(more.end(), {"--tokenizer", request.tokenizer});
  if (!request.base.empty()) more.insert(more.end(), {"--base", request.base});
  if (request.lora_rank != 0) {
    more.insert(more.end(), {"--lora-rank", absl::StrCat(request.lora_rank)});
  }
  if (request.force) more.insert(more.end(), {"--force", "true"});
  std::optional<StateOfRun> of;
  ASSIGN_OR_RETURN(const std::string names,
                   RunOnModel(files, worker, dir, "export", more, kExportSeconds, {}, &of));
  Exported exported;
  if (of.has_value()) {
    exported.version = of->version;
    exported.state_digest = of->digest;
  }
  exported.files = absl::StrSplit(names, '\n', absl::SkipEmpty());
  return exported;
}

absl::StatusOr<std::string> ImportHubFolder(const std::string& worker, const std::string& input,
                                            const std::string& output, bool force) {
  return RunAndCapture(
      {worker, "import", "--input", input, "--output", output, "--force", force ? "true" : "false"},
      kExportSeconds);
}

}  // namespace atolld
