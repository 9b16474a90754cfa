// SimWorld: simulated processes on one clock, one network and one seed, for tests of the daemon's
// state machines.
//
//   SimWorld world(seed);
//   SimProcess& p1 = world.AddProcess("p1", [](Env env) { return std::make_shared<Thing>(env); });
//   ASSERT_TRUE(world.RunUntil([&] { return done; }, absl::Seconds(10)));
//   world.Kill("p1");  world.Restart("p1");  world.network().CutLink("p1", "p2");
//
// Single-threaded and deterministic: equal seeds give equal digests. A process is what its program
// made for the Env of one life; killing it drops its events, timers, calls and objects, and keeps
// its disk.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "daemon/env.h"
#include "tests/sim/sim_executor.h"
#include "tests/sim/sim_files.h"
#include "tests/sim/sim_transport.h"

namespace atolld {

struct SimSettings {
  SimPoolSettings pool;
  SimNetworkSettings network;
  SimDisk::Crash crash = SimDisk::Crash::kLoseUnsynced;
};

struct SimLogLine {
  absl::Duration time;
  std::string process;
  Log::Level level;
  std::string text;
};

class SimWorld;

class SimProcess {
 public:
  // Makes the process's objects for one life; the result is destroyed when it is killed. Runs
  // inside AddProcess and Restart, as code before the loop does.
  using Program = std::function<std::shared_ptr<void>(Env env)>;

  SimProcess(SimWorld& world, std::string name, Program program);
  ~SimProcess();

  const std::string& name() const { return name_; }
  bool alive() const { return alive_; }
  Env env();  // of the current life; the process must be alive
  SimExecutor& executor();
  SimDisk& disk() { return disk_; }
  int lives() const { return static_cast<int>(lives_.size()); }

 private:
  friend class SimWorld;
  struct Life;
  void Start();
  void Kill();

  SimWorld& world_;
  const std::string name_;
  const Program program_;

  bool alive_ = false;
  SimDisk disk_;
  // Former lives stay: what a test still holds of them may call into their Env, to no effect.
  std::vector<std::unique_ptr<Life>> lives_;
};

class SimWorld {
 public:
  explicit SimWorld(uint64_t seed, SimSettings settings = SimSettings());
  ~SimWorld();

  // Without a program the test drives the process through its env().
  SimProcess& AddProcess(const std::string& name, SimProcess::Program program = nullptr);
  SimProcess& process(const std::string& name);

  // From inside an event, both take effect as the next event at the same time.
  void Kill(const std::string& name);
  void Restart(const std::string& name);

  // Runs events until the condition holds (true), or `limit` of virtual time has passed (false).
  bool RunUntil(const std::function<bool()>& condition, absl::Duration limit);
  void RunFor(absl::Duration time);
  // Runs `task` once `delay` has passed: the test's own script, of no process.
  void At(absl::Duration delay, Task task);

  absl::Duration now() const { return events_.now(); }
  SimNetwork& network() { return network_; }
  void CutLink(const std::string& a, const std::string& b) { network_.CutLink(a, b); }
  void HealLink(const std::string& a, const std::string& b) { network_.HealLink(a, b); }
  SimRandom& random() { return random_; }  // for the test's own draws
  uint64_t digest() const { return events_.digest(); }

  const std::vector<SimLogLine>& log() const { return log_; }
  std::string LogText() const;  // "   0.012345 p1 I text" a line
  // How many lines contain `text`.
  size_t LogCount(absl::string_view text) const;

 private:
  friend class SimProcess;

  const SimSettings settings_;
  const uint64_t seed_;

  SimEventQueue events_;
  SimRandom random_;
  SimNetwork network_;
  std::vector<SimLogLine> log_;
  std::map<std::string, std::unique_ptr<SimProcess>> processes_;
};

}  // namespace atolld
