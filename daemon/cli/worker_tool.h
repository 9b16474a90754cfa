// Runs atoll-worker for the command line with a model: to generate text, to evaluate the model, and
// to export or import it.
//
// The model is given by the folder of a peer, of a saved state, or of a local run, of which the
// peer with the newest version is used. GenerateText and EvaluateModel also take a model's folder
// in Hugging Face's format. Parameters are passed to the worker through a pipe, so that only the
// output needs space on a disk. The functions block.
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
  std::string base;            // the file of the base, for a model of adapters
  std::string tokenizer = {};  // a file; if empty, the tokenizer of the run or of the folder
  // Draws only from the likeliest tokens that together have this share; 1 means from all.
  double top_p = 1;
  // The text ends before the first of these that appears in it.
  std::vector<std::string> stops = {};
  // "chatml" or "llama3": the prompt is the message of a user, and the answer is generated. If it
  // is empty, the prompt is continued as plain text.
  std::string chat_template = {};
};

struct EvaluationRequest {
  std::string data;  // the text of a run; if empty, the text that the peer's config names
  uint32_t threads = 1;
  std::string base = {};  // the file of the base, for a model of adapters
  // The tokenizer for a model without a run; if empty, the one in its folder.
  std::string tokenizer;
  // For a model without a run: the share of the text, at its end, that is used.
  double validation_fraction = 0.1;
};

struct ModelQuality {
  std::optional<uint64_t> version;  // the version of the replica; not set for a model without a run
  uint64_t tokens = 0;
  double loss = 0;  // in nats per token
  double perplexity = 0;
  double bits_per_byte = 0;  // 0 if the bytes of the run's tokens are not known
};

// The file with the run's tokenizer that a worker leaves in its peer's folder, unless tokens are
// bytes.
inline constexpr char kRunTokenizer[] = "worker-state.tokenizer";
// The file in which a worker keeps its state from round to round, including its personal tensors.
inline constexpr char kWorkerState[] = "worker-state";

// Returns the absolute form of a path as users type it ("DIR/", or relative). The functions below
// need absolute paths.
std::string AbsoluteFolder(const std::string& path);

// Returns the folders of the peers in the local run's folder `dir`, or only `dir` if it is a peer's
// folder. Fails with NOT_FOUND if it is neither.
absl::StatusOr<std::vector<std::string>> ReplicaFolders(Files& files, const std::string& dir);

// Returns the folder among ReplicaFolders that has the newest version, and the first of them if
// there are several.
absl::StatusOr<std::string> FurthestReplica(Files& files, const std::string& dir);

// Returns the worker's path: `program` or, if that is empty, the worker for a model of this kind
// beside this program. Fails with NOT_FOUND if it does not exist.
absl::StatusOr<std::string> FindWorker(const std::string& program, const std::string& kind = "gpt");

// Does the same for the kind of model of the run in `dir`.
absl::StatusOr<std::string> FindWorkerOf(Files& files, const std::string& program,
                                         const std::string& dir);

// Returns the prompt and the model's continuation. `on_text`, if given, gets the continuation while
// it is generated.
absl::StatusOr<std::string> GenerateText(
    Files& files, const std::string& worker, const std::string& dir, const GenerateRequest& request,
    const std::function<void(absl::string_view)>& on_text = {});

// Evaluates the model on the whole validation split; for a run, this is the split that the run
// holds out. Every call with the same number of threads gives the same result.
absl::StatusOr<ModelQuality> EvaluateModel(Files& files, const std::string& worker,
                                           const std::string& dir,
                                           const EvaluationRequest& request);

struct HubExport {
  std::string output;  // the folder to write
  std::string dtype = "fp32";
  std::string tokenizer;   // the folder of a tokenizer to add; empty for none
  std::string base;        // for a model of adapters: the name of the base, for PEFT
  uint64_t lora_rank = 0;  // for adapters with slices: the first ranks; 0 means all
  bool force = false;      // true to overwrite an existing model
};

struct Exported {
  uint64_t version = 0;  // the version of the replica
  Digest state_digest;
  std::vector<std::string> files;  // the names of the files in the folder
};

// Writes the model to a folder in Hugging Face's format, or in PEFT's for adapters. Fails with
// INVALID_ARGUMENT if the folder already holds a model, or if it is also an input.
absl::StatusOr<Exported> ExportHubFolder(Files& files, const std::string& worker,
                                         const std::string& dir, const HubExport& request);

// The reverse of ExportHubFolder: converts the model in the folder `input` to the file `output`,
// with which a run can begin. Returns the worker's message about the result.
absl::StatusOr<std::string> ImportHubFolder(const std::string& worker, const std::string& input,
                                            const std::string& output, bool force);

// Writes the model to the file `out` in the safetensors format.
absl::Status ExportModel(Files& files, const std::string& worker, const std::string& dir,
                         const std::string& out);

}  // namespace atolld
