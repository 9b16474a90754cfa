// The processes of a local run. This class starts them, watches them until the end, and recognises
// a process that a user has started again.
//
// A daemon writes its pid to DIR/<name>/pid; a daemon that was started by hand is found by this
// file. This class never starts a process that already runs. If this process dies, its children get
// SIGTERM (process.h), so a program that continues the run immediately may still see children that
// are about to end. Only Stop blocks. Used by one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "daemon/cli/local_layout.h"
#include "daemon/program/process.h"

namespace atolld {

// If the log at `path` is longer than `most` bytes, moves its contents to `path`.1, which is
// replaced, and empties the log. A process that appends to the log can continue.
void TrimLog(const std::string& path, uint64_t most);

class LocalProcesses {
 public:
  struct Change {
    size_t index = 0;  // the index in the layout's processes
    pid_t pid = 0;
    bool started = false;  // true if the process runs again, under this pid; false if it has ended
    std::optional<ExitStatus> exit;  // how it ended; not set if it was not a child of this process
  };

  // `layout` must outlive this object, which keeps the pids in it up to date. A daemon that has a
  // pid in it runs already, and is watched like the others.
  explicit LocalProcesses(LocalLayout& layout);
  ~LocalProcesses();  // kills the children of this process that still run

  // Starts a process unless it runs already. After an error the caller must stop the running
  // processes.
  absl::Status Start(size_t index);

  // Returns what has changed since the last call. It also keeps the processes' logs small (see
  // TrimLog).
  std::vector<Change> Poll();

  bool running(size_t index) const { return states_[index].running; }
  // Returns true if this object started the process.
  bool was_started(size_t index) const { return states_[index].was_started; }
  bool any_peer_running() const;
  // Returns the exit of the newest process of this index, in the form of PeerProcess::exit
  // (local_report.h).
  std::optional<int> exit(size_t index) const;

  // Sends SIGTERM to these processes, waits until they have ended, and after `patience` kills those
  // that still run. Blocks.
  void Stop(const std::vector<size_t>& indices, absl::Duration patience);

  // Sends SIGTERM to a process and does not wait for its end.
  void Terminate(size_t index);
  // Cause faults: Kill acts like a power cut, and Pause like a machine that freezes until Continue
  // is called.
  void Kill(size_t index);
  void Pause(size_t index);
  void Continue(size_t index);

 private:
  struct State {
    bool child = false;
    bool was_started = false;
    bool running = false;
    std::optional<ExitStatus> exit;
  };

  void Signal(size_t index, int signal);
  std::optional<Change> PollOne(size_t index);

  LocalLayout& layout_;
  std::vector<State> states_;
  double look_at_logs_ = 0;  // when the logs are checked next, in seconds of a monotonic clock
};

}  // namespace atolld
