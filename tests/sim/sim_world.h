// SimWorld: simulated processes on one clock, one network and one seed, for tests of the daemon's
// state machines.
//
//   SimWorld world(seed);
//   SimProcess& p1 = world.AddProcess("p1", [](Env env) { return std::make_shared<Thing>(env); });
//   ASSERT_TRUE(world.RunUntil([&] { return done; }, absl::Seconds(10)));
//   world.Kill("p1");  world.Restart("p1");  world.network().CutLink("p1", "p2");
//
// Single-threaded and deterministic: equal seeds give equal digests. Only what the test leaves to
// chance (a loss by probability, a drawn crash) comes from the seed.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "daemon/env/env.h"
#include "tests/sim/sim_events.h"
#include "tests/sim/sim_executor.h"
#include "tests/sim/sim_machine.h"
#include "tests/sim/sim_threads.h"
#include "tests/sim/sim_transport.h"

namespace atolld {

struct SimSettings {
  SimPoolSettings pool;
  SimNetworkSettings network;
  SimDisk::Crash crash = SimDisk::Crash::kLoseUnsynced;
  Log::Level log_level = Log::Level::kDebug;  // lines below this level are not kept at all
  // Called with every line of every process, whatever its level. May be null.
  std::function<void(Log::Level, absl::string_view line)> on_line = nullptr;
};

struct SimLogLine {
  absl::Duration time;
  std::string process;
  Log::Level level;
  std::string text;
};

class SimWorld;

uint64_t SimMix(uint64_t seed, uint64_t salt);  // Derives another seed.

// A simulated process: the objects that its program made for the Env of one life, on a machine that
// outlives the process.
//
// Killing it drops its events, timers, calls and objects. A process that its disk kills (SimDisk's
// CrashAtWrite and FailSyncs) is doomed from that instant: the running event is completed, but
// nothing that the process still does has an effect, and the kill is the next event.
class SimProcess {
 public:
  // Makes the process's objects for one life; the result is destroyed when the process is killed.
  // Runs inside AddProcess and Restart, as code before the loop does.
  using Program = std::function<std::shared_ptr<void>(Env env)>;

  SimProcess(SimWorld& world, std::string name, Program program, SimMachine& machine);
  ~SimProcess();

  const std::string& name() const { return name_; }
  bool alive() const { return alive_; }  // false from the instant at which it is doomed
  Env env();                             // the Env of the current life; the process must be alive
  SimExecutor& executor();
  SimThreads& threads();  // the threads of the current life
  const SimMachine& machine() const { return machine_; }
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
  // Former lives are kept, because objects that a test still holds may call into their Env. Such
  // calls have no effect.
  std::vector<std::unique_ptr<Life>> lives_;
};

class SimWorld {
 public:
  explicit SimWorld(uint64_t seed, SimSettings settings = SimSettings());
  ~SimWorld();

  // Without a program the test drives the process through its env().
  SimProcess& AddProcess(const std::string& name, SimProcess::Program program = nullptr);
  SimProcess& process(const std::string& name) const;
  // Returns the disk and clocks of a process. May be called before the process is added.
  SimMachine& machine(const std::string& name);
  SimDisk& disk(const std::string& name) { return machine(name).disk; }

  // If Kill or Restart is called inside an event, it takes effect as the next event, at the same
  // time.
  void Kill(const std::string& name);
  void Restart(const std::string& name);

  // Stops the process as SIGSTOP does: none of its events runs for this long (or until Resume);
  // then all that were due run, in order. Its clocks continue. A second pause can only extend the
  // first.
  void Pause(const std::string& name, absl::Duration duration);
  void Resume(const std::string& name) { process(name).Resume(); }

  // Sets what Kill leaves of this machine's unsynced bytes from now on.
  void SetCrash(const std::string& name, SimDisk::Crash crash) { crashes_[name] = crash; }
  // Does the same as the function of SimDisk, for this process's disk.
  void CrashAtWrite(const std::string& name, uint64_t count, SimDisk::Crash crash) {
    disk(name).CrashAtWrite(count, crash);
  }
  void OnWrite(const std::string& name, std::function<void(const SimWrite&)> callback) {
    disk(name).OnWrite(std::move(callback));
  }
  // Sets the function that is called when a process has died, by Kill or by its disk, and its
  // objects are gone; this is the place to plan its restart.
  void OnDeath(std::function<void(const std::string& name)> callback) {
    on_death_ = std::move(callback);
  }

  // See SimClock. Offsets are relative to the world's true time; drifts are in parts per million.
  void SetWallClock(const std::string& name, absl::Duration offset, int64_t drift);
  void StepWallClock(const std::string& name, absl::Duration by);
  void SetMonotonicDrift(const std::string& name, int64_t drift);

  // Runs events until the condition is true and returns true, or returns false when `limit` of
  // virtual time has passed.
  bool RunUntil(const std::function<bool()>& condition, absl::Duration limit);
  void RunFor(absl::Duration time);
  // Runs `task` once `delay` has passed. It is part of the test's script and belongs to no process.
  void At(absl::Duration delay, Task task);

  absl::Duration now() const { return events_.now(); }
  SimNetwork& network() { return network_; }
  void CutLink(const std::string& a, const std::string& b) { network_.CutLink(a, b); }
  void HealLink(const std::string& a, const std::string& b) { network_.HealLink(a, b); }
  SimRandom& random() { return random_; }  // For the test's own draws.
  // Returns a digest of all events so far and of the sizes of all frames delivered.
  uint64_t digest() const { return events_.digest(); }
  uint64_t events_run() const { return events_.ran(); }

  const std::vector<SimLogLine>& log() const { return log_; }
  std::string LogText() const;  // Each line is like "   0.012345 p1 I text".
  // Returns how many lines contain `text`.
  size_t LogCount(absl::string_view text) const;

 private:
  friend class SimProcess;
  SimDisk::Crash CrashOf(const std::string& name) const;

  const SimSettings settings_;
  const uint64_t seed_;

  SimEventQueue events_;
  SimRandom random_;
  SimNetwork network_;
  std::vector<SimLogLine> log_;
  std::function<void(const std::string&)> on_death_;
  std::map<std::string, SimDisk::Crash> crashes_;
  std::map<std::string, std::unique_ptr<SimMachine>> machines_;
  std::map<std::string, std::unique_ptr<SimProcess>> processes_;
};

}  // namespace atolld
