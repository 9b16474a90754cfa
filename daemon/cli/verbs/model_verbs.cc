// `atoll eval`, `generate`, `export` and `import`: the verbs about a model.
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "atoll/v1/run.pb.h"
#include "compression/base/names.h"
#include "compression/base/number_words.h"
#include "compression/base/status_macros.h"
#include "compression/base/terminal.h"
#include "daemon/cli/output.h"
#include "daemon/cli/run_folder.h"
#include "daemon/cli/verbs/verbs.h"
#include "daemon/cli/worker_tool.h"
#include "daemon/env/posix_files.h"
#include "daemon/figures/figures.h"
#include "daemon/program/format.h"
#include "daemon/replica/state/layout.h"
#include "daemon/replica/state/record.h"
#include "membership/history/digest.h"
#include "membership/run/losses.h"

namespace atolld {
namespace {

struct EvalOptions {
  std::string dir;
  std::string worker;
  EvaluationRequest request;
  bool json = false;
};

// Returns the unit of a run's folder, or of one of its peers; of an exported model only the tokens
// are known.
std::string UnitOf(Files& files, const std::string& dir) {
  v1::Genesis genesis;
  if (files.Exists(GenesisPath(dir)) && ReadMessageFile(files, GenesisPath(dir), &genesis).ok()) {
    return LossUnit(genesis.spec());
  }
  const absl::StatusOr<v1::RunStatus> run = RunStatusOfFolder(files, dir);
  return run.ok() ? LossUnit(run->spec()) : "nats a token";
}

VerbExit Evaluate(const EvalOptions& options) {
  PosixFiles files;
  const std::string dir = AbsoluteFolder(options.dir);
  ASSIGN_OR_RETURN(const std::string worker, FindWorker(options.worker));
  ASSIGN_OR_RETURN(const ModelQuality quality, EvaluateModel(files, worker, dir, options.request));
  const std::string unit = UnitOf(files, dir);
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  std::vector<std::vector<std::string>> rows;
  if (quality.version.has_value()) {
    json["version"] = *quality.version;
    rows.push_back({"version", WithThousands(*quality.version)});
  }
  json["tokens"] = quality.tokens;
  rows.push_back({"validation tokens", WithThousands(quality.tokens)});
  json["loss"] = FigureJson(quality.loss);
  json["loss_unit"] = unit;
  rows.push_back({"loss", LossText(quality.loss, unit)});
  json["perplexity"] = FigureJson(quality.perplexity);
  rows.push_back({"perplexity", NumberText(quality.perplexity, 3)});
  if (quality.bits_per_byte > 0) {
    json["bits_per_byte"] = quality.bits_per_byte;
    rows.push_back({"bits per byte", NumberText(quality.bits_per_byte, 4)});
  }
  return PrintAnswer(options.json, json, AlignColumns(rows, "<<"));
}

}  // namespace

void AddEvalVerb(CommandLine& command_line) {
  const auto options = std::make_shared<EvalOptions>();
  const Verb verb = command_line.AddVerb("eval",
                                         "Say how good a run's newest model is\n"
                                         "Over the whole validation split.",
                                         "atoll eval --dir build/quickstart --json",
                                         [options] { return Evaluate(*options); });
  verb.Add("--dir", options->dir, "A peer's folder, a local run's, or an exported model's")
      .Folder()
      .Required();
  EvaluationRequest& request = options->request;
  verb.Add("--data", request.data, "The run's text [as the peer's config says]").Path();
  verb.Add("--tokenizer", request.tokenizer, "For an exported model: a tokenizer's file [its own]")
      .File();
  verb.Add("--validation-fraction", request.validation_fraction,
           "For an exported model: the tail of the text that it is evaluated on")
      .Range(1e-6, 0.5);
  verb.Add("--base", request.base, "For adapters: the file of their base").File();
  verb.Add("--threads", request.threads, "CPU threads").Range(1, 1024);
  verb.Add("--worker", options->worker, "The program [atoll-worker beside this one]").File();
  verb.Flag("--json", options->json, "Print as JSON");
}

// -----------------------------------------------------------------------------------------------

namespace {

struct GenerateOptions {
  std::string dir;
  std::string worker;
  GenerateRequest request;
  bool json = false;
};

// Filters a model's text on its way to a terminal, which whoever trained the model must not
// control. The text comes in pieces, cut anywhere.
class ShownText {
 public:
  std::string Take(absl::string_view more) {
    held_.append(more.data(), more.size());
    // The last character may not be whole: at most three bytes of it are here.
    size_t end = held_.size();
    for (size_t back = 1; back <= 3 && back <= held_.size(); ++back) {
      const auto byte = static_cast<unsigned char>(held_[held_.size() - back]);
      if ((byte & 0xc0) == 0x80) continue;
      const size_t whole = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
      if (whole > back) end = held_.size() - back;
      break;
    }
    const std::string shown = PrintableText(absl::string_view(held_).substr(0, end));
    held_.erase(0, end);
    return shown;
  }
  std::string End() { return PrintableText(std::exchange(held_, "")); }

 private:
  std::string held_;
};

VerbExit Generate(const GenerateOptions& options) {
  PosixFiles files;
  ASSIGN_OR_RETURN(const std::string worker, FindWorker(options.worker));
  const bool terminal = isatty(STDOUT_FILENO) != 0;
  ShownText shown;
  const auto write = [](absl::string_view text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  };
  const auto print = [&](absl::string_view text) {
    terminal ? write(shown.Take(text)) : write(text);
  };
  const std::string first = options.request.chat_template.empty() ? options.request.prompt : "";
  bool begun = false;
  std::function<void(absl::string_view)> stream;
  if (!options.json) {
    stream = [&](absl::string_view more) {
      if (!begun) print(first);
      begun = true;
      print(more);
    };
  }
  const absl::StatusOr<std::string> text = GenerateText(
      files, worker, std::filesystem::absolute(options.dir).lexically_normal().string(),
      options.request, stream);
  if (!text.ok()) {
    if (begun) write(shown.End() + "\n");
    return text.status();
  }
  if (options.json) {
    PrintJson({{"prompt", options.request.prompt}, {"text", *text}});
  } else {
    if (!begun) print(first);
    write(shown.End() + "\n");
  }
  return kDone;
}

}  // namespace

void AddGenerateVerb(CommandLine& command_line) {
  const auto options = std::make_shared<GenerateOptions>();
  const Verb verb = command_line.AddVerb(
      "generate", "Write text with a run's newest model",
      "atoll generate --dir build/quickstart --prompt \"The sea\" --tokens 300",
      [options] { return Generate(*options); });
  verb.Add("--dir", options->dir, "A peer's folder, a local run's, or an exported model's")
      .Folder()
      .Required();
  verb.Add("--prompt", options->request.prompt, "What the text begins with").Required();
  verb.Add("--tokens", options->request.tokens, "How many more tokens")
      .Range(uint64_t{1}, uint64_t{1000000});
  verb.Add("--temperature", options->request.temperature, "0: always the likeliest")
      .Range(0.0, 100.0);
  verb.Add("--top-k", options->request.top_k, "Sample among this many likeliest; 0: among all")
      .Range(uint64_t{0}, uint64_t{1000000});
  verb.Add("--top-p", options->request.top_p, "Sample among the likeliest of this share; 1: all")
      .Range(0.0, 1.0);
  verb.Add("--stop", options->request.stops, "End before this text; may be given again");
  verb.Add("--template", options->request.chat_template,
           "Ask as a user of chatml or llama3 would; print the answer")
      .OneOf({"chatml", "llama3"});
  verb.Add("--seed", options->request.seed, "The same seed gives the same text");
  verb.Add("--tokenizer", options->request.tokenizer, "A file [the run's, the folder's]").File();
  verb.Add("--base", options->request.base, "For adapters: the file of their base").File();
  verb.Add("--worker", options->worker, "The program [atoll-worker beside this one]").File();
  verb.Flag("--json", options->json, "Print as JSON");
}

// -----------------------------------------------------------------------------------------------

namespace {

struct ExportOptions {
  std::string dir;
  std::string worker;
  HubExport request;
};

VerbExit Export(const ExportOptions& options) {
  PosixFiles files;
  const std::string dir = AbsoluteFolder(options.dir);
  ASSIGN_OR_RETURN(const std::string worker, FindWorkerOf(files, options.worker, dir));
  HubExport request = options.request;
  request.output = AbsoluteFolder(request.output);
  if (!request.tokenizer.empty()) request.tokenizer = AbsoluteFolder(request.tokenizer);
  ASSIGN_OR_RETURN(const Exported exported, ExportHubFolder(files, worker, dir, request));
  PrintLines(AlignColumns({{"folder", request.output},
                           {"version", absl::StrCat(exported.version)},
                           {"state digest", ToHex(exported.state_digest)},
                           {"files", absl::StrJoin(exported.files, ", ")}},
                          "<<"));
  return kDone;
}

struct ImportOptions {
  std::string input;
  std::string output;
  std::string worker;
  bool force = false;
};

VerbExit Import(const ImportOptions& options) {
  ASSIGN_OR_RETURN(const std::string worker, FindWorker(options.worker));
  ASSIGN_OR_RETURN(const std::string said,
                   ImportHubFolder(worker, AbsoluteFolder(options.input),
                                   AbsoluteFolder(options.output), options.force));
  std::fputs(PrintableText(said).c_str(), stdout);
  return kDone;
}

}  // namespace

void AddExportVerb(CommandLine& command_line) {
  const auto options = std::make_shared<ExportOptions>();
  const Verb verb =
      command_line.AddVerb("export", "Write a run's newest model for Hugging Face's libraries",
                           "atoll export --dir build/quickstart --output my-model --dtype bf16",
                           [options] { return Export(*options); });
  verb.Add("--dir", options->dir, "A peer's folder, or a local run's").Folder().Required();
  verb.Add("--output", options->request.output, "The folder to write").Folder().Required();
  verb.Add("--dtype", options->request.dtype, "Type of the weights").OneOf({"fp32", "bf16"});
  verb.Add("--tokenizer", options->request.tokenizer,
           "A folder whose tokenizer's files are copied along")
      .Folder();
  verb.Add("--base", options->request.base,
           "For adapters: what PEFT puts them on, a path or a name [as the peer's config says]");
  verb.Add("--lora-rank", options->request.lora_rank,
           "For adapters with slices: how many of their ranks, from the first on [all]")
      .Range(uint64_t{1}, uint64_t{65536});
  verb.Flag("--force", options->request.force, "Write over a model that is there");
  verb.Add("--worker", options->worker, "The program [atoll-worker beside this one]").File();
}

void AddImportVerb(CommandLine& command_line) {
  const auto options = std::make_shared<ImportOptions>();
  const Verb verb =
      command_line.AddVerb("import",
                           "Take in a model of Hugging Face's\n"
                           "For a run to begin with, or to train adapters of.",
                           "atoll import --input my-model --output my-model-for-atoll",
                           [options] { return Import(*options); });
  verb.Add("--input", options->input, "A folder with config.json and safetensors")
      .Folder()
      .Required();
  verb.Add("--output", options->output, "The folder to write").Folder().Required();
  verb.Flag("--force", options->force, "Write over a model that is there");
  verb.Add("--worker", options->worker, "The program [atoll-worker beside this one]").File();
}

}  // namespace atolld
