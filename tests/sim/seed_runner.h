// SeedRunner: runs many seeds in a few processes and sums up what they found.
//
// Seeds share nothing, so each job is a process of its own; one that crashes is a seed that failed,
// and the rest of its share goes to another process. Progress and failures go to standard error,
// the summary to standard output.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace atolld {

struct SeedOptions {
  std::vector<uint64_t> seeds;  // in this order
  size_t twice = 0;             // so many of the first are run twice: both must be the same history
  int jobs = 1;
  bool verbose = false;  // tells the story of each seed, in this process
  bool calm = false;     // without the faults that a seed draws; who lies still does
  std::string mode;      // of all runs; empty: each seed draws its own
  std::string store;     // "etcd": several coordinators share one; empty: one has its own
  bool json = false;
};

// 0: every invariant held; 1: one was violated (the seed is named), or a process could not be made.
int RunSeeds(const SeedOptions& options);

}  // namespace atolld
