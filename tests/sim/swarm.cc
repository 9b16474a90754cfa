#include "tests/sim/swarm.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/peer/peer_training.h"
#include "daemon/replica/state/verify.h"
#include "optimizer/past_updates.h"

namespace atolld {
namespace {

// How often invariants that depend on time alone are checked.
constexpr absl::Duration kTick = absl::Milliseconds(100);

// Rounds that are reserved for the judgement of the core, and those of them for the end.
constexpr uint64_t kRoundsToJudge = 7;
constexpr uint64_t kRoundsToEnd = 3;

// The least number of rounds after the last line has failed in which that is judged.
constexpr uint64_t kGreyRounds = 5;

// Far more than any seed takes; beyond it the run is in a loop.
constexpr uint64_t kMostEvents = 20'000'000;

// The most that one call may have queued at once: an update of this size is far below it.
constexpr uint64_t kMostUnsent = uint64_t{1} << 20;

}  // namespace

bool SwarmResult::counts() const {
  const int all = std::accumulate(planned.begin(), planned.end(), 0);
  const int bit = std::accumulate(landed.begin(), landed.end(), 0);
  return 2 * bit >= all;
}

absl::Duration Swarm::Exchange() const {
  std::vector<double> exchanges;
  const auto& rounds = cluster_.stored().rounds;
  for (size_t i = rounds.size() > 16 ? rounds.size() - 16 : 0; i < rounds.size(); ++i) {
    exchanges.push_back(rounds[i].exchange_seconds());
  }
  std::sort(exchanges.begin(), exchanges.end());
  return absl::Seconds(exchanges.empty() ? static_cast<double>(plan_.elements) * 4 / 1e6
                                         : exchanges[exchanges.size() / 2]);
}

absl::Duration Swarm::LongestRound() const {
  return 4 * cluster_.longest_training() + absl::Seconds(1) +
         2 * Exchange() * (plan_.audit_share > 0 ? 3.25 : 1);
}

absl::Duration Swarm::Deadline() const {
  const absl::Duration turn = plan_.coordinators > 1 ? 4 * SwarmEtcd::kTtl : absl::ZeroDuration();
  return absl::Seconds(10) + turn + (plan_.masked ? 7 : 1) * plan_.failure_timeout +
         4 * cluster_.longest_training() + absl::Seconds(1) +
         (2 * Exchange() + plan_.failure_timeout) * (plan_.audit_share > 0 ? 3.25 : 1);
}

// -----------------------------------------------------------------------------------------------

// Returns the most that a peer's directory may take: the limit on its log and snapshots, or what
// the policy keeps if there is no limit or it is too small, plus a snapshot under construction, one
// that is fetched, and the history of headers. The sizes are generous, the numbers are not.
uint64_t Swarm::MostOnDisk() const {
  const uint64_t snapshot = 8 * plan_.elements + 16384;
  const uint64_t entry = 5 * MostEntryValues(plan_) + 4096;
  const uint64_t headers = uint64_t{1} << 20;
  if (plan_.keep_bytes != 0) {
    return std::max(plan_.keep_bytes, 3 * snapshot + 10 * entry) + 2 * snapshot + 2 * entry;
  }
  const uint64_t entries = uint64_t{plan_.snapshot_every} * (plan_.keep_snapshots + 1) + 10;
  return (plan_.keep_snapshots + 3) * snapshot + entries * entry + headers;
}

void Swarm::CheckBounds() {
  Invariants& invariants = cluster_.invariants();
  if (cluster_.world().network().max_unsent_bytes() > kMostUnsent) {
    invariants.Violate(10,
                       absl::StrCat("a call had ", cluster_.world().network().max_unsent_bytes(),
                                    " bytes queued at once"));
  }
  const uint64_t most = MostOnDisk();
  for (const SwarmPlan::Machine& peer : plan_.peers) {
    const uint64_t used = cluster_.world().disk(peer.name).used();
    // A pass that its disk has failed is put off.
    if (used <= most || cluster_.Unsound(peer.name)) continue;
    invariants.Violate(
        10, absl::StrCat(peer.name, "'s directory takes ", used, " bytes; ", most, " is the most"));
  }
  if (cluster_.world().events_run() > kMostEvents) {
    invariants.Violate(12, absl::StrCat("more than ", kMostEvents, " events"));
  }
}

// Returns true while no training may end, because the remaining rounds are reserved for what is
// still to come.
bool Swarm::HoldsRun() {
  const bool early = last_version_ >= hold_at_;
  const bool waits = early && (!ending_ || !AllCaughtUp());
  cluster_.HoldTraining(waits);
  const absl::Duration now = cluster_.world().now();
  if (!waits || !ending_) {
    held_since_ = now;
    return waits;
  }
  if (now <= std::max(held_since_, cluster_.invariants().quiet_since()) + 3 * Deadline())
    return true;
  for (const SwarmPlan::Machine& peer : plan_.peers) {
    if (cluster_.CaughtUp(peer.name)) continue;
    cluster_.invariants().Violate(6,
                                  absl::StrCat(peer.name, " has not caught up in three deadlines, ",
                                               absl::FormatDuration(3 * Deadline())));
  }
  return true;
}

void Swarm::Tick() {
  Invariants& invariants = cluster_.invariants();
  const absl::Duration now = cluster_.world().now();
  invariants.Check();
  if (cluster_.version() != last_version_) {
    last_version_ = cluster_.version();
    last_commit_ = now;
  }
  for (const SwarmPlan::Machine& peer : plan_.peers) {
    if (!cluster_.Exists(peer.name) && last_version_ >= peer.joins_at) cluster_.Start(peer.name);
  }
  CheckBounds();
  CheckEvicted();
  if (cluster_.sealed()) return;
  grey_.Check(LongestRound());
  if (HoldsRun()) {
    last_commit_ = now;
    return;
  }
  const absl::Duration since = std::max(invariants.quiet_since(), last_commit_);
  const absl::Duration deadline = Deadline();
  if (now > since + 3 * deadline) {
    invariants.Violate(
        12,
        absl::StrCat("nobody was disturbed for ", absl::FormatDuration(now - since),
                     " and version ", last_version_ + 1, " was not committed; three deadlines are ",
                     absl::FormatDuration(3 * deadline)));
  }
}

// If a liar was evicted for its lie, its machine is set up anew and admitted again.
void Swarm::CheckEvicted() {
  for (const auto& member : cluster_.stored().members) {
    if (member.state != "evicted") continue;
    if (cluster_.MayLie(member.peer)) {
      if (faults_.LetInAgain(member.peer)) ++result_.liars_evicted;
    } else if (cluster_.evicted().count(member.peer) == 0) {
      cluster_.invariants().Violate(
          15, absl::StrCat(member.peer, " never lied and is evicted: ", member.why));
    }
  }
}

bool Swarm::RunUntil(const std::function<bool()>& condition, absl::Duration limit) {
  SimWorld& world = cluster_.world();
  const auto over = [&] {
    // Before each event, so that one that ends this process comes last in the story.
    if (tell_ && cluster_.HasNewLines()) tell_(cluster_.NewLines());
    if (world.now() >= next_tick_) {
      next_tick_ = world.now() + kTick;
      Tick();
    }
    return cluster_.invariants().violation().has_value() || condition();
  };
  world.RunUntil(over, limit);
  return !cluster_.invariants().violation().has_value() && condition();
}

void Swarm::StartFounders() {
  for (const std::string& name : cluster_.coordinators()) cluster_.Start(name);
  for (const SwarmPlan::Machine& peer : plan_.peers) {
    if (peer.joins_at == 0) cluster_.Start(peer.name);
  }
}

// Lines that fail in part, and no other fault meanwhile.
void Swarm::DoGrey() {
  const auto held = [this] { return cluster_.training_held(); };
  for (const PlannedFault& fault : plan_.grey) {
    if (fault.after_commits == 0) continue;  // it never worked
    RunUntil([&] { return cluster_.version() >= fault.after_commits || held(); }, 3 * Deadline());
    RunUntil([&] { return grey_.Settled() || held(); }, 3 * Deadline());
    RunUntil([] { return false; }, fault.after);
    if (held() || cluster_.invariants().violation()) break;
    grey_.Begin(fault);
  }
  RunUntil([&] { return grey_.Enough(kGreyRounds) || held(); },
           static_cast<double>(plan_.rounds) * Deadline());
  const bool mend = !plan_.grey.empty() && !plan_.grey_stays;
  grey_.End(mend);
  if (!mend || cluster_.invariants().violation()) return;
  // The rounds that are left are for what comes.
  const uint64_t hold_at = std::exchange(hold_at_, cluster_.version());
  const absl::Duration limit = 3 * std::max(plan_.failure_timeout, absl::Seconds(5));
  if (!RunUntil([this] { return grey_.StillShown().empty(); }, limit)) {
    cluster_.invariants().Violate(18, grey_.StillShown() + ", and all lines work again");
  }
  hold_at_ = hold_at;
}

void Swarm::DoFaults() {
  for (const PlannedFault& fault : plan_.faults) {
    if (cluster_.invariants().violation()) return;
    const uint64_t wanted = cluster_.version() + fault.after_commits;
    RunUntil([&] { return cluster_.version() >= wanted || cluster_.training_held(); }, Deadline());
    if (fault.in_exchange) {
      const uint64_t before = cluster_.invariants().plans_told();
      RunUntil([&] { return cluster_.invariants().plans_told() > before; }, Deadline());
      faults_.HoldOpen(fault);
    }
    if (fault.in_unmasking) {
      const uint64_t before = cluster_.invariants().openings();
      RunUntil([&] { return cluster_.invariants().openings() > before; }, Deadline());
    }
    RunUntil([] { return false; }, fault.after);
    if (cluster_.training_held()) return;
    faults_.Inject(fault);
    if (!fault.overlap) RunUntil([] { return false; }, fault.lasts);
  }
}

// Ends all faults; all processes run.
void Swarm::HealAll() {
  grey_.End(true);
  faults_.EndAll();
  SimWorld& world = cluster_.world();
  world.network().HealAll();
  world.network().ReplayCalls(0, nullptr);
  const auto revive = [&](const std::string& name) {
    world.disk(name).EndFaults();
    world.disk(name).CrashAtWrite(0, SimDisk::Crash::kDrawn);
    if (cluster_.Alive(name)) world.Resume(name);
    cluster_.HoldDown(name, false);
    cluster_.Start(name);
    cluster_.invariants().Calm(name);
  };
  if (cluster_.etcd() != nullptr) cluster_.etcd()->etcd().HealAll();
  for (const std::string& name : cluster_.coordinators()) revive(name);
  if (cluster_.etcd() != nullptr) cluster_.Disturb(kCoordinatorName, world.now());
  for (const SwarmPlan::Machine& peer : plan_.peers) {
    cluster_.SetStep(peer.name, peer.step);
    if (cluster_.Exists(peer.name)) revive(peer.name);
    SimWorker* const trainer = cluster_.trainer(peer.name);
    if (trainer == nullptr || !trainer->started()) continue;
    trainer->HangAt(SimWorker::Stage::kNowhere, false);
    if (trainer->hangs()) trainer->Kill(absl::ZeroDuration());
  }
}

// Returns those that the plan names and, if few peers may commit, one that holds the newest
// version.
std::set<std::string> Swarm::Core() {
  const Invariants& invariants = cluster_.invariants();
  std::set<std::string> core;
  const SwarmPlan::Machine* giver = nullptr;
  bool held = false;
  for (const SwarmPlan::Machine& peer : plan_.peers) {
    const bool holds = invariants.said(peer.name) >= cluster_.version();
    if (peer.core) core.insert(peer.name);
    held = held || (peer.core && holds);
    // Whoever keeps the state to itself is of no use to the others.
    if (giver == nullptr && holds && !KeepsToItself(peer.hostility)) giver = &peer;
  }
  if (held) return core;
  if (giver != nullptr) {
    core.insert(giver->name);
    return core;
  }
  for (const SwarmPlan::Machine& peer : plan_.peers) core.insert(peer.name);
  return core;
}

// A core of at least the quorum is healthy; the others stay as the plan says.
void Swarm::JudgeCore() {
  HealAll();
  // The first round waits for all that the run was announced with.
  if (!RunUntil([&] { return cluster_.version() > 0; }, 3 * Deadline())) {
    cluster_.invariants().Violate(12, "the first round was not committed");
  }
  hold_at_ = plan_.rounds - kRoundsToEnd;
  cluster_.HoldTraining(false);
  // Whoever has drifted is of no use to a core that needs all: commits that pass mend it.
  const History& history = cluster_.invariants().history();
  if (!RunUntil([&] { return cluster_.version() >= history.flipped_until(); }, 3 * Deadline())) {
    cluster_.invariants().Violate(12, "a drifted replica holds the run up");
  }
  result_.judged = true;
  SimWorld& world = cluster_.world();
  const std::set<std::string> core = Core();
  for (const SwarmPlan::Machine& peer : plan_.peers) {
    if (core.count(peer.name) > 0) {
      cluster_.Start(peer.name);
      continue;
    }
    if (!cluster_.Alive(peer.name)) continue;
    cluster_.invariants().Disturb(peer.name, world.now() + absl::Hours(1));
    if (peer.outsider == Outsider::kDead) {
      cluster_.HoldDown(peer.name, true);
      cluster_.Kill(peer.name, absl::ZeroDuration());
    } else if (peer.outsider == Outsider::kPaused) {
      world.Pause(peer.name, absl::Hours(1));
    } else if (peer.outsider == Outsider::kIsolated) {
      world.network().Partition({peer.name});
    } else if (peer.outsider == Outsider::kStraggler) {
      cluster_.SetStep(peer.name, peer.step * 50);
    }
  }
  const uint64_t before = cluster_.version();
  // What was ready while the run was held may be committed by now, where nobody is waited for.
  hold_at_ = std::max(hold_at_, before + 1);
  const absl::Duration limit = 3 * Deadline();
  cluster_.Note("the core is judged");
  if (!RunUntil([&] { return cluster_.version() > before; }, limit)) {
    cluster_.invariants().Violate(
        12, absl::StrCat("a healed core of the quorum did not commit version ", before + 1,
                         " in three deadlines, ", absl::FormatDuration(limit)));
  }
}

bool Swarm::AllCaughtUp() const {
  return std::all_of(plan_.peers.begin(), plan_.peers.end(),
                     [this](const auto& peer) { return cluster_.CaughtUp(peer.name); });
}

// The operator ends the run at its newest version.
void Swarm::StopEarly() {
  cluster_.Note("the operator stops the run");
  hold_at_ = 0;
  if (!RunUntil([&] { return AllCaughtUp(); }, 3 * Deadline())) return;
  HangAtEnd(cluster_.version());
  faults_.StopRun();
}

// Hangs for ever, as does each worker after it: neither the loss of the last version nor the end of
// its daemon may depend on it.
void Swarm::HangAtEnd(uint64_t last) {
  if (plan_.hangs_at_end < 0) return;
  const std::string& name = plan_.peers[static_cast<size_t>(plan_.hangs_at_end)].name;
  SimWorker* const trainer = cluster_.trainer(name);
  if (trainer == nullptr) return;
  using Stage = SimWorker::Stage;
  cluster_.Note(absl::StrCat(name, "'s worker is to hang at the end"));
  trainer->HangAt(plan_.hangs_in_evaluation ? Stage::kEvaluation : Stage::kEnd, true, last);
}

void Swarm::Finish() {
  HealAll();
  for (const SwarmPlan::Machine& peer : plan_.peers) {
    if (!cluster_.Exists(peer.name)) cluster_.Start(peer.name);
  }
  for (const SwarmPlan::Machine& peer : plan_.peers) {
    if (cluster_.MayLie(peer.name)) cluster_.Reform(peer.name);
  }
  cluster_.Note("all are healed");
  ending_ = true;
  if (plan_.stopped) {
    StopEarly();
  } else {
    HangAtEnd(plan_.rounds);
  }
  // What Tick says of a quiet world bounds each round; this bounds their sum.
  const uint64_t left = plan_.rounds - cluster_.version() + 3;
  RunUntil([&] { return cluster_.sealed(); }, 3 * Deadline() * static_cast<double>(left));
  if (!cluster_.sealed()) cluster_.invariants().Violate(12, "the run was not sealed");
  const bool ended = RunUntil([&] { return cluster_.AllEnded(); }, 3 * Deadline());
  for (const SwarmPlan::Machine& peer : plan_.peers) {
    if (cluster_.Stranded(peer.name)) ++result_.stranded;
    if (ended || cluster_.Finished(peer.name) || cluster_.Stranded(peer.name)) continue;
    cluster_.invariants().Violate(12, absl::StrCat(peer.name, " did not end with the run"));
  }
  if (!cluster_.invariants().violation()) CheckEnd();
}

// A peer that has never lied, and was never disturbed, must not be recorded as an offender. In mode
// "streaming" a joiner keeps parameters of its own, and a stub's training converges: once the
// others have arrived, and their updates are almost zero, those of the joiner are long without a
// lie.
void Swarm::CheckJudged() {
  if (!cluster_.invariants().history().Finite()) {
    cluster_.invariants().Violate(1, "the last state is not finite");
  }
  for (const JudgedPeer& peer : cluster_.stored().judged.peers) {
    const auto machine = std::find_if(plan_.peers.begin(), plan_.peers.end(),
                                      [&](const auto& one) { return one.name == peer.peer; });
    const bool honest = plan_.faults.empty() && machine->habit == SimWorker::Habit::kNone &&
                        machine->hostility == Hostility::kNone &&
                        (plan_.mode != "streaming" || machine->joins_at == 0);
    if (!honest || (peer.refused == 0 && !IsLeftOut(OffenderRule(), peer.offences))) continue;
    cluster_.invariants().Violate(
        8, absl::StrCat(peer.peer, " never lied, and is named for its updates: ", peer.offence));
  }
}

void Swarm::CheckEnd() {
  SimWorld& world = cluster_.world();
  Invariants& invariants = cluster_.invariants();
  CheckJudged();
  RunUntil([] { return false; }, 2 * plan_.failure_timeout);
  if (world.network().open_calls() != 0) {
    invariants.Violate(12,
                       absl::StrCat(world.network().open_calls(), " calls are open at the end"));
  }
  for (const SwarmPlan::Machine& peer : plan_.peers) {
    if (!cluster_.Finished(peer.name)) continue;  // it is stranded
    SimFiles files(world.disk(peer.name));
    const absl::StatusOr<VerifyReport> report = VerifyLog(files, cluster_.DirectoryOf(peer.name));
    const auto log = ListLog(files, cluster_.DirectoryOf(peer.name));
    if (log.ok()) {
      for (const LogEntryInfo& entry : *log) invariants.history().OnHeld(peer.name, entry.header);
    }
    if (!report.ok()) {
      invariants.Violate(4, absl::StrCat(peer.name, "'s log: ", report.status().ToString()));
    } else if (!report->sealed || report->version != cluster_.version() ||
               ToBytes(report->state_digest) !=
                   invariants.history().StateDigest(cluster_.version())) {
      invariants.Violate(
          1, absl::StrCat(peer.name, "'s log leads to another end than the run's: to version ",
                          report->version, report->sealed ? ", sealed" : ", not sealed"));
    }
  }
}

SwarmResult Swarm::Run() {
  result_.seed = plan_.seed;
  for (const PlannedFault& fault : plan_.faults) {
    ++result_.planned[static_cast<size_t>(fault.kind)];
  }
  hold_at_ = plan_.rounds - kRoundsToJudge;
  for (const PlannedFault& fault : plan_.grey) {
    ++result_.planned[static_cast<size_t>(fault.kind)];
    if (fault.after_commits == 0) grey_.Begin(fault);
  }
  StartFounders();
  DoGrey();
  DoFaults();
  if (!cluster_.invariants().violation()) JudgeCore();
  if (!cluster_.invariants().violation()) Finish();
  result_.landed = faults_.landed();
  for (const PeerTraining::Transition& transition : PeerTraining::Transitions()) {
    const auto& made = cluster_.transitions();
    const auto found = made.find(PeerTraining::TextOf(transition));
    result_.transitions.push_back(found == made.end() ? 0 : found->second);
  }
  result_.coordinators = plan_.coordinators;
  if (cluster_.etcd() != nullptr) result_.terms = cluster_.etcd()->terms();
  result_.digest = cluster_.world().digest();
  result_.events = cluster_.world().events_run();
  result_.rounds = cluster_.version();
  result_.hostile_acts = cluster_.hostile_acts();
  result_.lies_committed = cluster_.invariants().history().lies();
  result_.guesses = cluster_.invariants().history().guesses();
  result_.refreshed = cluster_.invariants().history().refreshed_guesses();
  result_.slow_updates = cluster_.invariants().history().slow_updates();
  result_.violation = cluster_.invariants().violation();
  if (tell_) tell_(cluster_.NewLines());
  return result_;
}

}  // namespace atolld
