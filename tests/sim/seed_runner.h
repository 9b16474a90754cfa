// SeedRunner: runs many seeds in a few processes and summarises what they found.
//
// Seeds share nothing, so each job is a process of its own. A seed whose process crashes has
// failed, and another process takes over the rest of its share. Progress and failures go to
// standard error, the summary to standard output.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace atolld {

struct SeedOptions {
  std::vector<uint64_t> seeds;  // run in this order
  // How many of the first seeds are run twice; both runs must have the same history.
  size_t twice = 0;
  int jobs = 1;
  bool verbose = false;  // Prints the story of each seed, in this process.
  bool calm = false;     // leaves out the faults that a seed draws; lying peers still lie
  std::string mode;      // The mode of all runs; if empty, each seed draws its own.
  std::string store;     // with "etcd" several coordinators share a store; if empty, one
                         // coordinator has its own
  bool json = false;
};

// Returns 0 if every invariant held, and 1 if one was violated (the seed is printed) or a process
// could not be created.
int RunSeeds(const SeedOptions& options);

}  // namespace atolld
