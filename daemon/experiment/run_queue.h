// RunQueue: the runs of an experiment, as many at once as fit, each until it has ended.
//
// How a run is started is a launcher's affair, so that tests bring their own. Law: a run that is
// finished is never started; one that cannot be started yet, because an earlier process of it is
// still ending, waits; a run that fails does not keep the others from going on. One thread; nothing
// blocks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace atolld {

struct QueuedRun {
  std::string id;
  std::string setting;
  uint64_t seed = 0;
  uint64_t rounds = 1;  // what its share of the work is measured in
};

// How a run's process has ended.
struct LaunchEnd {
  bool finished = false;  // sealed, with its report
  std::string why;        // one line; empty if finished
};

class RunLauncher {
 public:
  virtual ~RunLauncher() = default;
  // The run was finished before.
  virtual bool Finished(size_t run) = 0;
  // An earlier process still works on it.
  virtual bool Busy(size_t run) = 0;
  virtual absl::Status Start(size_t run) = 0;
  // Nothing: it goes on.
  virtual std::optional<LaunchEnd> Ended(size_t run) = 0;
  // Rounds that are committed, as far as is known.
  virtual uint64_t Round(size_t run) = 0;
  // Asks it to end in order.
  virtual void Stop(size_t run) = 0;
};

class RunQueue {
 public:
  enum class State { kWaiting, kRunning, kFinished, kBroken };

  // Those that were finished before count as such at once. Borrows the launcher. `jobs` above 0.
  RunQueue(std::vector<QueuedRun> runs, size_t jobs, RunLauncher& launcher);

  // Looks who has ended, and starts who may begin; after Stop it starts none. Lines tell what has
  // happened. `now_seconds`: of any monotonic clock.
  std::vector<std::string> Step(double now_seconds);

  // Every run has ended; after Stop: none runs any more.
  bool done() const;
  // Asks all that run to end, and starts no other.
  void Stop();

  const std::vector<QueuedRun>& runs() const { return runs_; }
  State state(size_t run) const { return states_[run].state; }
  const std::string& why(size_t run) const { return states_[run].why; }
  uint64_t round(size_t run) const;
  size_t Count(State state) const;
  // Share of all work that is done, by rounds: 0 to 1.
  double Share() const;
  // By the pace since the first Step; nothing: it is not known yet.
  std::optional<double> SecondsLeft(double now_seconds) const;

 private:
  struct RunState {
    State state = State::kWaiting;
    uint64_t round = 0;
    std::string why;
  };

  void Settle(size_t run, const LaunchEnd& end, std::vector<std::string>* lines);

  const std::vector<QueuedRun> runs_;
  const size_t jobs_;
  RunLauncher& launcher_;
  std::vector<RunState> states_;
  bool stopping_ = false;
  std::optional<double> begun_at_;
  double share_at_start_ = 0;
};

// "FedProx, seed 2": how messages call a run.
std::string NameOf(const QueuedRun& run);

}  // namespace atolld
