#include "worker/commands.h"

#include <signal.h>
#include <sys/prctl.h>

#include <cmath>
#include <cstdio>
#include <iostream>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "worker/corpus.h"
#include "worker/file_io.h"
#include "worker/flags.h"
#include "worker/generate.h"
#include "worker/grpc_link.h"
#include "worker/inbox.h"
#include "worker/manifest.h"
#include "worker/math_library.h"
#include "worker/safetensors.h"
#include "worker/session.h"
#include "worker/status_macros.h"
#include "worker/stop_strings.h"
#include "worker/termination.h"
#include "worker/trainer.h"
#include "worker/version.h"

namespace atolld {
namespace {

constexpr char kStopSeparator = '\x1f';

// A plain line a message: the daemon relays it with the run and the round.
void LogLine(const std::string& line) {
  std::cerr << absl::StrCat("atoll-worker: ", line, "\n") << std::flush;
}

struct Model {
  v1::RunSpec spec;
  v1::Manifest manifest;
  std::vector<float> parameters;
};

absl::StatusOr<Model> LoadModel(const Flags& flags) {
  Model model;
  ASSIGN_OR_RETURN(const std::string spec_path, flags.Text("spec"));
  ASSIGN_OR_RETURN(const std::string path, flags.Text("parameters"));
  ASSIGN_OR_RETURN(const uint64_t offset, flags.Count("offset", 0));
  ASSIGN_OR_RETURN(const std::string bytes, ReadWholeFile(spec_path));
  if (!model.spec.ParseFromString(bytes)) {
    return absl::DataLossError(absl::StrCat(spec_path, " is not a serialised RunSpec"));
  }
  ASSIGN_OR_RETURN(model.manifest, MakeManifest(model.spec.model()));
  ASSIGN_OR_RETURN(const uint64_t elements, flags.Count("elements", model.manifest.elements()));
  if (elements != model.manifest.elements()) {
    return absl::FailedPreconditionError(absl::StrCat("--elements is ", elements, "; the model of ",
                                                      spec_path, " has ",
                                                      model.manifest.elements()));
  }
  ASSIGN_OR_RETURN(model.parameters, ReadFloats(path, offset, elements));
  return model;
}

}  // namespace

std::string HelpText() {
  return R"(atoll-worker: the inner loop of an Atoll peer, and what needs the model itself.

  atoll-worker --socket unix:/PATH [--device auto|cpu|cuda|cuda:N]
      Serves the daemon that listens there (and started this process). Default: the first GPU, or
      the CPU where there is none.

  atoll-worker generate --parameters FILE --spec FILE [--prompt TEXT] [--tokens N]
                        [--temperature T] [--top-k K] [--top-p P] [--stop TEXTS] [--seed S]
                        [--threads N] [--offset BYTES] [--elements N]
      Writes sampled text to standard output as it is made. Defaults: 200 tokens, temperature 0.8
      (0: always the likeliest), top-k 0 (all), top-p 1 (all), seed 1337, 1 thread. The prompt is
      not repeated. The text ends before the first of TEXTS, which the byte 0x1f separates.

  atoll-worker eval --parameters FILE --spec FILE --data PATH [--threads N]
                    [--offset BYTES] [--elements N]
      Evaluates on the whole validation split of the run's text and prints JSON.

  atoll-worker export --parameters FILE --spec FILE --out FILE.safetensors
                      [--offset BYTES] [--elements N]
      Writes the parameters as safetensors.

  atoll-worker probe
      Measures a matrix product on one thread and prints JSON.

--parameters is a file that holds the flat parameter vector as little-endian fp32 from byte
--offset on (default 0); --elements, where given, must be what the model has. --spec is a
serialised RunSpec.
Exit codes: 0 done, 1 failed, 2 the call is wrong.
)";
}

absl::Status RunServe(const std::vector<std::string>& arguments) {
  ASSIGN_OR_RETURN(const Flags flags, Flags::Parse(arguments, {"socket", "device"}));
  ASSIGN_OR_RETURN(const std::string socket, flags.Text("socket"));
  // However the daemon dies, its worker does not stay behind. The closed stream would do; this
  // needs no help of ours.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  Inbox inbox;
  const Termination termination(inbox);
  Session::Options options;
  ASSIGN_OR_RETURN(options.device, flags.Text("device", "auto"));
  options.log = LogLine;
  options.set_threads = SetMathThreads;
  options.math = ProbeMath();
  LogLine(Describe(options.math));
  if (const std::string warning = Warning(options.math); !warning.empty()) LogLine(warning);
  ASSIGN_OR_RETURN(const std::unique_ptr<GrpcLink> link, GrpcLink::Dial(socket, inbox));
  return Session(inbox, *link, std::move(options)).Run();
}

absl::Status RunGenerate(const std::vector<std::string>& arguments) {
  ASSIGN_OR_RETURN(
      const Flags flags,
      Flags::Parse(arguments, {"parameters", "spec", "prompt", "tokens", "temperature", "top-k",
                               "top-p", "stop", "seed", "threads", "offset", "elements"}));
  GenerateOptions options;
  ASSIGN_OR_RETURN(options.prompt, flags.Text("prompt", ""));
  ASSIGN_OR_RETURN(options.tokens, flags.Count("tokens", options.tokens));
  ASSIGN_OR_RETURN(options.temperature, flags.Number("temperature", options.temperature));
  ASSIGN_OR_RETURN(options.top_k, flags.Count("top-k", options.top_k));
  ASSIGN_OR_RETURN(options.top_p, flags.Number("top-p", options.top_p));
  ASSIGN_OR_RETURN(const std::string stops, flags.Text("stop", ""));
  ASSIGN_OR_RETURN(options.seed, flags.Count("seed", options.seed));
  ASSIGN_OR_RETURN(const uint64_t threads, flags.Count("threads", 1));
  ASSIGN_OR_RETURN(const Model model, LoadModel(flags));
  SetMathThreads(static_cast<int>(threads));
  StopStrings filter(absl::StrSplit(stops, kStopSeparator));
  const auto show = [](const std::string& text) {
    return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() &&
           std::fflush(stdout) == 0;
  };
  const auto print = [&](uint8_t token) { return show(filter.Take(token)) && !filter.done(); };
  RETURN_IF_ERROR(Generate(model.spec.model(), model.parameters, options, print));
  show(filter.Rest());
  return absl::OkStatus();
}

absl::Status RunEval(const std::vector<std::string>& arguments) {
  ASSIGN_OR_RETURN(const Flags flags, Flags::Parse(arguments, {"parameters", "spec", "data",
                                                               "threads", "offset", "elements"}));
  ASSIGN_OR_RETURN(const std::string data, flags.Text("data"));
  ASSIGN_OR_RETURN(const uint64_t threads, flags.Count("threads", 1));
  ASSIGN_OR_RETURN(const Model model, LoadModel(flags));
  SetMathThreads(static_cast<int>(threads));
  const double held_out = model.spec.data().validation_fraction();
  ASSIGN_OR_RETURN(const std::unique_ptr<Corpus> corpus, Corpus::Open(data, held_out));
  const std::string& digest = model.spec.data().digest();
  if (!digest.empty() && digest != corpus->digest()) {
    return absl::FailedPreconditionError(
        absl::StrCat("data: ", data, " is not the text that the run trains on"));
  }
  v1::RunSpec spec = model.spec;
  spec.mutable_evaluation()->set_tokens(0);    // the whole split
  spec.mutable_inner()->set_optimizer("sgd");  // nothing is trained; this one needs no memory
  ASSIGN_OR_RETURN(const std::unique_ptr<Trainer> trainer, Trainer::Make(spec, *corpus));
  ASSIGN_OR_RETURN(const EvaluationSum sum, trainer->Evaluate(model.parameters, 0, 1, {}));
  if (sum.tokens == 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("data: the run holds out nothing of ", data, " to evaluate on"));
  }
  const double loss = sum.loss_sum / static_cast<double>(sum.tokens);
  // A token is a byte.
  std::cout << absl::StrFormat(
      "{\"tokens\": %d, \"loss\": %.9g, \"perplexity\": %.9g, \"bits_per_byte\": %.9g}\n",
      sum.tokens, loss, std::exp(loss), loss / std::log(2.0));
  return absl::OkStatus();
}

absl::Status RunExport(const std::vector<std::string>& arguments) {
  ASSIGN_OR_RETURN(const Flags flags,
                   Flags::Parse(arguments, {"parameters", "spec", "out", "offset", "elements"}));
  ASSIGN_OR_RETURN(const std::string out, flags.Text("out"));
  ASSIGN_OR_RETURN(const Model model, LoadModel(flags));
  return WriteSafetensors(out, model.manifest, model.parameters);
}

absl::Status RunProbe(const std::vector<std::string>& arguments) {
  RETURN_IF_ERROR(Flags::Parse(arguments, {"help"}).status());
  const MathProbe probe = ProbeMath();
  std::cout << absl::StrFormat(
      "{\"gflops\": %.1f, \"peak_gflops\": %.1f, \"kernel\": \"%s\", \"threads\": %d, "
      "\"torch\": \"%s\"}\n",
      probe.gflops, probe.peak_gflops, probe.kernel, SetMathThreads(0), TorchVersion());
  if (const std::string warning = Warning(probe); !warning.empty()) LogLine(warning);
  return absl::OkStatus();
}

}  // namespace atolld
