// `atoll data prepare` and `atoll data inspect`: the worker's functions for data, run by its
// program.

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compression/base/process_limits.h"
#include "compression/base/status_macros.h"
#include "daemon/cli/verbs/verbs.h"
#include "daemon/cli/worker_tool.h"
#include "daemon/program/process.h"

namespace atolld {
namespace {

constexpr uint32_t kMostThreads = 256;

struct DataOptions {
  std::string path;
  std::string output;
  std::string tokenizer = "bytes";
  std::string field;
  std::string kind = "text";
  std::string end_of_text;
  std::string on_bad_line = "stop";
  std::string chat_template;
  uint32_t width = 0;
  double validation_fraction = 0.1;
  uint32_t threads = 0;
  uint32_t tokens = 32;
  std::string worker;
  bool json = false;
};

// The worker writes to the terminal itself: its lines are the verb's.
VerbExit RunDataCommand(const DataOptions& options, std::vector<std::string> arguments) {
  ASSIGN_OR_RETURN(const std::string worker, FindWorker(options.worker));
  arguments.insert(arguments.begin(), {worker, "data"});
  arguments.insert(arguments.end(), {"--kind", options.kind, "--tokenizer", options.tokenizer,
                                     "--field", options.field, "--end-of-text", options.end_of_text,
                                     "--on-bad-line", options.on_bad_line, "--validation-fraction",
                                     absl::StrCat(options.validation_fraction), "--json",
                                     options.json ? "true" : "false"});
  ASSIGN_OR_RETURN(const ExitStatus exit, RunAttached(arguments));
  if (exit.signal == 0) return exit.code;
  return absl::UnknownError(absl::StrCat(worker, " ", exit.Predicate()));
}

VerbExit Prepare(const DataOptions& options) {
  const uint32_t threads = options.threads != 0
                               ? options.threads
                               : std::min(kMostThreads, ReadProcessLimits().cores.threads());
  return RunDataCommand(options, {"prepare", "--input", options.path, "--output", options.output,
                                  "--threads", absl::StrCat(threads)});
}

VerbExit Inspect(const DataOptions& options) {
  return RunDataCommand(
      options, {"inspect", "--path", options.path, "--width", absl::StrCat(options.width),
                "--tokens", absl::StrCat(options.tokens), "--template", options.chat_template});
}

void AddShared(const Verb& verb, DataOptions* options) {
  verb.Add("--tokenizer", options->tokenizer,
           "bytes, chars, or a file: Hugging Face's tokenizer.json, a SentencePiece model")
      .File();
  verb.Add("--field", options->field,
           "In lines of JSON: the name of the text, a.b for a nested one [text]");
  verb.Add("--end-of-text", options->end_of_text,
           "The token between two documents [what the tokenizer's files name]");
  verb.Add("--on-bad-line", options->on_bad_line, "What to do at a line of JSON that holds no text")
      .OneOf({"stop", "skip"});
  verb.Add("--validation-fraction", options->validation_fraction,
           "Share of the text, at its end, that is held out")
      .Range(0.0, 0.5);
  verb.Add("--worker", options->worker, "The program [atoll-worker beside this one]").File();
  verb.Flag("--json", options->json, "Print as JSON");
}

}  // namespace

void AddDataVerbs(CommandLine& command_line) {
  const auto prepare = std::make_shared<DataOptions>();
  const Verb prepare_verb =
      command_line.AddVerb("data prepare",
                           "Turn text into tokens, ready to train on\n"
                           "It goes on where it was stopped.",
                           "atoll data prepare --input docs --tokenizer chars --output docs-tokens",
                           [prepare] { return Prepare(*prepare); });
  prepare_verb.Add("--input", prepare->path, "Text or lines of JSON, a file or a folder")
      .Path()
      .Required();
  prepare_verb.Add("--output", prepare->output, "The folder to make").Folder().Required();
  prepare_verb.Add("--kind", prepare->kind, "What it is; text: found out by what is there")
      .OneOf({"text", "plain", "jsonl"});
  prepare_verb.Add("--threads", prepare->threads, "0: one for each core that this process may have")
      .Range(uint32_t{0}, kMostThreads);
  AddShared(prepare_verb, prepare.get());

  const auto inspect = std::make_shared<DataOptions>();
  const Verb inspect_verb = command_line.AddVerb(
      "data inspect", "Say what data is, and whether it is sound", "atoll data inspect docs-tokens",
      [inspect] { return Inspect(*inspect); });
  inspect_verb.Add("PATH", inspect->path, "A file or a folder").Path().Required();
  inspect_verb.Add("--kind", inspect->kind, "What it is; text: found out by what is there")
      .OneOf({"text", "plain", "jsonl", "chat", "bin", "npy", "prepared"});
  inspect_verb
      .Add("--width", inspect->width, "Size of a bare token id: 2 or 4 bytes, 16 or 32 bits")
      .Range(uint32_t{0}, uint32_t{64});
  inspect_verb
      .Add("--template", inspect->chat_template, "Template of conversations: chatml or llama3")
      .OneOf({"chatml", "llama3"});
  inspect_verb.Add("--tokens", inspect->tokens, "How many of the first to show");
  AddShared(inspect_verb, inspect.get());
}

}  // namespace atolld
