// `atoll generate`.
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>

#include "daemon/cli/verbs/verbs.h"
#include "daemon/cli/worker_tool.h"
#include "daemon/env/posix_files.h"

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
  const auto print = [](absl::string_view text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  };
  bool begun = false;
  std::function<void(absl::string_view)> stream;
  if (!options.json) {
    stream = [&](absl::string_view more) {
      if (!begun) print(options.request.prompt);
      begun = true;
      print(more);
    };
  }
  const absl::StatusOr<std::string> text = GenerateText(
      files, *worker, std::filesystem::absolute(options.dir).lexically_normal().string(),
      options.request, stream);
  if (!text.ok()) {
    if (begun) print("\n");
    return Report(text.status(), kFailed);
  }
  if (options.json) {
    const nlohmann::ordered_json json = {{"prompt", options.request.prompt}, {"text", *text}};
    std::printf("%s\n",
                json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace).c_str());
  } else {
    if (!begun) print(options.request.prompt);
    print("\n");
  }
  return kDone;
}

}  // namespace

void AddGenerateVerb(CommandLine& command_line) {
  const auto options = std::make_shared<GenerateOptions>();
  const Verb verb = command_line.AddVerb(
      "generate", "Text from a run's newest model",
      "atoll generate --dir atoll-run-20250131-142501 --prompt \"The sea\" --tokens 300",
      [options] { return Generate(*options); });
  verb.Add("--dir", options->dir, "A peer's folder, a local run's, or an exported model's")
      .Required();
  verb.Add("--prompt", options->request.prompt, "What the text begins with").Required();
  verb.Add("--tokens", options->request.tokens, "How many more tokens")
      .Range(uint64_t{1}, uint64_t{1000000});
  verb.Add("--temperature", options->request.temperature, "0: always the likeliest")
      .Range(0.0, 100.0);
  verb.Add("--top-k", options->request.top_k, "Among so many likeliest; 0: among all")
      .Range(uint64_t{0}, uint64_t{1000000});
  verb.Add("--top-p", options->request.top_p, "Among the likeliest of this share; 1: all")
      .Range(0.0, 1.0);
  verb.Add("--stop", options->request.stops, "End before this text; may be given again");
  verb.Add("--seed", options->request.seed, "The same seed gives the same text");
  verb.Add("--tokenizer", options->request.tokenizer, "A file [the run's, the folder's]");
  verb.Add("--base", options->request.base, "Of adapters: the file of their base");
  verb.Add("--worker", options->worker, "The program [atoll-worker beside this one]");
  verb.Flag("--json", options->json, "Print as JSON");
}

}  // namespace atolld
