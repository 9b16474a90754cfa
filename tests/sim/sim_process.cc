#include "tests/sim/sim_process.h"

#include <algorithm>
#include <utility>

#include "compression/base/check.h"
#include "tests/sim/sim_world.h"

namespace atolld {
namespace {

uint64_t HashName(const std::string& name) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : name) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  return hash;
}

class SimLog final : public Log {
 public:
  SimLog(const SimEventQueue& events, std::string process, Level least,
         std::vector<SimLogLine>& lines)
      : events_(events), process_(std::move(process)), least_(least), lines_(lines) {}

  void Write(Level level, absl::string_view line) override {
    if (level < least_ || silent_) return;
    lines_.push_back({events_.now(), process_, level, std::string(line)});
  }

  void Silence() { silent_ = true; }

 private:
  const SimEventQueue& events_;
  const std::string process_;
  const Level least_;
  std::vector<SimLogLine>& lines_;
  bool silent_ = false;
};

}  // namespace

struct SimProcess::Life {
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
      new Life{SimExecutor(world_.events_, owner, seed, origin, world_.settings_.pool, machine_),
               SimFiles(machine_.disk), SimTransport(world_.network_, name_, owner),
               SimLog(world_.events_, name_, world_.settings_.log_level, world_.log_), nullptr}));
  alive_ = true;
  if (program_) lives_.back()->root = program_(env());
}

void SimProcess::Doom() {
  if (!alive_) return;
  alive_ = false;
  doomed_ = true;
  Life& life = *lives_.back();
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
