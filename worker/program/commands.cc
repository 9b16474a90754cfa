#include "worker/program/commands.h"

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/cord.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "atoll/v1/run.pb.h"
#include "compression/base/build_info.h"
#include "compression/base/status_macros.h"
#include "compression/base/terminal.h"
#include "compression/base/words.h"
#include "worker/base/file_io.h"
#include "worker/base/flags.h"
#include "worker/base/grpc_link.h"
#include "worker/base/learner.h"
#include "worker/base/link.h"
#include "worker/base/manifest.h"
#include "worker/base/session.h"
#include "worker/data/chat_template.h"
#include "worker/data/token_source.h"
#include "worker/data/tokenizer.h"
#include "worker/data/tokenizer_file.h"
#include "worker/data/training_data.h"
#include "worker/hub/hub_config.h"
#include "worker/hub/hub_folder.h"
#include "worker/hub/output_folder.h"
#include "worker/hub/safetensors.h"
#include "worker/program/generate.h"
#include "worker/program/model_learner.h"
#include "worker/training/device.h"
#include "worker/training/math_library.h"
#include "worker/training/trainer.h"
#include "worker/training/worker_state.h"

namespace atolld {
namespace {

constexpr char kStopSeparator = '\x1f';
constexpr char kTold[] = "atoll/told";  // a payload of a Status

// The model of a command: a run's, passed by the command line, or a folder in Hugging Face's
// format.
struct LoadedModel {
  v1::RunSpec spec;  // of a folder: the model, and data of no run
  v1::Manifest manifest;
  std::vector<float> parameters;  // flat, as the manifest lays them out
  std::string folder;             // empty: a run's
};

constexpr uint32_t kByteTokens = 256;

absl::StatusOr<LoadedModel> LoadFolder(const std::string& folder) {
  ASSIGN_OR_RETURN(HubModel read,
                   IsImportedFolder(folder) ? ReadImportedFolder(folder) : ReadHubFolder(folder));
  LoadedModel model;
  *model.spec.mutable_model() = std::move(read.spec);
  model.spec.mutable_inner()->set_batch(1);
  model.manifest = std::move(read.manifest);
  model.parameters = std::move(read.parameters);
  model.folder = folder;
  return model;
}

// The flags that LoadModel takes, for Flags::Parse.
std::vector<std::string> WithModelFlags(std::vector<std::string> more) {
  more.insert(more.end(),
              {"model", "state", "spec", "parameters", "offset", "elements", "personal"});
  return more;
}

// Returns how many values peers exchange: all but the personal tensors.
uint64_t SharedElements(const LoadedModel& model) {
  return SharedPart(model.manifest, PersonalPatterns(model.spec.model())).elements();
}

absl::Status CheckElements(uint64_t said, const LoadedModel& model, const std::string& origin) {
  if (said == SharedElements(model)) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      origin, " tells of ", said, " parameters, and its model has ", SharedElements(model)));
}

// Appends the personal tensors to what peers exchange, from --personal, a worker's state file.
// Fails with FAILED_PRECONDITION if the run has personal tensors and they are missing.
absl::Status AddPersonal(const Flags& flags, LoadedModel* model) {
  const v1::Manifest personal =
      PersonalPart(model->manifest, PersonalPatterns(model->spec.model()));
  if (personal.elements() == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::string path, flags.Text("personal", ""));
  absl::StatusOr<std::vector<float>> values =
      path.empty() ? absl::NotFoundError("no folder of a peer is named")
                   : ReadPersonalTensors(path, model->spec.run_id(), personal.elements());
  if (values.ok()) {
    model->parameters.insert(model->parameters.end(), values->begin(), values->end());
    return absl::OkStatus();
  }
  std::vector<std::string> names;
  for (const v1::Tensor& tensor : personal.tensors()) names.push_back(tensor.name());
  return absl::FailedPreconditionError(
      absl::StrCat("the state lacks ", absl::StrJoin(names, ", "),
                   ", which every peer of the run keeps to itself; give --dir the folder of a peer "
                   "that has trained: its worker-state has them (",
                   values.status().message(), ")"));
}

// --state -: everything comes through standard input, as the command line writes it.
absl::StatusOr<LoadedModel> LoadStream(const Flags& flags) {
  constexpr uint64_t kLargestSpec = 64 << 20;
  const std::string origin = "standard input";
  const auto number = [&origin]() -> absl::StatusOr<uint64_t> {
    uint64_t value = 0;
    RETURN_IF_ERROR(ReadExactly(STDIN_FILENO, origin, absl::MakeSpan(&value, 1)));
    return value;
  };
  LoadedModel model;
  ASSIGN_OR_RETURN(const uint64_t spec_bytes, number());
  if (spec_bytes > kLargestSpec) return absl::DataLossError(origin + " is not a state");
  std::string spec(spec_bytes, '\0');
  RETURN_IF_ERROR(ReadExactly(STDIN_FILENO, origin, absl::MakeSpan(&spec[0], spec.size())));
  if (!model.spec.ParseFromString(spec)) return absl::DataLossError(origin + " is not a state");
  ASSIGN_OR_RETURN(model.manifest, MakeManifest(model.spec.model()));
  ASSIGN_OR_RETURN(const uint64_t elements, number());
  RETURN_IF_ERROR(CheckElements(elements, model, origin));
  model.parameters.resize(elements);
  RETURN_IF_ERROR(ReadExactly(STDIN_FILENO, origin, absl::MakeSpan(model.parameters)));
  RETURN_IF_ERROR(AddPersonal(flags, &model));
  return model;
}

// Loads --model FOLDER, or --state -, or --spec and --parameters with --offset and --elements.
// Fails with INVALID_ARGUMENT if a flag is missing, and with FAILED_PRECONDITION, DATA_LOSS or
// NOT_FOUND for what is wrong with a file, which the message names.
absl::StatusOr<LoadedModel> LoadModel(const Flags& flags) {
  ASSIGN_OR_RETURN(const std::string folder, flags.Text("model", ""));
  if (!folder.empty()) return LoadFolder(folder);
  ASSIGN_OR_RETURN(const std::string state, flags.Text("state", ""));
  if (state == "-") return LoadStream(flags);
  if (!state.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--state is \"", state, "\"; it must be -, for standard input"));
  }
  LoadedModel model;
  ASSIGN_OR_RETURN(const std::string spec_path, flags.Text("spec"));
  ASSIGN_OR_RETURN(const std::string path, flags.Text("parameters"));
  ASSIGN_OR_RETURN(const uint64_t offset, flags.Count("offset", 0));
  ASSIGN_OR_RETURN(const std::string bytes, ReadWholeFile(spec_path));
  if (!model.spec.ParseFromString(bytes)) {
    return absl::DataLossError(absl::StrCat(spec_path, " is not a serialised RunSpec"));
  }
  ASSIGN_OR_RETURN(model.manifest, MakeManifest(model.spec.model()));
  ASSIGN_OR_RETURN(const uint64_t elements, flags.Count("elements", SharedElements(model)));
  RETURN_IF_ERROR(CheckElements(elements, model, "--elements"));
  ASSIGN_OR_RETURN(model.parameters, ReadFloats(path, offset, elements));
  RETURN_IF_ERROR(AddPersonal(flags, &model));
  return model;
}

// Opens a run's data, which must have the run's digest, or a peer's own data.
absl::StatusOr<std::unique_ptr<TrainingData>> OpenData(const v1::RunSpec& spec,
                                                       const std::string& path) {
  const uint64_t vocabulary = spec.model().vocabulary();
  if (!spec.data().private_()) return TrainingData::Open(spec.data(), path, vocabulary);
  return TrainingData::OpenOwn(spec.data(), path, vocabulary,
                               {nullptr, spec.data().validation_fraction()});
}

// Returns what --tokenizer names (default: the folder's own tokenizer, or bytes if they fit): a
// path, or "bytes". Fails with FAILED_PRECONDITION if a folder has none.
absl::StatusOr<std::string> TokenizerNameOf(const Flags& flags, const LoadedModel& model) {
  ASSIGN_OR_RETURN(const std::string given, flags.Text("tokenizer", ""));
  if (!given.empty()) return given;
  if (model.folder.empty()) return std::string("bytes");
  for (const char* name : {"tokenizer.json", "tokenizer.model", "characters.json"}) {
    const std::string path = absl::StrCat(model.folder, "/", name);
    std::error_code error;
    if (std::filesystem::exists(path, error)) return path;
  }
  if (model.spec.model().vocabulary() == kByteTokens) return std::string("bytes");
  return absl::FailedPreconditionError(
      absl::StrCat(model.folder, " has no tokenizer.json, tokenizer.model or characters.json, and ",
                   Counted(model.spec.model().vocabulary(), "token"),
                   " are not bytes; name the file as --tokenizer"));
}

// Loads the tokenizer of that name. Fails with FAILED_PRECONDITION if it is not the run's, or has
// more tokens than the model.
absl::StatusOr<std::unique_ptr<Tokenizer>> TokenizerOf(const Flags& flags,
                                                       const LoadedModel& model) {
  ASSIGN_OR_RETURN(const std::string name, TokenizerNameOf(flags, model));
  ASSIGN_OR_RETURN(std::unique_ptr<Tokenizer> tokenizer, LoadTokenizer(name));
  const uint32_t vocabulary = model.spec.model().vocabulary();
  if (!model.folder.empty()) {
    if (tokenizer->vocabulary() <= vocabulary) return tokenizer;
    return absl::FailedPreconditionError(absl::StrCat("tokenizer ", name, " has ",
                                                      Counted(tokenizer->vocabulary(), "token"),
                                                      "; the model "
                                                      "of ",
                                                      model.folder, " has ", vocabulary));
  }
  const std::string& digest = model.spec.data().tokenizer_digest();
  // Token files do not say of which tokenizer they are; then the user does.
  if (digest.empty() && vocabulary != kByteTokens) {
    if (tokenizer->vocabulary() <= vocabulary) return tokenizer;
    return absl::FailedPreconditionError(absl::StrCat(
        "the run trains on ", vocabulary, " token ids and does not know their tokenizer, and ",
        name, " has ", Counted(tokenizer->vocabulary(), "token"),
        "; name the right file as --tokenizer"));
  }
  if (tokenizer->digest() != digest) {
    return absl::FailedPreconditionError(
        absl::StrCat("--tokenizer ", name, " is not the run's, which has SHA-256 ",
                     digest.empty() ? "none (bytes)" : absl::BytesToHexString(digest)));
  }
  return tokenizer;
}

// Prints one plain line per message: the daemon relays it with the run and the round.
void LogLine(const std::string& line) { PrintLine(stderr, absl::StrCat("atoll-worker: ", line)); }

// Prints text as its tokens arrive. The meaning of a token may depend on earlier tokens and, for a
// character in several tokens, on later ones: all are decoded together, and an incomplete end
// waits.
class TextPrinter {
 public:
  TextPrinter(const Tokenizer& tokenizer, const std::vector<std::string>& stops)
      : tokenizer_(tokenizer), stops_(stops) {}

  bool Take(uint32_t token) {
    if (token >= tokenizer_.vocabulary()) {  // of the padding that no text has, if they are few
      ++unknown_;
      return true;
    }
    ++known_;
    tokens_.push_back(token);
    const std::string text = Decode();
    if (absl::EndsWith(text, "\xef\xbf\xbd")) return true;
    if (!Print(text)) return false;
    if (tokens_.size() >= size_t{2 * kTogether}) {  // what lies that far back changes nothing
      tokens_.erase(tokens_.begin(), tokens_.end() - kTogether);
      printed_ = Decode().size();
    }
    return status_.ok();
  }

  // FAILED_PRECONDITION: what was sampled are not tokens of this tokenizer.
  absl::Status Finish() {
    if (!stops_.done()) Print(Decode());
    Show(stops_.Rest());
    if (!status_.ok() || unknown_ == 0) return status_;
    const std::string what = absl::StrCat(
        unknown_, " of ", unknown_ + known_, " sampled tokens are not among the tokenizer's ",
        tokenizer_.vocabulary(), " (", tokenizer_.kind(),
        "); if the model was trained with another tokenizer, name its file as --tokenizer");
    if (known_ == 0) return absl::FailedPreconditionError(what);
    LogLine(what);
    return absl::OkStatus();
  }

 private:
  std::string Decode() {
    absl::StatusOr<std::string> text = tokenizer_.Decode(tokens_);
    if (text.ok()) return *std::move(text);
    status_.Update(text.status());
    return "";
  }

  // False: nothing more is to be shown, or can be.
  bool Print(const std::string& text) {
    std::string clear;
    for (; printed_ < text.size() && !stops_.done(); ++printed_) {
      clear += stops_.Take(static_cast<uint8_t>(text[printed_]));
    }
    return Show(clear) && !stops_.done();
  }

  static bool Show(const std::string& text) {
    return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() &&
           std::fflush(stdout) == 0;
  }

  static constexpr std::ptrdiff_t kTogether = 16;

  const Tokenizer& tokenizer_;
  StopStrings stops_;
  std::vector<uint32_t> tokens_;
  size_t printed_ = 0;
  uint64_t known_ = 0, unknown_ = 0;
  absl::Status status_;
};

// Sets what a run's spec says of its data, for a model without a run.
absl::Status NameData(const Flags& flags, LoadedModel* model, std::string* path) {
  v1::DataSpec& data = *model->spec.mutable_data();
  ASSIGN_OR_RETURN(const double fraction, flags.Number("validation-fraction", 0.1));
  if (!(fraction > 0 && fraction <= 0.5)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--validation-fraction is ", fraction, "; it must be above 0, at most 0.5"));
  }
  data.set_validation_fraction(fraction);
  data.set_kind("text");
  ASSIGN_OR_RETURN(const std::string tokenizer, TokenizerNameOf(flags, *model));
  data.set_tokenizer(tokenizer == "bytes" ? tokenizer : "file");
  if (tokenizer != "bytes") absl::StrAppend(path, "\ntokenizer ", tokenizer);
  return TokenizerOf(flags, *model).status();  // fits the model
}

// Of the validation split; 0 if the meaning of its tokens is unknown.
absl::StatusOr<double> BytesPerToken(const TrainingData& data) {
  constexpr uint64_t kTogether = 4096;  // a character that is cut between two costs nothing
  double bytes = 0, tokens = 0;
  for (size_t i = 0; i < data.sources(); ++i) {
    const Tokenizer* const tokenizer = data.source(i).tokenizer();
    // Of conversations only some tokens count.
    if (tokenizer == nullptr || data.source(i).validation_marks() != nullptr) return 0.0;
    const TokenSpan& split = data.source(i).validation();
    tokens += static_cast<double>(split.size());
    for (uint64_t first = 0; first < split.size(); first += kTogether) {
      std::vector<int64_t> ids(std::min(kTogether, split.size() - first));
      split.Read(first, absl::MakeSpan(ids));
      ASSIGN_OR_RETURN(const std::string text,
                       tokenizer->Decode(std::vector<uint32_t>(ids.begin(), ids.end())));
      bytes += static_cast<double>(text.size());
    }
  }
  return tokens == 0 ? 0 : bytes / tokens;
}

}  // namespace

std::string VersionText() {
  return absl::StrCat(BuildInfo("atoll-worker"), "\nlibtorch ", TorchVersion(), "\n");
}

std::string HelpText() {
  return R"(atoll-worker: the inner loop of an Atoll peer, and what needs the model itself.

  atoll-worker --socket unix:/PATH [--device auto|cpu|cuda|cuda:N|cuda:all|LIST] [--slower N]
      Serves the daemon that listens there (and started this process). Default: the first GPU, or
      the CPU where there is none. LIST: several with commas between, "cuda:0,cuda:1" or "cpu,cpu".
      --slower N: each inner step lasts N times what it takes; the rest of it is sleep.

  atoll-worker generate --parameters FILE --spec FILE [--prompt TEXT] [--tokens N]
                        [--temperature T] [--top-k K] [--top-p P] [--stop TEXTS] [--seed S]
                        [--threads N] [--base FILE] [--offset BYTES] [--elements N]
                        [--tokenizer SPEC] [--template chatml|llama3]
      Writes sampled text to standard output as it is made. Defaults: 200 tokens, temperature 0.8
      (0: always the likeliest), top-k 0 (all), top-p 1 (all), seed 1337, 1 thread. The prompt is
      not repeated. The text ends before the first of TEXTS, which the byte 0x1f separates. A run of
      adapters needs the file of their base. With a template the text answers a user who says TEXT.

  atoll-worker eval --parameters FILE --spec FILE --data PATH [--threads N] [--base FILE]
                    [--offset BYTES] [--elements N]
      Evaluates on the whole validation split of the run's text and prints JSON.

  atoll-worker generate --model FOLDER ...
  atoll-worker eval --model FOLDER --data PATH [--validation-fraction F] [--tokenizer FILE] ...
      The same for a model's folder as Hugging Face has it, or as `import` makes it, with the
      folder's own tokenizer if it has one and nothing else is named. F: 0.1 if nothing is said.

  atoll-worker export --parameters FILE --spec FILE --out FILE.safetensors
                      [--offset BYTES] [--elements N]
      Writes the parameters as safetensors.

  atoll-worker export --parameters FILE --spec FILE --output FOLDER [--dtype fp32|bf16]
                      [--tokenizer FOLDER] [--shard-bytes N] [--base NAME]
                      [--offset BYTES] [--elements N] [--force true]
      Writes the model as Hugging Face has it (GPT2LMHeadModel, LlamaForCausalLM), with the
      tokenizer's files from another folder; adapters as PEFT has them, of the base --base. Prints
      the names of the folder's files. A folder that holds a model already is written over only with
      --force true.

  atoll-worker import --input FOLDER --output FOLDER [--force true]
      Reads such a model; writes model.safetensors, which a run can begin with or train adapters
      of, model.toml, the [model] section that goes with it, and the tokenizer's files.

  atoll-worker data prepare --input PATH --output DIR [--kind text|plain|jsonl]
                            [--tokenizer SPEC] [--field NAME] [--end-of-text TOKEN]
                            [--on-bad-line stop|skip] [--validation-fraction F] [--threads N]
                            [--json true]
      Makes a folder of tokens out of text. SPEC: bytes, chars, or a tokenizer's file. TOKEN stands
      between two documents.

  atoll-worker data inspect --path PATH [--kind KIND] [--width BYTES] [--tokenizer SPEC]
                            [--field NAME] [--end-of-text TOKEN] [--on-bad-line stop|skip]
                            [--template NAME] [--validation-fraction F] [--tokens N] [--json true]
      Says what lies there, and whether it is sound, also for models (--initial FILE, --base FILE).

  atoll-worker probe [--device auto|cpu|cuda|cuda:N|cuda:all|LIST]
      Measures a matrix product on one thread, counts GPUs, prints JSON. Fails without the device.

  atoll-worker measure --spec - [--device auto|cpu|cuda|cuda:N|cuda:all|LIST] [--threads N]
                       [--seconds S]
      Takes inner steps of the run whose serialised RunSpec is on standard input, on random tokens,
      for about S seconds (5), and prints JSON.

--parameters is a file that holds the flat parameter vector as little-endian fp32 from byte
--offset on (default 0); --elements, where given, must be what the model has. --spec is a
serialised RunSpec. In place of all of these, --state - takes them from standard input: a length
(64 bits, little-endian), the RunSpec of that many bytes, the number of parameters, the parameters.
--personal names the state file of a worker of the run, which holds its personal tensors.
Exit codes: 0 done, 1 failed, 2 the call is wrong.
)";
}

absl::Status RunServe(const std::vector<std::string>& arguments) {
  ASSIGN_OR_RETURN(const Flags flags, Flags::Parse(arguments, {"socket", "device", "slower"}));
  ASSIGN_OR_RETURN(const std::string socket, flags.Text("socket"));
  // However the daemon dies, its worker does not stay behind. The closed stream would do; this
  // needs no help of ours.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  Inbox inbox;
  const Termination termination(inbox);
  ModelLearner::Options options;
  ASSIGN_OR_RETURN(options.device, flags.Text("device", "auto"));
  ASSIGN_OR_RETURN(options.slower, flags.Number("slower", 1));
  if (!(options.slower >= 1) || !std::isfinite(options.slower)) {
    return absl::InvalidArgumentError("--slower is a number from 1 on");
  }
  options.set_threads = SetMathThreads;
  options.math = ProbeMath();
  LogLine(Describe(options.math));
  if (const std::string warning = Warning(options.math); !warning.empty()) LogLine(warning);
  ASSIGN_OR_RETURN(const std::unique_ptr<GrpcLink> link, GrpcLink::Dial(socket, inbox));
  WorkerEnv env;
  env.log = LogLine;
  ModelLearner learner(env, std::move(options));
  absl::Status status = Session(inbox, *link, learner, env).Run();
  status.SetPayload(kTold, absl::Cord());
  return status;
}

bool IsTold(const absl::Status& status) { return status.GetPayload(kTold).has_value(); }

absl::Status RunGenerate(const std::vector<std::string>& arguments) {
  ASSIGN_OR_RETURN(
      const Flags flags,
      Flags::Parse(arguments,
                   WithModelFlags({"prompt", "tokens", "temperature", "top-k", "top-p", "stop",
                                   "seed", "threads", "base", "tokenizer", "template"})));
  GenerateOptions options;
  ASSIGN_OR_RETURN(options.prompt, flags.Text("prompt", ""));
  ASSIGN_OR_RETURN(options.tokens, flags.Count("tokens", options.tokens));
  ASSIGN_OR_RETURN(options.temperature, flags.Number("temperature", options.temperature));
  ASSIGN_OR_RETURN(options.top_k, flags.Count("top-k", options.top_k));
  ASSIGN_OR_RETURN(options.top_p, flags.Number("top-p", options.top_p));
  ASSIGN_OR_RETURN(std::string stops, flags.Text("stop", ""));
  ASSIGN_OR_RETURN(const std::string chat_template, flags.Text("template", ""));
  if (!chat_template.empty()) {
    ASSIGN_OR_RETURN(const ChatPrompt asked, AskByTemplate(chat_template, options.prompt));
    options.prompt = asked.text;
    stops += kStopSeparator + asked.stop;
  }
  ASSIGN_OR_RETURN(options.seed, flags.Count("seed", options.seed));
  ASSIGN_OR_RETURN(const uint64_t threads, flags.Count("threads", 1));
  ASSIGN_OR_RETURN(LoadedModel model, LoadModel(flags));
  ASSIGN_OR_RETURN(const std::string base, flags.Text("base", ""));
  model.spec.mutable_model()->set_base_path(base);
  ASSIGN_OR_RETURN(const std::unique_ptr<Tokenizer> tokenizer, TokenizerOf(flags, model));
  if (!tokenizer->note().empty()) LogLine(tokenizer->note());
  SetMathThreads(static_cast<int>(threads));
  TextPrinter printer(*tokenizer, absl::StrSplit(stops, kStopSeparator));
  RETURN_IF_ERROR(Generate(model.spec.model(), model.parameters, *tokenizer, options,
                           [&](uint32_t token) { return printer.Take(token); }));
  return printer.Finish();
}

absl::Status RunEval(const std::vector<std::string>& arguments) {
  ASSIGN_OR_RETURN(const Flags flags,
                   Flags::Parse(arguments, WithModelFlags({"data", "threads", "base", "tokenizer",
                                                           "validation-fraction"})));
  ASSIGN_OR_RETURN(std::string path, flags.Text("data"));
  ASSIGN_OR_RETURN(const std::string base, flags.Text("base", ""));
  ASSIGN_OR_RETURN(const uint64_t threads, flags.Count("threads", 1));
  ASSIGN_OR_RETURN(LoadedModel model, LoadModel(flags));
  if (!model.folder.empty()) RETURN_IF_ERROR(NameData(flags, &model, &path));
  SetMathThreads(static_cast<int>(threads));
  v1::RunSpec spec = model.spec;
  spec.mutable_model()->set_base_path(base);
  spec.mutable_evaluation()->set_tokens(0);    // the whole split
  spec.mutable_inner()->set_optimizer("sgd");  // nothing is trained; this one needs no memory
  spec.mutable_inner()->set_control_variates(false);
  ASSIGN_OR_RETURN(const std::unique_ptr<TrainingData> data, OpenData(spec, path));
  for (const std::string& note : data->notes()) LogLine(absl::StrCat("data: ", note));
  ASSIGN_OR_RETURN(const std::unique_ptr<Trainer> trainer, Trainer::Make(spec, *data));
  const auto theta = absl::MakeConstSpan(model.parameters);
  const size_t shared = trainer->manifest().elements();
  ASSIGN_OR_RETURN(const EvaluationSum sum,
                   trainer->EvaluateOn(trainer->corpus(), theta.subspan(0, shared),
                                       theta.subspan(shared), 0, 1, {}));
  if (sum.tokens == 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("data: the run holds out nothing of ", path, " to evaluate on"));
  }
  const double loss = sum.loss_sum / static_cast<double>(sum.tokens);
  std::cout << absl::StrFormat("{\"tokens\": %d, \"loss\": %.9g, \"perplexity\": %.9g", sum.tokens,
                               loss, std::exp(loss));
  ASSIGN_OR_RETURN(const double bytes, BytesPerToken(*data));
  if (bytes > 0) {
    std::cout << absl::StrFormat(", \"bits_per_byte\": %.9g", loss / std::log(2.0) / bytes);
  }
  std::cout << "}\n";
  return absl::OkStatus();
}

absl::Status RunExport(const std::vector<std::string>& arguments) {
  ASSIGN_OR_RETURN(
      const Flags flags,
      Flags::Parse(arguments, WithModelFlags({"out", "output", "dtype", "base", "tokenizer",
                                              "shard-bytes", "force", "lora-rank"})));
  ASSIGN_OR_RETURN(const std::string out, flags.Text("out", ""));
  if (!out.empty()) {
    ASSIGN_OR_RETURN(const LoadedModel model, LoadModel(flags));
    RETURN_IF_ERROR(CheckRoom(out, model.manifest.elements() * sizeof(float)));
    return WriteSafetensors(out, model.manifest, model.parameters);
  }
  HubWriteOptions options;
  ASSIGN_OR_RETURN(const std::string folder, flags.Text("output"));
  ASSIGN_OR_RETURN(const std::string dtype, flags.Text("dtype", "fp32"));
  ASSIGN_OR_RETURN(const std::string tokenizer, flags.Text("tokenizer", ""));
  ASSIGN_OR_RETURN(const std::string base, flags.Text("base", ""));
  ASSIGN_OR_RETURN(options.shard_bytes, flags.Count("shard-bytes", options.shard_bytes));
  if (dtype != "fp32" && dtype != "bf16") {
    return absl::InvalidArgumentError(
        absl::StrCat("--dtype is \"", dtype, "\"; it must be fp32 or bf16"));
  }
  options.dtype = dtype == "fp32" ? DType::kF32 : DType::kBF16;
  ASSIGN_OR_RETURN(const uint64_t rank, flags.Count("lora-rank", 0));
  ASSIGN_OR_RETURN(const bool force, flags.Truth("force"));
  ASSIGN_OR_RETURN(const std::string read, flags.Text("model", ""));
  RETURN_IF_ERROR(CheckOutputFolder(folder, {read, tokenizer}, force));
  ASSIGN_OR_RETURN(const LoadedModel model, LoadModel(flags));
  const v1::ModelSpec& spec = model.spec.model();
  if (rank > spec.lora_rank()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--lora-rank is ", rank,
        spec.lora_rank() == 0
            ? std::string(", and the model has no adapters: leave it out")
            : absl::StrCat("; the run's adapters have [model] lora_rank = ", spec.lora_rank())));
  }
  ASSIGN_OR_RETURN(OutputFolder made, OutputFolder::Make(folder, model.manifest.elements() *
                                                                         DTypeBytes(options.dtype) +
                                                                     BytesOfTokenizer(tokenizer)));
  RETURN_IF_ERROR(spec.lora_rank() != 0
                      ? WriteAdapterFolder(made.place(), spec, model.parameters, FolderOfBase(base),
                                           options.dtype, static_cast<uint32_t>(rank))
                      : WriteHubFolder(made.place(), spec, model.parameters, options));
  if (!tokenizer.empty()) RETURN_IF_ERROR(CopyTokenizer(tokenizer, made.place()).status());
  RETURN_IF_ERROR(made.Finish());
  std::cout << absl::StrJoin(ModelFilesIn(folder), "\n") << "\n";
  return absl::OkStatus();
}

absl::Status RunImport(const std::vector<std::string>& arguments) {
  ASSIGN_OR_RETURN(const Flags flags, Flags::Parse(arguments, {"input", "output", "force"}));
  ASSIGN_OR_RETURN(const std::string input, flags.Text("input"));
  ASSIGN_OR_RETURN(const std::string output, flags.Text("output"));
  ASSIGN_OR_RETURN(const bool force, flags.Truth("force"));
  RETURN_IF_ERROR(CheckOutputFolder(output, {input}, force));
  ASSIGN_OR_RETURN(const HubModel model, ReadHubFolder(input));
  ASSIGN_OR_RETURN(OutputFolder made,
                   OutputFolder::Make(output, model.manifest.elements() * sizeof(float) +
                                                  BytesOfTokenizer(input)));
  const std::string written = absl::StrCat(made.place(), "/model.safetensors");
  RETURN_IF_ERROR(WriteSafetensors(written, model.manifest, model.parameters));
  ASSIGN_OR_RETURN(const int copied, CopyTokenizer(input, made.place()));
  ASSIGN_OR_RETURN(const std::string digest, FileDigest(written));
  const std::string section = FormatModelSection(model.spec), from = ImportedFrom(input);
  const absl::Span<const uint8_t> parts[] = {
      AsBytes(absl::MakeConstSpan(section.data(), section.size())),
      AsBytes(absl::MakeConstSpan(from.data(), from.size()))};
  RETURN_IF_ERROR(WriteFileDurably(absl::StrCat(made.place(), "/", kModelSection), parts));
  RETURN_IF_ERROR(made.Finish());
  const std::string path = absl::StrCat(output, "/model.safetensors");
  std::cout << absl::StrCat(
      path, ": ", Counted(model.manifest.elements(), "parameter"), " in ",
      Counted(model.manifest.tensors_size(), "tensor"), ", ", Counted(copied, "file"),
      " of a tokenizer\n\n", section, "# To begin with it:\n#   initial = \"", path,
      "\"\n# To train adapters of it:\n#   lora_rank = 8\n#   base = \"", path,
      "\"\n#   base_digest = \"", absl::BytesToHexString(digest), "\"\n");
  return absl::OkStatus();
}

absl::Status RunProbe(const std::vector<std::string>& arguments) {
  ASSIGN_OR_RETURN(const Flags flags, Flags::Parse(arguments, {"device"}));
  ASSIGN_OR_RETURN(const std::string device, flags.Text("device", "auto"));
  RETURN_IF_ERROR(ResolveDevices(device, ProbeGpus()).status());
  const MathProbe probe = ProbeMath();
  std::cout << absl::StrFormat(
      "{\"gflops\": %.1f, \"peak_gflops\": %.1f, \"kernel\": \"%s\", \"threads\": %d, "
      "\"torch\": \"%s\", \"gpus\": %d}\n",
      probe.gflops, probe.peak_gflops, probe.kernel, SetMathThreads(0), TorchVersion(),
      ProbeGpus().count);
  if (const std::string warning = Warning(probe); !warning.empty()) LogLine(warning);
  return absl::OkStatus();
}

}  // namespace atolld
