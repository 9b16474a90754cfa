// `atoll export` and `atoll import`: models in Hugging Face's folders.
#include <cstdio>
#include <memory>
#include <string>

#include "daemon/cli/verbs/verbs.h"
#include "daemon/cli/worker_tool.h"
#include "daemon/env/posix_files.h"

namespace atolld {
namespace {

struct ExportOptions {
  std::string dir;
  std::string worker;
  HubExport request;
};

int Export(const ExportOptions& options) {
  PosixFiles files;
  const absl::StatusOr<std::string> worker = FindWorker(options.worker);
  if (!worker.ok()) return Report(worker.status(), kFailed);
  HubExport request = options.request;
  request.output = AbsoluteFolder(request.output);
  const absl::Status status = ExportHubFolder(files, *worker, AbsoluteFolder(options.dir), request);
  if (!status.ok()) return Report(status, kFailed);
  std::printf("%s\n", request.output.c_str());
  return kDone;
}

struct ImportOptions {
  std::string input;
  std::string output;
  std::string worker;
};

int Import(const ImportOptions& options) {
  const absl::StatusOr<std::string> worker = FindWorker(options.worker);
  if (!worker.ok()) return Report(worker.status(), kFailed);
  const absl::StatusOr<std::string> said =
      ImportHubFolder(*worker, AbsoluteFolder(options.input), AbsoluteFolder(options.output));
  if (!said.ok()) return Report(said.status(), kFailed);
  std::fputs(said->c_str(), stdout);
  return kDone;
}

}  // namespace

void AddExportVerb(CommandLine& command_line) {
  const auto options = std::make_shared<ExportOptions>();
  const Verb verb = command_line.AddVerb(
      "export", "A run's newest model as a folder that Hugging Face's libraries load",
      "atoll export --dir atoll-run-20250131-142501 --output my-model --dtype bf16",
      [options] { return Export(*options); });
  verb.Add("--dir", options->dir, "A peer's folder, or a local run's").Required();
  verb.Add("--output", options->request.output, "The folder to write").Required();
  verb.Add("--dtype", options->request.dtype, "Of the weights").OneOf({"fp32", "bf16"});
  verb.Add("--tokenizer", options->request.tokenizer,
           "A folder whose tokenizer's files are copied along");
  verb.Add("--base", options->request.base, "Of adapters: the model that PEFT puts them on");
  verb.Add("--worker", options->worker, "The program [atoll-worker beside this one]");
}

void AddImportVerb(CommandLine& command_line) {
  const auto options = std::make_shared<ImportOptions>();
  const Verb verb = command_line.AddVerb(
      "import", "A model of Hugging Face's, for a run to begin with or to train adapters of",
      "atoll import --input gpt2 --output gpt2-for-atoll", [options] { return Import(*options); });
  verb.Add("--input", options->input, "A folder with config.json and safetensors").Required();
  verb.Add("--output", options->output, "The folder to write").Required();
  verb.Add("--worker", options->worker, "The program [atoll-worker beside this one]");
}

}  // namespace atolld
