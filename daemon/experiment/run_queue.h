// RunQueue: executes the runs of an experiment, up to a given number of them at once.
//
// Runs are started through a RunLauncher, which tests replace. Law: a finished run is never started
// again. A run waits while a process of its last start is still ending. If a run fails, the others
// continue. Nothing blocks. Used by one thread.
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
  uint64_t rounds = 1;  // the run's share of all work is measured by its rounds
};

// The end of a run's process.
struct LaunchEnd {
  bool finished = false;  // true if the run is sealed and has its report
  std::string why;        // why it is not finished, in one line; empty if it is
};

class RunLauncher {
 public:
  virtual ~RunLauncher() = default;
  // Returns true if an earlier start has finished the run.
  virtual bool Finished(size_t run) = 0;
  // Returns true if a process of an earlier start still works on the run.
  virtual bool Busy(size_t run) = 0;
  virtual absl::Status Start(size_t run) = 0;
  // Returns how the run's process has ended, or nullopt while it runs.
  virtual std::optional<LaunchEnd> Ended(size_t run) = 0;
  // Returns the number of committed rounds that is known so far.
  virtual uint64_t Round(size_t run) = 0;
  // Asks the run's process to end in order.
  virtual void Stop(size_t run) = 0;
};

class RunQueue {
 public:
  enum class State { kWaiting, kRunning, kFinished, kBroken };

  // `jobs` is the number of runs at once and must be above 0. `launcher` must outlive this object.
  // Runs that an earlier start has finished are in state kFinished from the beginning.
  RunQueue(std::vector<QueuedRun> runs, size_t jobs, RunLauncher& launcher);

  // Call this regularly. It finds the runs that have ended and starts others in their place, except
  // after Stop. Returns lines about what has happened. `now_seconds` is the time of any monotonic
  // clock.
  std::vector<std::string> Step(double now_seconds);

  // Returns true if every run has ended or, after Stop, if no run is active any more.
  bool done() const;
  // Asks all active runs to end, and makes Step start no others.
  void Stop();

  const std::vector<QueuedRun>& runs() const { return runs_; }
  State state(size_t run) const { return states_[run].state; }
  const std::string& why(size_t run) const { return states_[run].why; }
  uint64_t round(size_t run) const;
  size_t Count(State state) const;
  // Returns the share of the rounds of all runs that is done, 0 to 1.
  double Share() const;
  // Returns the remaining time at the pace since the first Step, or nullopt if the pace is not
  // known yet.
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

// Returns the name of a run in messages: "FedProx, seed 2".
std::string NameOf(const QueuedRun& run);

}  // namespace atolld
