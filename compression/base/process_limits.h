// What this process may have of its machine: the cores, the memory, the descriptors and the size of
// files that a container, a batch system or the machine's owner leaves it.
//
// A container sees all cores and all memory of its machine; what counts is the tightest limit of
// its control group (v1 and v2) and of every group above that, its CPU affinity and its rlimits.
// Whoever chooses a number of threads, or says whether something fits, asks here. Blocking; any
// thread.
#pragma once

#include <cstdint>
#include <string>

namespace atolld {

inline constexpr uint64_t kNoLimit = ~uint64_t{0};

struct CoreLimit {
  double cores = 1;         // a control group's share may be a fraction
  uint32_t of_machine = 1;  // cores that it has
  std::string source;       // "cgroup cpu.max", "CPU affinity"; empty: the machine itself

  // As many as can be busy all the time, at least 1. A fraction is left over: one thread more than
  // a group's share pauses the whole group again and again, and threads that compute together all
  // wait for the last of them.
  uint32_t threads() const;
};

struct MemoryLimit {
  uint64_t free_bytes = 0;  // that this process can still take
  uint64_t bytes = 0;       // at most; 0: nothing is known
  std::string source;       // of `bytes`: "cgroup memory.max", "RLIMIT_AS"; empty: the machine
};

struct ProcessLimits {
  CoreLimit cores;
  MemoryLimit memory;
  uint64_t descriptors = kNoLimit;  // RLIMIT_NOFILE, to which a process may raise its own
  uint64_t file_bytes = kNoLimit;   // RLIMIT_FSIZE
};

// What cannot be read limits nothing. `root` stands before /proc and /sys: tests bring their own.
ProcessLimits ReadProcessLimits(const std::string& root = "");

// "2 of 16 cores: cgroup cpu.max", "16 cores".
std::string Describe(const CoreLimit& limit);

}  // namespace atolld
