// LocalLauncher: executes each run of an experiment as a child process, `atoll local`.
//
// If this process dies for any reason, the children end in order (process.h), and the next start
// continues the runs from the state that they left. Nothing blocks, except that Start writes to the
// disk and the other calls read it for a moment. Used by one thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "daemon/env/env.h"
#include "daemon/experiment/experiment_folder.h"
#include "daemon/experiment/run_plan.h"
#include "daemon/experiment/run_queue.h"

namespace atolld {

inline constexpr uint32_t kMostLabPeers = 200;  // the most peers that a lab can have

// Returns the network of a run as a topology file of the lab (tests/wan/README.md). Every peer is a
// node of its own, with the name that `atoll local` gives it and with the line of its party; the
// coordinator's line is not limited. A packet between two peers is delayed by the sum of both
// lines' delays, so a round trip takes twice that sum. `seed` is the seed of the losses of packets.
// Pure.
std::string LabTopology(const std::vector<LinkKeys>& links, uint32_t peers, uint64_t seed);

class LocalLauncher : public RunLauncher {
 public:
  // `program` is the path of atoll. If `lab_links` is not empty, each run is executed in a lab of
  // its own with these lines.
  LocalLauncher(Files& files, std::string dir, std::string program, std::vector<RunPlan> plans,
                std::vector<LinkKeys> lab_links);
  ~LocalLauncher() override;  // kills the children that still run

  bool Finished(size_t run) override;
  bool Busy(size_t run) override;
  absl::Status Start(size_t run) override;
  std::optional<LaunchEnd> Ended(size_t run) override;
  uint64_t Round(size_t run) override;
  void Stop(size_t run) override;

  // Returns the command that executes the run. A user may also type it.
  std::vector<std::string> CommandOf(size_t run) const;

 private:
  std::string TopologyPath(size_t run) const { return Paths(run).dir + ".lab.toml"; }
  RunPaths Paths(size_t run) const { return PathsOf(dir_, plans_[run].id); }

  Files& files_;
  const std::string dir_;
  const std::string program_;
  const std::vector<RunPlan> plans_;
  const std::vector<LinkKeys> lab_links_;
  std::map<size_t, pid_t> pids_;
};

}  // namespace atolld
