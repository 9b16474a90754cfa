#include "tests/sim/sim_world.h"

#include <malloc.h>

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "compression/base/check.h"

namespace atolld {
namespace {

// A run allocates and frees buffers of a megabyte all the time. glibc would give each back to the
// kernel and fetch it again, which costs a quarter of a simulation's time.
void KeepFreedMemory() {
#ifdef __GLIBC__
  constexpr int kBytes = 256 << 20;
  mallopt(M_MMAP_THRESHOLD, kBytes);
  mallopt(M_TRIM_THRESHOLD, kBytes);
#endif
}

char Letter(Log::Level level) {
  switch (level) {
    case Log::Level::kDebug:
      return 'D';
    case Log::Level::kInfo:
      return 'I';
    case Log::Level::kWarning:
      return 'W';
    case Log::Level::kError:
      return 'E';
  }
  return '?';
}

uint64_t HashName(const std::string& name) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : name) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  return hash;
}

class SimLog final : public Log {
 public:
  SimLog(const SimEventQueue& events, std::string process, const SimSettings& settings,
         std::vector<SimLogLine>& lines)
      : events_(events), process_(std::move(process)), settings_(settings), lines_(lines) {}

  void Write(Level level, absl::string_view line) override {
    if (silent_) return;
    if (settings_.on_line) settings_.on_line(level, line);
    if (level < settings_.log_level) return;
    lines_.push_back({events_.now(), process_, level, std::string(line)});
  }

  void Silence() { silent_ = true; }

 private:
  const SimEventQueue& events_;
  const std::string process_;
  const SimSettings& settings_;
  std::vector<SimLogLine>& lines_;
  bool silent_ = false;
};

}  // namespace

uint64_t SimMix(uint64_t seed, uint64_t salt) { return SimRandom(seed ^ (salt << 32)).Next(); }

SimWorld::SimWorld(uint64_t seed, SimSettings settings)
    : settings_(settings),
      seed_(seed),
      random_(SimMix(seed, 1)),
      network_(events_, SimMix(seed, 2), settings.network) {
  KeepFreedMemory();
}

SimWorld::~SimWorld() {
  on_death_ = nullptr;
  for (auto& [name, process] : processes_) process->Kill();
  events_.DropAll();
}

SimProcess& SimWorld::AddProcess(const std::string& name, SimProcess::Program program) {
  const auto [found, added] = processes_.emplace(
      name, std::make_unique<SimProcess>(*this, name, std::move(program), machine(name)));
  CHECK(added);
  found->second->Start();
  return *found->second;
}

SimProcess& SimWorld::process(const std::string& name) const {
  const auto found = processes_.find(name);
  CHECK(found != processes_.end());
  return *found->second;
}

SimMachine& SimWorld::machine(const std::string& name) {
  std::unique_ptr<SimMachine>& machine = machines_[name];
  if (machine == nullptr) {
    machine = std::make_unique<SimMachine>();
    machine->disk.SeedFaults(SimMix(seed_, 2 + machines_.size()));
  }
  return *machine;
}

SimDisk::Crash SimWorld::CrashOf(const std::string& name) const {
  const auto found = crashes_.find(name);
  return found == crashes_.end() ? settings_.crash : found->second;
}

void SimWorld::Kill(const std::string& name) {
  SimProcess& victim = process(name);
  if (!events_.running()) return victim.Kill();
  // This life, not one that a restart at the same instant brings.
  events_.Schedule(absl::ZeroDuration(), SimEventQueue::kWorld, [&victim, life = victim.lives()] {
    if (victim.lives() == life) victim.Kill();
  });
}

void SimWorld::Restart(const std::string& name) {
  SimProcess& sleeper = process(name);
  if (!events_.running() && !sleeper.doomed_) return sleeper.Start();
  events_.Schedule(absl::ZeroDuration(), SimEventQueue::kWorld, [&sleeper] { sleeper.Start(); });
}

void SimWorld::Pause(const std::string& name, absl::Duration duration) {
  process(name).Pause(duration);
}

void SimWorld::SetWallClock(const std::string& name, absl::Duration offset, int64_t drift) {
  machine(name).clock.SetWall(now(), offset, drift);
}

void SimWorld::StepWallClock(const std::string& name, absl::Duration by) {
  machine(name).clock.StepWall(by);
}

void SimWorld::SetMonotonicDrift(const std::string& name, int64_t drift) {
  machine(name).clock.SetDrift(now(), drift);
}

bool SimWorld::RunUntil(const std::function<bool()>& condition, absl::Duration limit) {
  const absl::Duration end = events_.now() + limit;
  while (!condition()) {
    if (!events_.RunNext(end)) return condition();
  }
  return true;
}

void SimWorld::RunFor(absl::Duration time) {
  RunUntil([] { return false; }, time);
}

void SimWorld::At(absl::Duration delay, Task task) {
  events_.Schedule(delay, SimEventQueue::kWorld, std::move(task));
}

std::string SimWorld::LogText() const {
  std::string text;
  for (const SimLogLine& line : log_) {
    absl::StrAppend(&text, absl::StrFormat("%12.6f %s %c %s\n", absl::ToDoubleSeconds(line.time),
                                           line.process, Letter(line.level), line.text));
  }
  return text;
}

size_t SimWorld::LogCount(absl::string_view text) const {
  size_t count = 0;
  for (const SimLogLine& line : log_) count += absl::StrContains(line.text, text) ? 1 : 0;
  return count;
}

struct SimProcess::Life {
  SimThreads threads;
  SimExecutor executor;
  SimFiles files;
  SimTransport transport;
  SimLog log;
  std::shared_ptr<void> root;
};

SimProcess::SimProcess(SimWorld& world, std::string name, Program program, SimMachine& machine)
    : world_(world), name_(std::move(name)), program_(std::move(program)), machine_(machine) {
  machine_.disk.OnDeath([this] { Doom(); });
}

SimProcess::~SimProcess() = default;

Env SimProcess::env() {
  CHECK(alive_ || doomed_);
  Life& life = *lives_.back();
  return Env{life.executor, life.files, life.transport, life.log};
}

SimThreads& SimProcess::threads() {
  CHECK(!lives_.empty());
  return lives_.back()->threads;
}

SimExecutor& SimProcess::executor() {
  CHECK(!lives_.empty());
  return lives_.back()->executor;
}

void SimProcess::Start() {
  CHECK(!alive_ && !doomed_);
  const SimEventQueue::Owner owner = world_.events_.NewOwner();
  const uint64_t seed = SimMix(world_.seed_ ^ HashName(name_), lives_.size() + 1);
  // Each life has its own origin of time: comparing times of two processes must not work by chance.
  const absl::Duration origin = absl::Hours(1) * static_cast<double>(seed % 1000);
  lives_.push_back(std::unique_ptr<Life>(
      new Life{{world_.events_, owner},
               SimExecutor(world_.events_, owner, seed, origin, world_.settings_.pool, machine_),
               SimFiles(machine_.disk),
               SimTransport(world_.network_, name_, owner),
               SimLog(world_.events_, name_, world_.settings_, world_.log_),
               nullptr}));
  alive_ = true;
  if (program_) lives_.back()->root = program_(env());
}

void SimProcess::Doom() {
  if (!alive_) return;
  alive_ = false;
  doomed_ = true;
  Life& life = *lives_.back();
  life.threads.Die();
  world_.events_.Hold(life.executor.owner());
  world_.network_.Silence(life.executor.owner());
  life.log.Silence();
  world_.events_.Schedule(absl::ZeroDuration(), SimEventQueue::kWorld, [this] { Kill(); });
}

void SimProcess::Kill() {
  if (!alive_ && !doomed_) return;
  Life& life = *lives_.back();
  // The world first, so that what the destructors of the process's objects do has no effect
  // outside.
  if (!doomed_) machine_.disk.CrashNow(world_.CrashOf(name_));
  alive_ = doomed_ = false;
  paused_until_ = absl::ZeroDuration();
  world_.network_.SetPaused(name_, false);
  world_.network_.DropProcess(life.executor.owner());
  world_.events_.Drop(life.executor.owner());
  life.log.Silence();
  life.threads.Die();
  life.threads.EndAll();
  life.root.reset();
  if (world_.on_death_) world_.on_death_(name_);
}

void SimProcess::Pause(absl::Duration duration) {
  if (!alive_) return;
  const absl::Duration until = world_.now() + duration;
  if (until <= paused_until_) return;
  paused_until_ = until;
  world_.events_.Hold(lives_.back()->executor.owner());
  world_.network_.SetPaused(name_, true);
  world_.events_.Schedule(duration, SimEventQueue::kWorld, [this] {
    if (world_.now() >= paused_until_) Resume();
  });
}

void SimProcess::Resume() {
  if (!alive_ || !world_.events_.held(lives_.back()->executor.owner())) return;
  paused_until_ = absl::ZeroDuration();
  world_.events_.Release(lives_.back()->executor.owner());
  world_.network_.SetPaused(name_, false);
}

}  // namespace atolld
