// atoll-stub-worker: a worker whose steps only take time.
#include <sys/prctl.h>

#include <cmath>
#include <csignal>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "compression/base/build_info.h"
#include "compression/base/exit_code.h"
#include "compression/base/status_macros.h"
#include "compression/base/terminal.h"
#include "worker/base/flags.h"
#include "worker/base/grpc_link.h"
#include "worker/base/learner.h"
#include "worker/base/link.h"
#include "worker/base/session.h"
#include "worker/stub/stub_learner.h"

namespace {

constexpr char kHelp[] =
    R"(atoll-stub-worker: stands for a model's worker where the system itself is measured.

  atoll-stub-worker --socket unix:/PATH
      Serves the daemon that listens there (and started this process). For runs with
      [model] kind = "stub": each step takes [inner] step_time, a fixed vector is learned.
      --device is taken and makes no difference.
      --slower N: its steps take N times as long.
      --shift X: it learns another vector, whose values are all X larger.

Exit codes: 0 done, 1 failed, 2 the call is wrong.
)";

void LogLine(const std::string& line) { atolld::PrintLine(stderr, "atoll-stub-worker: " + line); }

absl::Status Serve(const std::vector<std::string>& arguments) {
  ASSIGN_OR_RETURN(const atolld::Flags flags,
                   atolld::Flags::Parse(arguments, {"socket", "device", "slower", "shift"}));
  ASSIGN_OR_RETURN(const std::string socket, flags.Text("socket"));
  ASSIGN_OR_RETURN(const double slower, flags.Number("slower", 1));
  ASSIGN_OR_RETURN(const double shift, flags.Number("shift", 0));
  if (!(slower > 0) || !std::isfinite(slower)) {
    return absl::InvalidArgumentError("--slower is a number above 0");
  }
  // However the daemon dies, its worker does not stay behind.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  atolld::Inbox inbox;
  const atolld::Termination termination(inbox);
  ASSIGN_OR_RETURN(const std::unique_ptr<atolld::GrpcLink> link,
                   atolld::GrpcLink::Dial(socket, inbox));
  atolld::WorkerEnv env;
  env.log = LogLine;
  atolld::StubLearner learner(env, slower, static_cast<float>(shift));
  return atolld::Session(inbox, *link, learner, env).Run();
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (!arguments.empty() && arguments[0] == "--version") {
    std::cout << atolld::BuildInfo("atoll-stub-worker") << "\n";
    return 0;
  }
  for (const std::string& argument : arguments) {
    if (argument == "--help" || argument == "-h") {
      std::cout << kHelp;
      return 0;
    }
  }
  const absl::Status status = Serve(arguments);
  if (status.ok()) return 0;
  LogLine(std::string(status.message()));
  return atolld::ExitCodeOf(status);
}
