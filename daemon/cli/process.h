// Processes of this machine: started, waited for, recognised when somebody else has started them,
// and looked at in /proc.
//
// A started process has its own process group, so that the Ctrl-C of a terminal reaches its starter
// alone, and gets SIGTERM when its starter dies, however that dies. A process may end at any
// moment; then /proc tells nothing of it. Blocking only where said. For the command line, which has
// no event loop; a daemon uses ChildProcess.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace atolld {

struct ProcessExit {
  bool by_signal = false;
  int code = 0;  // exit code, or the signal's number
};

// "was killed by signal 9", "exited with 2"
std::string Describe(const ProcessExit& exit);

// Starts argv[0] (a path) with both outputs appended to `log_path`. NOT_FOUND/UNKNOWN when it
// cannot be executed. Call it from the thread that lives as long as the process shall.
absl::StatusOr<pid_t> StartProcess(const std::vector<std::string>& argv,
                                   const std::string& log_path);

// The exit of a child, if it has ended and was not reported before.
std::optional<ProcessExit> ReapProcess(pid_t child);

// Whether a process of that number runs (a zombie does not).
bool IsRunning(pid_t pid);

// The pid that the daemon of `dir` says it has, if an atolld of that number runs; numbers are used
// again.
std::optional<pid_t> RunningDaemon(const std::string& dir);

// Gives a process its standard input by calling `write`, on a thread of its own. CANCELLED from
// `write`: the process reads no more, which is no error of the feed's.
using WriteInput = std::function<absl::Status(absl::Span<const uint8_t> bytes)>;
using Feed = std::function<absl::Status(const WriteInput& write)>;

// Runs to the end and returns what was written to standard output. UNKNOWN with the last line of
// standard error when it does not exit with 0, INVALID_ARGUMENT when with 2; DEADLINE_EXCEEDED (and
// killed) after `seconds`. `on_output`, where given, sees standard output as it comes. Standard
// input is what `feed` writes, whose error comes first; empty without one. Blocks.
absl::StatusOr<std::string> RunAndCapture(
    const std::vector<std::string>& argv, int seconds,
    const std::function<void(absl::string_view)>& on_output = {}, const Feed& feed = {});

// The exit code of a command that ends with `code`: what it has printed may not have reached its
// place, as on a full disk. That is said, and is a failure.
int FinishOutput(int code);

// Runs to the end with our own outputs: what it writes is read where we are. Blocks.
absl::StatusOr<ProcessExit> RunAttached(const std::vector<std::string>& argv);

// The folder of the running program: Atoll's binaries lie beside one another.
std::string ProgramFolder();

// Of a clock that only goes forward: for how long something took.
double MonotonicSeconds();

// -----------------------------------------------------------------------------------------------

struct ProcessStat {
  char state = '?';  // 'R', 'S', 'D' run; 'T' is stopped; 'Z' has ended
  pid_t parent = 0;
  bool running() const { return state == 'R' || state == 'S' || state == 'D'; }
};

std::optional<ProcessStat> StatOf(pid_t pid);

std::vector<pid_t> ChildrenOf(pid_t parent);

// VmRSS; 0: it has ended.
uint64_t ResidentBytes(pid_t pid);

// Which of `candidates` has the local end of a TCP connection between these two ports; 0: none.
pid_t OwnerOfConnection(const std::vector<pid_t>& candidates, int local_port, int remote_port);

}  // namespace atolld
