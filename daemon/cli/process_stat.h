// What /proc tells of processes of this machine: their state, their children, their memory, and
// whose a connection is.
//
// A process may end at any moment; then nothing is told of it. Blocking, any thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace atolld {

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
