#include "worker/commands.h"

#include <signal.h>
#include <sys/prctl.h>

#include <cstdio>
#include <iostream>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
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
#include "worker/termination.h"
#include "worker/version.h"

namespace atolld {
namespace {

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
                        [--temperature T] [--top-k K] [--seed S] [--threads N]
                        [--offset BYTES] [--elements N]
      Writes sampled text to standard output as it is made. Defaults: 200 tokens, temperature 0.8
      (0: always the likeliest), top-k 0 (all), seed 1337, 1 thread. The prompt is not repeated.

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
  ASSIGN_OR_RETURN(const Flags flags,
                   Flags::Parse(arguments, {"parameters", "spec", "prompt", "tokens", "temperature",
                                            "top-k", "seed", "threads", "offset", "elements"}));
  GenerateOptions options;
  ASSIGN_OR_RETURN(options.prompt, flags.Text("prompt", ""));
  ASSIGN_OR_RETURN(options.tokens, flags.Count("tokens", options.tokens));
  ASSIGN_OR_RETURN(options.temperature, flags.Number("temperature", options.temperature));
  ASSIGN_OR_RETURN(options.top_k, flags.Count("top-k", options.top_k));
  ASSIGN_OR_RETURN(options.seed, flags.Count("seed", options.seed));
  ASSIGN_OR_RETURN(const uint64_t threads, flags.Count("threads", 1));
  ASSIGN_OR_RETURN(const Model model, LoadModel(flags));
  SetMathThreads(static_cast<int>(threads));
  const auto print = [](uint8_t token) {
    return std::fputc(token, stdout) != EOF && std::fflush(stdout) == 0;
  };
  RETURN_IF_ERROR(Generate(model.spec.model(), model.parameters, options, print));
  std::fputc('\n', stdout);
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
