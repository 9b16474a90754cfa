// LocalLauncher: runs an experiment's runs as `atoll local`, a child process each.
//
// A child ends in order when this process dies, however it dies (process.h); what it leaves is gone
// on with. One thread; only Start touches the disk for more than a look.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "daemon/env/env.h"
#include "daemon/experiment/experiment_folder.h"
#include "daemon/experiment/run_plan.h"
#include "daemon/experiment/run_queue.h"

namespace atolld {

class LocalLauncher : public RunLauncher {
 public:
  // `program`: the path of atoll. `lab_links`: not empty: each run is in a lab of its own, with
  // these lines.
  LocalLauncher(Files& files, std::string dir, std::string program, std::vector<RunPlan> plans,
                std::vector<LinkKeys> lab_links);
  ~LocalLauncher() override;  // kills what still runs

  bool Finished(size_t run) override;
  bool Busy(size_t run) override;
  absl::Status Start(size_t run) override;
  std::optional<LaunchEnd> Ended(size_t run) override;
  uint64_t Round(size_t run) override;
  void Stop(size_t run) override;

  // The command that runs it: a person may type it too.
  std::vector<std::string> CommandOf(size_t run) const;

 private:
  std::string TopologyPath(size_t run) const { return Paths(run).dir + ".lab.toml"; }
  RunPaths Paths(size_t run) const { return PathsOf(dir_, plans_[run].id); }

  Files& files_;
  const std::string dir_;
  const std::string program_;
  const std::vector<RunPlan> plans_;
  const std::vector<LinkKeys> lab_links_;
  std::map<size_t, int64_t> pids_;
};

}  // namespace atolld
