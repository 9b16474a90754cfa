#include "tests/sim/sim_world.h"

#include <malloc.h>

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "compression/base/check.h"

namespace atolld {
namespace {

// A run makes and frees buffers of a megabyte all the time. glibc would give each back to the
// kernel and fetch it anew: a quarter of the time of a simulation.
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

}  // namespace atolld
