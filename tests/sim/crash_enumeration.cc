#include "tests/sim/crash_enumeration.h"

#include <memory>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compression/base/check.h"
#include "tests/sim/crash_invariants.h"

namespace atolld {
namespace {

constexpr uint64_t kRounds = 3;

// A round takes half a second here, and a death is known after two: a run that is not sealed by
// then waits for something that will not come.
constexpr absl::Duration kLimit = absl::Minutes(1);

// Time for a process that is dead at the end to return and repair its disk.
constexpr absl::Duration kAfterwards = absl::Seconds(4);

const char* Word(SimWrite::Kind kind) {
  switch (kind) {
    case SimWrite::Kind::kCreate:
      return "create";
    case SimWrite::Kind::kAppend:
      return "append to";
    case SimWrite::Kind::kSync:
      return "sync";
    case SimWrite::Kind::kRename:
      return "rename to";
    case SimWrite::Kind::kRemove:
      return "remove";
    case SimWrite::Kind::kTruncate:
      return "truncate";
    case SimWrite::Kind::kMkdir:
      return "make directory";
    case SimWrite::Kind::kSyncDirectory:
      return "sync directory";
  }
  return "?";
}

const char* Word(SimDisk::Crash crash) {
  switch (crash) {
    case SimDisk::Crash::kLoseUnsynced:
      return "unsynced lost";
    case SimDisk::Crash::kKeepUnsynced:
      return "unsynced kept";
    case SimDisk::Crash::kTornLast:
      return "last write torn";
    default:
      return "?";
  }
}

// The scenario's run, with a script that follows what has been committed.
class Play {
 public:
  Play(const CrashScenario& scenario, const CrashPoint& point)
      : scenario_(scenario),
        point_(point),
        invariants_(scenario.cluster.quorum),
        may_lack_end_({scenario.leaver}),
        cluster_(scenario.seed, scenario.cluster,
                 [this](const std::string& peer, const Frame& frame) {
                   invariants_.OnFrame(peer, frame);
                 }) {
    SimWorld& world = cluster_.world();
    world.OnDeath([this](const std::string& name) { OnDeath(name); });
    if (!point.process.empty()) {
      world.disk(point.process).SeedFaults(scenario.seed * 1000003 + point.change);
      world.CrashAtWrite(point.process, point.change, point.left);
    }
    // From inside the world, so that a process may die at its first step.
    world.At(absl::ZeroDuration(), [this] {
      cluster_.Start(kCoordinator);
      for (int i = 1; i <= scenario_.cluster.peers; ++i) {
        const std::string name = absl::StrCat("p", i);
        if (name != scenario_.joiner) cluster_.Start(name);
      }
    });
  }

  std::vector<std::string> Run() {
    bool sealed = cluster_.RunToVersion(1, kLimit);
    if (sealed) {
      cluster_.world().At(absl::ZeroDuration(), [this] { cluster_.Start(scenario_.joiner); });
      // In the middle of a round, so that there is one to finish first.
      cluster_.world().At(absl::Milliseconds(250), [this] {
        if (cluster_.world().process(scenario_.leaver).alive()) cluster_.Drain(scenario_.leaver);
      });
      sealed = cluster_.world().RunUntil([this] { return Ended(); }, kLimit);
    }
    if (sealed) {
      cluster_.world().RunFor(kAfterwards);
      invariants_.CheckEnd(cluster_, may_lack_end_, kRounds);
    } else {
      invariants_.Fault(absl::StrCat("not sealed after ", absl::FormatDuration(kLimit),
                                     "; version ", cluster_.version()));
    }
    if (!point_.process.empty() && !crashed_) invariants_.Fault("the crash never came");
    return invariants_.faults();
  }

  SimCluster& cluster() { return cluster_; }

 private:
  // The run is sealed, and so is the replica of everybody who was there.
  bool Ended() {
    if (!cluster_.stored().seal) return false;
    const std::map<std::string, absl::Status>& finished = cluster_.finished();
    if (!std::exchange(seal_seen_, true)) {
      for (const std::string& peer : cluster_.PeersStarted()) {
        const bool here = cluster_.world().process(peer).alive() || finished.count(peer) != 0;
        if (!here) may_lack_end_.insert(peer);
      }
    }
    for (const std::string& peer : cluster_.PeersStarted()) {
      const auto ended = finished.find(peer);
      if (ended == finished.end() && may_lack_end_.count(peer) == 0) return false;
      if (ended != finished.end() && !ended->second.ok()) return false;
    }
    return true;
  }

  void OnDeath(const std::string& name) {
    if (cluster_.finished().count(name) != 0) return;  // it ended
    invariants_.CheckDurable(cluster_);
    cluster_.world().At(point_.downtime, [this, name] { cluster_.world().Restart(name); });
    if (name != point_.process) return;
    crashed_ = true;
    if (scenario_.coordinator_too && name != kCoordinator) cluster_.world().Kill(kCoordinator);
  }

  const CrashScenario& scenario_;
  const CrashPoint& point_;
  CrashInvariants invariants_;
  bool crashed_ = false;
  bool seal_seen_ = false;
  // The leaver, and whom the seal finds dead: the others wait for nobody who is.
  std::set<std::string> may_lack_end_;
  SimCluster cluster_;  // destroyed first: its processes use the above
};

// The process returns before its death is certain, after a suspicion, or after all others have gone
// on.
absl::Duration DowntimeOf(uint64_t change) {
  constexpr absl::Duration (*kMilliseconds)(int64_t) = &absl::Milliseconds<int64_t>;
  const int64_t milliseconds[] = {1, 700, 3000};
  return kMilliseconds(milliseconds[change % 3]);
}

}  // namespace

CrashScenario DrawCrashScenario(uint64_t number) {
  CrashScenario scenario;
  scenario.seed = number;
  SimClusterSettings& cluster = scenario.cluster;
  cluster.start = false;
  cluster.rounds = kRounds;
  cluster.peers = 3;
  cluster.founders = 2;
  cluster.elements = 5000;  // two chunks, so that each founder reduces one
  cluster.snapshot_every = 1;
  cluster.keep_snapshots = 1;
  scenario.leaver = "p1";
  if (number != 0) {
    SimRandom random(number);
    cluster.peers += static_cast<int>(random.Below(3));
    cluster.founders = cluster.peers - 1;
    cluster.elements += 4096 * random.Below(3);
    const std::string codecs[] = {"int8", "int8+zstd", "topk", "int4+zstd"};
    cluster.codec = codecs[random.Below(4)];
    cluster.error_feedback = random.Below(2) == 0;
    cluster.keep_bytes = random.Below(2);  // one byte stands for the least that works
    cluster.keep_snapshots = 1 + static_cast<uint32_t>(random.Below(2));
    scenario.leaver = absl::StrCat("p", 1 + random.Below(static_cast<uint64_t>(cluster.founders)));
    scenario.coordinator_too = random.Below(2) == 0;
  }
  cluster.quorum = static_cast<uint32_t>(cluster.founders / 2 + 1);
  scenario.joiner = absl::StrCat("p", cluster.peers);
  return scenario;
}

std::string CrashPoint::Text() const {
  return absl::StrCat(process, " dies at change ", change, " (", what, "), ", Word(left),
                      ", down for ", absl::FormatDuration(downtime));
}

std::vector<CrashPoint> CrashPoints(const CrashScenario& scenario) {
  const CrashPoint none;
  Play play(scenario, none);
  std::map<std::string, std::vector<std::string>> changes;
  std::vector<std::string> processes = {kCoordinator};
  for (int i = 1; i <= scenario.cluster.peers; ++i) processes.push_back(absl::StrCat("p", i));
  for (const std::string& name : processes) {
    play.cluster().world().OnWrite(name, [&changes, name](const SimWrite& write) {
      changes[name].push_back(absl::StrCat(Word(write.kind), " ", write.path));
    });
  }
  CHECK(play.Run().empty());  // which RunWithCrash would tell
  std::vector<CrashPoint> points;
  for (const auto& [name, list] : changes) {
    for (uint64_t change = 1; change <= list.size(); ++change) {
      for (const SimDisk::Crash left : {SimDisk::Crash::kLoseUnsynced,
                                        SimDisk::Crash::kKeepUnsynced, SimDisk::Crash::kTornLast}) {
        points.push_back({name, change, left, list[change - 1], DowntimeOf(change)});
      }
    }
  }
  return points;
}

std::vector<RunUpdate> StoreTrace(const CrashScenario& scenario) {
  const CrashPoint none;
  Play play(scenario, none);
  CHECK(play.Run().empty());
  return play.cluster().transactions();
}

std::vector<std::string> RunWithCrash(const CrashScenario& scenario, const CrashPoint& point) {
  return Play(scenario, point).Run();
}

}  // namespace atolld
