// A simulated process: what its program made for the Env of one life, on a machine that outlives
// it.
//
// Killing it drops its events, timers, calls and objects. A process that its disk kills (SimDisk's
// CrashAtWrite and FailSyncs) is doomed from that instant: the event that runs goes on to its end,
// but nothing that it still does has an effect, and the kill is the next event.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "daemon/env/env.h"
#include "tests/sim/sim_executor.h"
#include "tests/sim/sim_files.h"
#include "tests/sim/sim_machine.h"
#include "tests/sim/sim_transport.h"

namespace atolld {

class SimWorld;

class SimProcess {
 public:
  // Makes the process's objects for one life; the result is destroyed when it is killed. Runs
  // inside AddProcess and Restart, as code before the loop does.
  using Program = std::function<std::shared_ptr<void>(Env env)>;

  SimProcess(SimWorld& world, std::string name, Program program, SimMachine& machine);
  ~SimProcess();

  const std::string& name() const { return name_; }
  bool alive() const { return alive_; }  // not from the instant on at which it is doomed
  Env env();                             // of the current life; the process must be alive
  SimExecutor& executor();
  SimDisk& disk() { return machine_.disk; }
  int lives() const { return static_cast<int>(lives_.size()); }

 private:
  friend class SimWorld;
  struct Life;
  void Start();
  void Doom();
  void Kill();
  void Pause(absl::Duration duration);
  void Resume();

  SimWorld& world_;
  const std::string name_;
  const Program program_;
  SimMachine& machine_;

  bool alive_ = false;
  bool doomed_ = false;
  absl::Duration paused_until_;
  // Former lives stay: what a test still holds of them may call into their Env, to no effect.
  std::vector<std::unique_ptr<Life>> lives_;
};

}  // namespace atolld
