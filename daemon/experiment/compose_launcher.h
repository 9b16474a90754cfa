// ComposeLauncher: executes the runs of an experiment in containers, each run as a project of
// `docker compose`.
//
// A run goes through stages, each of which is a child process. First, containers that an earlier
// start has left are removed. Then the containers are started. `atoll run watch` in the
// coordinator's container follows the run until it is sealed, and writes the report and the figures
// in that container. They are copied to the paths at which `atoll local` leaves its own. The
// containers' logs are stored. At the end the project is always removed, even after an error. A run
// that was interrupted begins anew, because the containers' volumes are removed with them.
//
// The coordinator waits for peers without a limit. The peers' containers are therefore examined
// during the watch: once none of them runs or will be started again, the run has failed, and the
// error shows the last line of each.
//
//   DIR/compose/ID.yml, DIR/compose/ID/   the files that `atoll experiment compose` would write
//   DIR/runs/ID.log                       the output of the commands, and the rounds
//   DIR/runs/ID/containers.txt            the containers' logs
//
// Nothing blocks, except for short reads of the disk. Used by one thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "daemon/env/env.h"
#include "daemon/experiment/compose_engine.h"
#include "daemon/experiment/experiment.h"
#include "daemon/experiment/experiment_folder.h"
#include "daemon/experiment/run_plan.h"
#include "daemon/experiment/run_queue.h"

namespace atolld {

class ComposeLauncher : public RunLauncher {
 public:
  // `dir` is the absolute path of the experiment's folder. `compose` holds the words that begin a
  // command of Compose (see FindComposeEngine). `experiment` must outlive this object.
  ComposeLauncher(Files& files, const Experiment& experiment, std::string dir,
                  std::vector<std::string> compose, std::vector<RunPlan> plans);
  // Ends the commands that still run. The containers continue until the next start removes them.
  ~ComposeLauncher() override;

  bool Finished(size_t run) override;
  bool Busy(size_t) override { return false; }
  absl::Status Start(size_t run) override;
  std::optional<LaunchEnd> Ended(size_t run) override;
  uint64_t Round(size_t run) override;
  void Stop(size_t run) override;

  enum class Stage { kClear, kUp, kWatch, kFigures, kReport, kLogs, kDown };
  // Returns the command of a stage.
  std::vector<std::string> CommandOf(size_t run, Stage stage) const;
  // Returns the command that lists the peers' containers during the watch.
  std::vector<std::string> LookCommand(size_t run) const;

 private:
  struct Running {
    Stage stage = Stage::kClear;
    pid_t pid = 0;        // the pid of the stage's process; 0 after a watch that has ended too soon
    double again_at = 0;  // the time at which such a watch begins again, by a monotonic clock
    uint64_t round = 0;   // the newest round that was seen
    // The time since which watches have failed without a new round.
    std::optional<double> failing_since = {};
    // The reason why the run failed; empty if nothing is wrong.
    std::string why;
    pid_t look_pid = 0;  // the pid of the command that lists the containers; 0 if none runs
    double look_at = 0;  // the time at which the next such command begins
    std::optional<double> ended_since = {};  // the time since which no container of a peer runs
    std::vector<PeerContainer> ended;        // the containers, if this is why the run has failed
  };

  RunPaths Paths(size_t run) const { return PathsOf(dir_, plans_[run].id); }
  std::string ComposePath(size_t run) const;
  absl::Status Begin(size_t run, Stage stage, Running* running);
  // Reads the output of the last list of containers, and begins the next one when it is time.
  void Look(size_t run, Running* running);
  // Ends the watch if no peer's container runs or will be started again. An empty list means that
  // nothing is known about them.
  static void JudgePeers(const std::vector<PeerContainer>& peers, Running* running);
  std::string LookPath(size_t run) const;
  std::string LogsPath(size_t run) const;
  // Returns the next stage. `good` is true if the current stage has succeeded; otherwise `how` says
  // how it ended.
  Stage Next(size_t run, bool good, const std::string& how, Running* running);
  // Returns true if a watch that has ended too soon should be started again.
  bool WatchesAgain(size_t run, Running* running);
  LaunchEnd End(size_t run, bool good, const std::string& how);

  Files& files_;
  const Experiment& experiment_;
  const std::string dir_;
  const std::vector<std::string> compose_;
  const std::vector<RunPlan> plans_;
  std::map<size_t, Running> running_;
};

// Returns the name of a run's project. It depends on the experiment's folder, so that experiments
// with the same name have different projects.
std::string ComposeProject(const std::string& dir, const std::string& run_id);

}  // namespace atolld
