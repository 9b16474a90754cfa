// The limits of this process on its machine: the cores, the memory, the descriptors and the file
// size that a container, a batch system or the machine's owner allows it.
//
// A container sees all cores and all memory of its machine, but the tightest of several limits
// applies. These are the limits of its control group (v1 and v2) and of every group above it, its
// CPU affinity, and its rlimits. All code that chooses a number of threads or decides whether
// something fits must use these functions. Their calls block. May be called from any thread.
#pragma once

#include <cstdint>
#include <string>

namespace atolld {

inline constexpr uint64_t kNoLimit = ~uint64_t{0};

struct CoreLimit {
  double cores = 1;         // may be a fraction, because of a control group's share
  uint32_t of_machine = 1;  // the cores that the machine has
  // Such as "cgroup cpu.max" or "CPU affinity"; empty if there is no limit but the machine.
  std::string source;

  // Returns the number of threads that can be busy all the time, at least 1. It rounds down,
  // because with one thread more than its share the whole group would be paused again and again,
  // and threads that compute together would all wait for the slowest.
  uint32_t threads() const;
};

struct MemoryLimit {
  uint64_t free_bytes = 0;  // the bytes that this process can still take
  uint64_t bytes = 0;       // the most bytes that it may take; 0 if unknown
  // The source of `bytes`, such as "cgroup memory.max"; empty for the machine.
  std::string source;
};

struct ProcessLimits {
  CoreLimit cores;
  MemoryLimit memory;
  // The hard limit RLIMIT_NOFILE, up to which a process may raise its own limit.
  uint64_t descriptors = kNoLimit;
  uint64_t file_bytes = kNoLimit;  // the limit RLIMIT_FSIZE
};

// Reads the limits. A file that cannot be read sets no limit. `root` is a prefix of the paths /proc
// and /sys, for tests.
ProcessLimits ReadProcessLimits(const std::string& root = "");

// Returns text such as "2 of 16 cores: cgroup cpu.max" or "16 cores".
std::string Describe(const CoreLimit& limit);

// The limits on how many threads and processes this process may still be given.
struct ThreadLimit {
  // The most that all processes of the tightest control group may have together.
  uint64_t most = kNoLimit;
  uint64_t used = 0;   // the number that these processes have now
  std::string source;  // such as "cgroup pids.max"; empty if no group has a limit
  // RLIMIT_NPROC, the most that all processes of this user may have together.
  uint64_t of_user = kNoLimit;
};
ThreadLimit ReadThreadLimit(const std::string& root = "");

// Returns text about the limits that may be the reason why no thread can be made: "cgroup pids.max
// is 40, and 40 are in use; ...".
std::string Describe(const ThreadLimit& limit);

// The number of times that the kernel has killed a process for lack of memory, in the control group
// of this process or on the machine if there is no group. `source` names the counter; it is empty
// if there is no counter.
struct OomKills {
  uint64_t count = 0;
  std::string source;  // such as "cgroup memory.events"
};
OomKills ReadOomKills(const std::string& root = "");

}  // namespace atolld
