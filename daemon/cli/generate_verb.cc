// `atoll generate`.
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "daemon/cli/verbs.h"
#include "daemon/cli/worker_tool.h"
#include "daemon/posix_files.h"

namespace atolld {
namespace {

struct GenerateOptions {
  std::string dir;
  std::string worker;
  GenerateRequest request;
  bool json = false;
};

int Generate(const GenerateOptions& options) {
  PosixFiles files;
  const absl::StatusOr<std::string> worker = FindWorker(options.worker);
  if (!worker.ok()) return Report(worker.status(), kFailed);
  const absl::StatusOr<std::string> text = GenerateText(
      files, *worker, std::filesystem::absolute(options.dir).lexically_normal().string(),
      options.request);
  if (!text.ok()) return Report(text.status(), kFailed);
  if (options.json) {
    const nlohmann::ordered_json json = {{"prompt", options.request.prompt}, {"text", *text}};
    std::printf("%s\n",
                json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace).c_str());
  } else {
    std::printf("%s\n", text->c_str());
  }
  return kDone;
}

}  // namespace

void AddGenerateVerb(CommandLine& command_line) {
  const auto options = std::make_shared<GenerateOptions>();
  CLI::App* verb = command_line.AddVerb(
      "generate", "Text from a run's newest model",
      "atoll generate --dir atoll-run-20250131-142501 --prompt \"The sea\" --tokens 300",
      [options] { return Generate(*options); });
  verb->add_option("--dir", options->dir, "A peer's folder, or a local run's")->required();
  verb->add_option("--prompt", options->request.prompt, "What the text begins with")->required();
  verb->add_option("--tokens", options->request.tokens, "How many more tokens")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1000000}));
  verb->add_option("--temperature", options->request.temperature, "0: always the likeliest")
      ->check(CLI::Range(0.0, 100.0));
  verb->add_option("--top-k", options->request.top_k, "Among so many likeliest; 0: among all")
      ->check(CLI::Range(uint64_t{0}, uint64_t{1000000}));
  verb->add_option("--seed", options->request.seed, "The same seed gives the same text");
  verb->add_option("--base", options->request.base, "Of adapters: the file of their base");
  verb->add_option("--worker", options->worker, "The program [atoll-worker beside this one]");
  verb->add_flag("--json", options->json, "Print as JSON");
}

}  // namespace atolld
