// atoll-worker: see HelpText() in commands.cc.
#include <malloc.h>

#include <iostream>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "compression/base/exit_code.h"
#include "compression/base/last_words.h"
#include "compression/base/names.h"
#include "compression/base/terminal.h"
#include "worker/base/file_io.h"
#include "worker/program/commands.h"
#include "worker/training/math_library.h"
#include "worker/training/torch_library.h"

namespace {

// Every step allocates and frees the same activations. If they were given back to the kernel in
// between, their pages would be cleared again each time, which costs a third of an evaluation.
void KeepFreedMemory() {
  constexpr int kLargestFromHeap = 32 << 20;  // what glibc takes at most
  ::mallopt(M_MMAP_THRESHOLD, kLargestFromHeap);
  ::mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
  ::mallopt(M_TOP_PAD, 2 * kLargestFromHeap);
}

// Returns the help as a man page.
std::string ManPage() {
  const std::string help = absl::StrReplaceAll(
      atolld::HelpText(), {{"\\", "\\e"}, {"-", "\\-"}, {"'", "\\(aq"}, {"`", "\\(ga"}});
  return absl::StrCat(".TH ATOLL\\-WORKER 1 \"\" \"atoll\\-worker\" \"User Commands\"\n.SH NAME\n",
                      "atoll\\-worker \\- the inner loop of an Atoll peer\n.SH DESCRIPTION\n",
                      "People type atoll; the daemon and atoll start this program.\n.PP\n.nf\n",
                      help, ".fi\n.SH SEE ALSO\n.BR atoll (1),\n.BR atolld (1)\n");
}

absl::Status Dispatch(const std::vector<std::string>& arguments) {
  const std::string mode = arguments.empty() ? "" : arguments[0];
  if (mode.rfind("--socket", 0) == 0) return atolld::RunServe(arguments);
  const std::vector<std::string> rest(arguments.begin() + (arguments.empty() ? 0 : 1),
                                      arguments.end());
  if (mode == "generate") return atolld::RunGenerate(rest);
  if (mode == "eval") return atolld::RunEval(rest);
  if (mode == "export") return atolld::RunExport(rest);
  if (mode == "import") return atolld::RunImport(rest);
  if (mode == "data") return atolld::RunData(rest);
  if (mode == "probe") return atolld::RunProbe(rest);
  if (mode == "measure") return atolld::RunMeasure(rest);
  if (mode.empty()) return absl::InvalidArgumentError("nothing to do; see atoll-worker help");
  return absl::InvalidArgumentError(
      "\"" + mode + "\" is not known; did you mean " +
      atolld::NearestName(mode, {"--socket", "generate", "eval", "export", "import", "data",
                                 "probe", "measure", "--help", "--version"}) +
      "?");
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (!arguments.empty() && arguments[0] == "help") {
    std::cout << atolld::HelpText();
    return 0;
  }
  if (!arguments.empty() && arguments[0] == "--version") {
    std::cout << atolld::VersionText();
    return 0;
  }
  for (const std::string& argument : arguments) {
    if (argument == "--help" || argument == "-h") {
      std::cout << atolld::HelpText();
      return 0;
    }
    if (argument == "--man") {
      std::cout << ManPage();
      return 0;
    }
  }
  KeepFreedMemory();
  atolld::TellUncaughtExceptions();
  atolld::NameTruncatedFiles();
  atolld::ChooseMathKernel(argv);
  absl::Status status = atolld::CheckTorchLibrary();
  if (status.ok()) status = Dispatch(arguments);
  if (status.ok()) return 0;
  if (!atolld::IsTold(status)) {
    atolld::PrintLine(stderr, absl::StrCat("atoll-worker: ", status.message()));
  }
  return atolld::ExitCodeOf(status);
}
