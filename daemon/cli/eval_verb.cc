// `atoll eval`.
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "absl/strings/str_format.h"
#include "daemon/cli/format.h"
#include "daemon/cli/verbs.h"
#include "daemon/cli/worker_tool.h"
#include "daemon/posix_files.h"

namespace atolld {
namespace {

struct EvalOptions {
  std::string dir;
  std::string data;
  std::string base;
  std::string worker;
  uint32_t threads = 1;
  bool json = false;
};

int Evaluate(const EvalOptions& options) {
  PosixFiles files;
  const absl::StatusOr<std::string> worker = FindWorker(options.worker);
  if (!worker.ok()) return Report(worker.status(), kFailed);
  const absl::StatusOr<ModelQuality> quality = EvaluateModel(
      files, *worker, AbsoluteFolder(options.dir), options.data, options.threads, options.base);
  if (!quality.ok()) return Report(quality.status(), kFailed);
  if (options.json) {
    nlohmann::ordered_json json = {{"version", quality->version},
                                   {"tokens", quality->tokens},
                                   {"loss", quality->loss},
                                   {"perplexity", quality->perplexity}};
    if (quality->bits_per_byte > 0) json["bits_per_byte"] = quality->bits_per_byte;
    std::printf("%s\n", json.dump(2).c_str());
    return kDone;
  }
  std::vector<std::vector<std::string>> rows = {
      {"version", WithThousands(quality->version)},
      {"validation tokens", WithThousands(quality->tokens)},
      {"loss", absl::StrFormat("%.4f nats a token", quality->loss)},
      {"perplexity", absl::StrFormat("%.3f", quality->perplexity)}};
  if (quality->bits_per_byte > 0) {
    rows.push_back({"bits per byte", absl::StrFormat("%.4f", quality->bits_per_byte)});
  }
  for (const std::string& line : AlignColumns(rows, "<<")) std::printf("%s\n", line.c_str());
  return kDone;
}

}  // namespace

void AddEvalVerb(CommandLine& command_line) {
  const auto options = std::make_shared<EvalOptions>();
  CLI::App* verb = command_line.AddVerb(
      "eval", "How good a run's newest model is, over the whole validation split",
      "atoll eval --dir atoll-run-20250131-142501 --json",
      [options] { return Evaluate(*options); });
  verb->add_option("--dir", options->dir, "A peer's folder, or a local run's")->required();
  verb->add_option("--data", options->data, "The run's text [as the peer's config says]");
  verb->add_option("--base", options->base, "Of adapters: the file of their base");
  verb->add_option("--threads", options->threads, "CPU threads")->check(CLI::Range(1, 1024));
  verb->add_option("--worker", options->worker, "The program [atoll-worker beside this one]");
  verb->add_flag("--json", options->json, "Print as JSON");
}

}  // namespace atolld
