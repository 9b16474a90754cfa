// ChildProcess: the one place that starts programs, watches them and ends them.
//
// A program with a loop spawns a ChildProcess, whose lines and end arrive as events of the loop. A
// program without a loop, such as a verb of `atoll`, calls Start, and then Reap or Await. A program
// that is started again each time it ends takes its pauses from a RestartPause.
//
// A child gets default signal dispositions (but SIGHUP stays ignored under nohup), an empty signal
// mask, /dev/null as standard input, and none of the variables by which this process's service
// manager reaches it. All callbacks run on the loop, and all methods must be called there; Start,
// Reap and Await may be called from any thread.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/env/env.h"

namespace atolld {

struct ExitStatus {
  int code = 0;    // The exit code; has a meaning only if `signal` is 0.
  int signal = 0;  // The signal that killed the process; 0 if the process exited.
  // The last line that a ChildProcess has written and that is not blank.
  std::string last_line = {};

  bool ok() const { return code == 0 && signal == 0; }
  // Returns a text such as "exit code 3" or "killed by signal 9 (Killed)".
  std::string Text() const;
  // Returns the text that follows the program's name in a sentence, such as "exited with 3" or "was
  // killed by signal 9".
  std::string Predicate() const;
};

// The pause before a program that has ended is started again. It doubles each time that the program
// ends, until Reset is called because the program has proved to work. Used by one thread.
class RestartPause {
 public:
  RestartPause(absl::Duration first, absl::Duration longest) : first_(first), longest_(longest) {}
  absl::Duration Next();
  void Reset() { ends_ = 0; }
  int ends() const { return ends_; }  // the number of calls of Next since the last Reset

 private:
  const absl::Duration first_, longest_;
  int ends_ = 0;
};

// A child process. Its lines arrive in order; on_exit comes after the last one.
class ChildProcess {
 public:
  struct Options {
    // The first is the program's path; PATH is not searched.
    std::vector<std::string> arguments;
    std::vector<std::pair<std::string, std::string>>
        // Added to this process's environment; a variable of the same name is replaced.
        environment;
    std::string working_directory;  // If empty, the working directory of this process.
    std::vector<std::pair<int, int>>
        // The descriptors that the child inherits, as (number in this process, number in the
        // child). Spawn reserves numbers 1 and 2 in the child for its output.
        descriptors;
    // If true, the child also inherits the descriptors that are not closed on exec, for example
    // those of files that a shell names as /dev/fd/63 in the arguments.
    bool inherits_descriptors = false;
    // The signal that the child gets when the thread that started it ends, so that nothing is left
    // when this process is killed; 0 means none.
    int death_signal = 0;
    // Keeps the child out of the terminal's foreground group, so that Ctrl-C reaches only this
    // process.
    bool own_process_group = false;
    // If not empty, all processes that the child has started are ended with it, by EndMarked
    // (child_mark.h). Such a child has a process group of its own. Only for Spawn.
    std::string mark;
    // The highest rate of output, beyond a burst of half a megabyte; 0 means no limit. Further
    // output is left out, and a line says how much. Only for Spawn.
    double most_output_bytes_per_second = 0;
  };
  struct Events {
    // Called with each line, without its line end. A line longer than 64 KiB comes in pieces.
    std::function<void(const std::string& line)> on_output_line;  // Called for standard output.
    std::function<void(const std::string& line)> on_error_line;   // Called for standard error.
    std::function<void(ExitStatus)> on_exit;
  };

  // Starts the child and watches it. Errors name the program.
  static absl::StatusOr<std::unique_ptr<ChildProcess>> Spawn(Executor& executor, Options options,
                                                             Events events);

  // Starts a child that is not watched; the caller reaps it. Fails with NOT_FOUND,
  // PERMISSION_DENIED or UNKNOWN if it cannot be executed, and with RESOURCE_EXHAUSTED if no
  // process can be made.
  static absl::StatusOr<pid_t> Start(Options options);
  // Returns how a child of Start has ended. Returns nullopt if it still runs or was reaped before.
  static std::optional<ExitStatus> Reap(pid_t child);
  // Waits until a child of Start has ended. Blocks.
  static ExitStatus Await(pid_t child);

  // Kills the child with SIGKILL if it still runs, and waits for its end; no callback runs
  // afterwards. To stop a child without waiting, Kill it and destroy this object in or after
  // on_exit.
  ~ChildProcess();

  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const;

  // Sends the signal to the child. Does nothing once the child has ended, so it never signals
  // another process that has got the child's number.
  void Kill(int signal);

  // Kills the child with SIGKILL if it still runs after this time.
  void KillAfter(absl::Duration patience);

 private:
  struct State;
  explicit ChildProcess(std::shared_ptr<State> state);

  const std::shared_ptr<State> state_;
};

}  // namespace atolld
