// `atoll eval`.
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "absl/strings/str_format.h"
#include "daemon/cli/format.h"
#include "daemon/cli/verbs/verbs.h"
#include "daemon/cli/worker_tool.h"
#include "daemon/env/posix_files.h"

namespace atolld {
namespace {

struct EvalOptions {
  std::string dir;
  std::string worker;
  EvaluationRequest request;
  bool json = false;
};

int Evaluate(const EvalOptions& options) {
  PosixFiles files;
  const absl::StatusOr<std::string> worker = FindWorker(options.worker);
  if (!worker.ok()) return Report(worker.status(), kFailed);
  const absl::StatusOr<ModelQuality> quality =
      EvaluateModel(files, *worker, AbsoluteFolder(options.dir), options.request);
  if (!quality.ok()) {
    return Report(quality.status(),
                  absl::IsInvalidArgument(quality.status()) ? kWrongCall : kFailed);
  }
  if (options.json) {
    nlohmann::ordered_json json = nlohmann::ordered_json::object();
    if (quality->version.has_value()) json["version"] = *quality->version;
    json["tokens"] = quality->tokens;
    json["loss"] = quality->loss;
    json["perplexity"] = quality->perplexity;
    if (quality->bits_per_byte > 0) json["bits_per_byte"] = quality->bits_per_byte;
    std::printf("%s\n", json.dump(2).c_str());
    return kDone;
  }
  std::vector<std::vector<std::string>> rows;
  if (quality->version.has_value()) rows.push_back({"version", WithThousands(*quality->version)});
  rows.push_back({"validation tokens", WithThousands(quality->tokens)});
  rows.push_back({"loss", absl::StrFormat("%.4f nats a token", quality->loss)});
  rows.push_back({"perplexity", absl::StrFormat("%.3f", quality->perplexity)});
  if (quality->bits_per_byte > 0) {
    rows.push_back({"bits per byte", absl::StrFormat("%.4f", quality->bits_per_byte)});
  }
  for (const std::string& line : AlignColumns(rows, "<<")) std::printf("%s\n", line.c_str());
  return kDone;
}

}  // namespace

void AddEvalVerb(CommandLine& command_line) {
  const auto options = std::make_shared<EvalOptions>();
  const Verb verb = command_line.AddVerb(
      "eval", "How good a run's newest model is, over the whole validation split",
      "atoll eval --dir atoll-run-20250131-142501 --json",
      [options] { return Evaluate(*options); });
  verb.Add("--dir", options->dir, "A peer's folder, a local run's, or an exported model's")
      .Required();
  EvaluationRequest& request = options->request;
  verb.Add("--data", request.data, "The run's text [as the peer's config says]");
  verb.Add("--tokenizer", request.tokenizer, "Of an exported model: a file [its own]");
  verb.Add("--validation-fraction", request.validation_fraction,
           "Of an exported model: the tail of the text that it is evaluated on")
      .Range(1e-6, 0.5);
  verb.Add("--base", request.base, "Of adapters: the file of their base");
  verb.Add("--threads", request.threads, "CPU threads").Range(1, 1024);
  verb.Add("--worker", options->worker, "The program [atoll-worker beside this one]");
  verb.Flag("--json", options->json, "Print as JSON");
}

}  // namespace atolld
