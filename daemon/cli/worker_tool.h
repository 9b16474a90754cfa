// What the command line has atoll-worker do with a model: text, its quality, safetensors.
//
// A folder is a peer's, a saved state's, or a local run's (then the peer that is furthest is
// taken). Text and quality are had of a model's folder as Hugging Face has it, too. Parameters go
// to the worker through a pipe, so that no disk but that of the output needs room. Blocking.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "daemon/config/config.h"
#include "daemon/env/env.h"
#include "membership/history/digest.h"

namespace atolld {

struct GenerateRequest {
  std::string prompt;
  uint64_t tokens = 200;
  double temperature = 0.8;
  uint64_t top_k = 40;
  uint64_t seed = 1337;
  std::string base;                     // of adapters: the file beneath them
  std::string tokenizer = {};           // file; empty: the run's own, or the folder's
  double top_p = 1;                     // of the likeliest that make up this share; 1: of all
  std::vector<std::string> stops = {};  // the text ends before the first of them
  // "chatml", "llama3": the prompt is what a user says, and the answer is asked for; empty: neither
  std::string chat_template = {};
};

struct EvaluationRequest {
  std::string data;  // of a run its text; empty: what the peer's config names
  uint32_t threads = 1;
  std::string base = {};             // of adapters: the file beneath them
  std::string tokenizer;             // of a model of no run; empty: the folder's own
  double validation_fraction = 0.1;  // of a model of no run: the tail of the text that counts
};

struct ModelQuality {
  std::optional<uint64_t> version;  // of the replica; none: a model of no run
  uint64_t tokens = 0;
  double loss = 0;  // nats a token
  double perplexity = 0;
  double bits_per_byte = 0;  // 0: nobody knows what the run's tokens mean
};

// What a worker leaves in its peer's folder where the run's text is no bytes.
inline constexpr char kRunTokenizer[] = "worker-state.tokenizer";
// What a worker keeps from round to round, its personal tensors among it.
inline constexpr char kWorkerState[] = "worker-state";

// A path as it was typed, "DIR/" or relative, as the files below take it.
std::string AbsoluteFolder(const std::string& path);

// The folders of the peers under `dir`, or `dir` itself if it is a peer's. NOT_FOUND if it is
// neither.
absl::StatusOr<std::vector<std::string>> ReplicaFolders(Files& files, const std::string& dir);

// Of these the one that is furthest; the first of equals.
absl::StatusOr<std::string> FurthestReplica(Files& files, const std::string& dir);

// The worker's path: `program`, or if that is empty the one for a model of `kind`, beside this
// program. NOT_FOUND if it is not there.
absl::StatusOr<std::string> FindWorker(const std::string& program, const std::string& kind = "gpt");

// The same, of the kind of the run under `dir`.
absl::StatusOr<std::string> FindWorkerOf(Files& files, const std::string& program,
                                         const std::string& dir);

// The prompt and what the model makes of it. `on_text`, where given, sees the latter as it is made.
absl::StatusOr<std::string> GenerateText(
    Files& files, const std::string& worker, const std::string& dir, const GenerateRequest& request,
    const std::function<void(absl::string_view)>& on_text = {});

// How well the model does on the whole validation split; of a run that is the split which it has
// held out. The same on every call with as many threads.
absl::StatusOr<ModelQuality> EvaluateModel(Files& files, const std::string& worker,
                                           const std::string& dir,
                                           const EvaluationRequest& request);

struct HubExport {
  std::string output;  // folder
  std::string dtype = "fp32";
  std::string tokenizer;  // folder; empty: none
  std::string base;       // of adapters: what PEFT is told
  bool force = false;     // write over a model that is there
};

struct Exported {
  uint64_t version = 0;  // of the replica
  Digest state_digest;
  std::vector<std::string> files;  // names in the folder
};

// Writes the model to a folder as Hugging Face has it; adapters as PEFT has them. INVALID_ARGUMENT:
// the folder holds a model already, or is an input.
absl::StatusOr<Exported> ExportHubFolder(Files& files, const std::string& worker,
                                         const std::string& dir, const HubExport& request);

// The reverse: a file that a run can begin with, in `output`. Returns what the worker says of it.
absl::StatusOr<std::string> ImportHubFolder(const std::string& worker, const std::string& input,
                                            const std::string& output, bool force);

// Writes the model as safetensors to `out`.
absl::Status ExportModel(Files& files, const std::string& worker, const std::string& dir,
                         const std::string& out);

}  // namespace atolld
