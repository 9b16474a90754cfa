// Starts processes of this machine, waits for them, recognises those that another program has
// started, and examines them in /proc.
//
// A started process has its own process group, so that Ctrl-C in a terminal reaches only the
// program that started it. It gets SIGTERM when that program dies for any reason. A process may end
// at any moment; /proc then holds nothing about it. Functions block only if their comments say so.
// These functions are for the command line, which has no event loop; a daemon spawns a ChildProcess
// (daemon/env/child_process.h), which also reaps the processes that these functions start.
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
#include "daemon/env/child_process.h"

namespace atolld {

// Starts argv[0] (a path), and appends its standard output and standard error to `log_path`. Fails
// like ChildProcess::Start. Call it from a thread that lives as long as the process should, because
// the process gets SIGTERM when that thread ends.
absl::StatusOr<pid_t> StartProcess(const std::vector<std::string>& argv,
                                   const std::string& log_path);

// Returns the last lines of a log, at most 16 KiB, or an empty text if there is no log.
std::string TailOfLog(const std::string& path);

// Returns true if a process with this pid runs. A zombie does not run.
bool IsRunning(pid_t pid);

// Returns the pid that the daemon of `dir` has written, if the process with this pid is an atolld.
// Any other process has only been given the same pid later.
std::optional<pid_t> RunningDaemon(const std::string& dir);

// A Feed gives a process its standard input by calling `write`, on a thread of its own. `write`
// fails with CANCELLED if the process has closed its input; this is not counted as an error of the
// feed.
using WriteInput = std::function<absl::Status(absl::Span<const uint8_t> bytes)>;
using Feed = std::function<absl::Status(const WriteInput& write)>;

// Runs the command to its end and returns its standard output. `on_output`, if given, gets the
// output as it arrives. `feed` writes the standard input, which is empty without a feed. Fails with
// INVALID_ARGUMENT if the exit code is 2, and with UNKNOWN if it is another code than 0; the
// message is the last line of standard error. Kills the command and fails with DEADLINE_EXCEEDED
// when `seconds` have passed. If the feed fails, its error is returned instead. Blocks.
absl::StatusOr<std::string> RunAndCapture(
    const std::vector<std::string>& argv, int seconds,
    const std::function<void(absl::string_view)>& on_output = {}, const Feed& feed = {});

// Call this at the end of a command with its exit code; it returns the code to exit with. If the
// output could not be written, for example on a full disk, it prints an error and returns a
// failure.
int FinishOutput(int code);

// Runs the command to its end; it writes to this process's standard output and error. Blocks.
absl::StatusOr<ExitStatus> RunAttached(const std::vector<std::string>& argv);

// Returns the folder of the running program, which holds all of Atoll's binaries.
std::string ProgramFolder();

// Returns the time of a clock that never goes back, for measuring durations.
double MonotonicSeconds();

// -----------------------------------------------------------------------------------------------

struct ProcessStat {
  char state = '?';  // 'R', 'S' or 'D' if it runs; 'T' if it is stopped; 'Z' if it has ended
  pid_t parent = 0;
  bool running() const { return state == 'R' || state == 'S' || state == 'D'; }
};

std::optional<ProcessStat> StatOf(pid_t pid);

std::vector<pid_t> ChildrenOf(pid_t parent);

// Returns the process's memory (VmRSS), or 0 if it has ended.
uint64_t ResidentBytes(pid_t pid);

// Returns the pid among `candidates` of the process that has the local end of a TCP connection
// between these two ports, or 0 if none of them has it.
pid_t OwnerOfConnection(const std::vector<pid_t>& candidates, int local_port, int remote_port);

}  // namespace atolld
