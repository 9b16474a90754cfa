#include "tests/sim/sim_world.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "daemon/status_macros.h"

namespace atolld {
namespace {

class SimLog final : public Log {
 public:
  SimLog(const SimEventQueue& events, std::string process, std::vector<SimLogLine>& lines)
      : events_(events), process_(std::move(process)), lines_(lines) {}

  void Write(Level level, absl::string_view line) override {
    lines_.push_back({events_.now(), process_, level, std::string(line)});
  }

 private:
  const SimEventQueue& events_;
  const std::string process_;
  std::vector<SimLogLine>& lines_;
};

uint64_t Mix(uint64_t seed, uint64_t salt) { return SimRandom(seed ^ (salt << 32)).Next(); }

uint64_t HashName(const std::string& name) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : name) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  return hash;
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

struct SimProcess::Life {
  SimExecutor executor;
  SimFiles files;
  SimTransport transport;
  SimLog log;
  std::shared_ptr<void> root;
};

SimProcess::SimProcess(SimWorld& world, std::string name, Program program)
    : world_(world), name_(std::move(name)), program_(std::move(program)) {}

SimProcess::~SimProcess() = default;

Env SimProcess::env() {
  CHECK(alive_);
  Life& life = *lives_.back();
  return Env{life.executor, life.files, life.transport, life.log};
}

SimExecutor& SimProcess::executor() {
  CHECK(!lives_.empty());
  return lives_.back()->executor;
}

void SimProcess::Start() {
  CHECK(!alive_);
  const SimEventQueue::Owner owner = world_.events_.NewOwner();
  const uint64_t seed = Mix(world_.seed_ ^ HashName(name_), lives_.size() + 1);
  // Each life has its own origin of time: comparing times of two processes must not work by chance.
  const absl::Duration origin = absl::Hours(1) * static_cast<double>(seed % 1000);
  lives_.push_back(std::unique_ptr<Life>(
      new Life{SimExecutor(world_.events_, owner, seed, origin, world_.settings_.pool),
               SimFiles(disk_), SimTransport(world_.network_, name_, owner),
               SimLog(world_.events_, name_, world_.log_), nullptr}));
  alive_ = true;
  if (program_) lives_.back()->root = program_(env());
}

void SimProcess::Kill() {
  if (!alive_) return;
  alive_ = false;
  Life& life = *lives_.back();
  // The world first, so that what the destructors of the process's objects do has no effect
  // outside.
  disk_.CrashNow(world_.settings_.crash);
  world_.network_.DropProcess(life.executor.owner());
  world_.events_.Drop(life.executor.owner());
  life.root.reset();
}

SimWorld::SimWorld(uint64_t seed, SimSettings settings)
    : settings_(settings),
      seed_(seed),
      random_(Mix(seed, 1)),
      network_(events_, Mix(seed, 2), settings.network) {}

SimWorld::~SimWorld() {
  for (auto& [name, process] : processes_) process->Kill();
  events_.Drop(SimEventQueue::kWorld);
}

SimProcess& SimWorld::AddProcess(const std::string& name, SimProcess::Program program) {
  const auto [found, added] =
      processes_.emplace(name, std::make_unique<SimProcess>(*this, name, std::move(program)));
  CHECK(added);
  found->second->Start();
  return *found->second;
}

SimProcess& SimWorld::process(const std::string& name) {
  const auto found = processes_.find(name);
  CHECK(found != processes_.end());
  return *found->second;
}

void SimWorld::Kill(const std::string& name) {
  SimProcess& victim = process(name);
  if (!events_.running()) return victim.Kill();
  events_.Schedule(absl::ZeroDuration(), SimEventQueue::kWorld, [&victim] { victim.Kill(); });
}

void SimWorld::Restart(const std::string& name) {
  SimProcess& sleeper = process(name);
  if (!events_.running()) return sleeper.Start();
  events_.Schedule(absl::ZeroDuration(), SimEventQueue::kWorld, [&sleeper] { sleeper.Start(); });
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
