// ComposeLauncher: runs an experiment's runs in containers, each as a project of `docker compose`.
//
// A run goes through stages, a child process each: what an earlier start has left of the project is
// taken down; the containers are started; `atoll run watch` in the coordinator's follows the run to
// its seal, and leaves report and figures there; they are copied to where `atoll local` would have
// left them; the containers' logs are kept; the project is taken down, whatever has happened. A run
// that was interrupted begins anew: its containers' volumes are gone with them.
//
// The coordinator waits for peers for ever. So beside the watch the peers' containers are looked
// at: once all of them are down for good the run has failed, and the error has each one's last
// line.
//
//   DIR/compose/ID.yml, DIR/compose/ID/   what `atoll experiment compose` would write
//   DIR/runs/ID.log                       what the commands said, and the rounds
//   DIR/runs/ID/containers.txt            the containers' logs
//
// One thread; nothing blocks but for a look at the disk.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "daemon/env/env.h"
#include "daemon/experiment/compose_peers.h"
#include "daemon/experiment/experiment.h"
#include "daemon/experiment/experiment_folder.h"
#include "daemon/experiment/run_plan.h"
#include "daemon/experiment/run_queue.h"

namespace atolld {

class ComposeLauncher : public RunLauncher {
 public:
  // `dir`: of the experiment, absolute. `compose`: what a command of Compose begins with. Borrows
  // the experiment.
  ComposeLauncher(Files& files, const Experiment& experiment, std::string dir,
                  std::vector<std::string> compose, std::vector<RunPlan> plans);
  // Ends the commands that still run, not the containers: the next start takes them down.
  ~ComposeLauncher() override;

  bool Finished(size_t run) override;
  bool Busy(size_t) override { return false; }
  absl::Status Start(size_t run) override;
  std::optional<LaunchEnd> Ended(size_t run) override;
  uint64_t Round(size_t run) override;
  void Stop(size_t run) override;

  enum class Stage { kClear, kUp, kWatch, kFigures, kReport, kLogs, kDown };
  // The command of a stage.
  std::vector<std::string> CommandOf(size_t run, Stage stage) const;
  // The command that looks at the peers' containers, beside the watch.
  std::vector<std::string> LookCommand(size_t run) const;

 private:
  struct Running {
    Stage stage = Stage::kClear;
    int64_t pid = 0;                           // 0: the watch has ended too soon
    double again_at = 0;                       // when it is begun again then, of a monotonic clock
    uint64_t round = 0;                        // the newest that was seen
    std::optional<double> failing_since = {};  // without a new round
    std::string why;                           // it is not finished; empty: nothing is wrong
    int64_t look_pid = 0;                      // of the look at the peers' containers; 0: none
    double look_at = 0;                        // when the next one begins
    std::optional<double> ended_since = {};    // since when no peer's container runs
    std::vector<PeerContainer> ended;          // that is why the run has failed
  };

  RunPaths Paths(size_t run) const { return PathsOf(dir_, plans_[run].id); }
  std::string ComposePath(size_t run) const;
  absl::Status Begin(size_t run, Stage stage, Running* running);
  // Takes in a look that has ended, and begins the next.
  void Look(size_t run, Running* running);
  // Ends the watch if the peers are down for good. None: nothing is known of them.
  static void JudgePeers(const std::vector<PeerContainer>& peers, Running* running);
  std::string LookPath(size_t run) const;
  std::string LogsPath(size_t run) const;
  // Where it goes on after the stage has ended, well or not.
  Stage Next(size_t run, bool good, const std::string& how, Running* running);
  // Whether a watch that has ended too soon is worth another.
  bool WatchesAgain(size_t run, Running* running);
  LaunchEnd End(size_t run, bool good, const std::string& how);

  Files& files_;
  const Experiment& experiment_;
  const std::string dir_;
  const std::vector<std::string> compose_;
  const std::vector<RunPlan> plans_;
  std::map<size_t, Running> running_;
};

// The project of a run: of the experiment's folder, so that two of one name stay apart.
std::string ComposeProject(const std::string& dir, const std::string& run_id);

}  // namespace atolld
