// The processes of a local run: started once, watched until the end, and recognised when somebody
// starts one again.
//
// A daemon writes its own pid to DIR/<name>/pid; that is how one that was started by hand is found.
// Nothing is started twice from here. Children end in order when this process dies (process.h), so
// whoever goes on with the run at once may still see some that are about to. One thread; nothing
// blocks but Stop.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "daemon/cli/local_layout.h"
#include "daemon/cli/process.h"

namespace atolld {

class LocalProcesses {
 public:
  struct Change {
    size_t index = 0;  // in the layout's processes
    pid_t pid = 0;
    bool started = false;             // it is back, under this pid; else it has ended
    std::optional<ProcessExit> exit;  // how it ended; nothing if it was not our child
  };

  // Borrows the layout, whose pids it keeps; a daemon that has one runs already, and is taken up.
  explicit LocalProcesses(LocalLayout& layout);
  ~LocalProcesses();  // kills what still runs of its own children

  // Starts one, unless it runs. On an error those that run must be stopped.
  absl::Status Start(size_t index);

  // What has changed since the last call.
  std::vector<Change> Poll();

  bool running(size_t index) const { return states_[index].running; }
  // From here.
  bool was_started(size_t index) const { return states_[index].was_started; }
  bool any_peer_running() const;
  // Of the newest process: as LocalReport's PeerProcess has it.
  std::optional<int> exit(size_t index) const;

  // Asks these to end by SIGTERM, waits until they have, and kills those that have not after
  // `patience`.
  void Stop(const std::vector<size_t>& indices, absl::Duration patience);

  // Only asks.
  void Terminate(size_t index);
  // Faults: as a power cut, and as a machine that stands still until Continue.
  void Kill(size_t index);
  void Pause(size_t index);
  void Continue(size_t index);

 private:
  struct State {
    bool child = false;
    bool was_started = false;
    bool running = false;
    std::optional<ProcessExit> exit;
  };

  void Signal(size_t index, int signal);
  std::optional<Change> PollOne(size_t index);

  LocalLayout& layout_;
  std::vector<State> states_;
};

}  // namespace atolld
