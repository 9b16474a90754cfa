#include "tests/sim/swarm_faults.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compression/base/check.h"
#include "compression/base/status_macros.h"
#include "compression/wire_codec.h"

namespace atolld {
namespace {

// A link that carries less than this during a fault was not in use: heartbeats alone are more.
constexpr uint64_t kLeastBytes = 1;

// What a chunk's frame has besides its values, approximately.
constexpr double kFrameBytes = 60;

// How often a wrong wall clock is set again while the fault lasts, as a bad time source does.
constexpr int kClockSteps = 8;

// The name of the disturbance of a paused run, however healthy the processes are.
constexpr char kOperator[] = "operator";

// The topic of such orders.
constexpr char kRun[] = "the run";

Frame EvictRequest(const std::string& peer, bool undo) {
  v1::EvictPeerRequest request;
  request.set_peer(peer);
  request.set_undo(undo);
  return Pack(request);
}

}  // namespace

// Aims it at a victim on which the newest plan relies.
PlannedFault SwarmFaults::Aimed(PlannedFault fault) const {
  std::set<std::string> relays;
  std::set<std::string> reducers;
  for (const v1::Shard& shard : cluster_.invariants().newest_plan().shards()) {
    if (shard.chunks() == 0) continue;
    reducers.insert(shard.reducer());
    for (const v1::Relay& relay : shard.relays()) relays.insert(relay.peer());
  }
  const std::set<std::string>& aims = relays.empty() || fault.amount % 3 == 0 ? reducers : relays;
  if (aims.empty()) return fault;
  const std::string& victim =
      *std::next(aims.begin(), static_cast<int64_t>(fault.amount / 16 % aims.size()));
  const auto& peers = cluster_.plan().peers;
  for (size_t i = 0; i < peers.size(); ++i) {
    if (peers[i].name == victim) fault.victim = static_cast<int>(i);
  }
  if (fault.other == fault.victim) fault.other = -1;
  return fault;
}

// Returns two peers whose link is needed by a shard of the newest plan but not by the victim's part
// of it; preferably one for which the victim relays.
std::pair<std::string, std::string> SwarmFaults::PairBeside(const std::string& victim,
                                                            uint64_t draw) const {
  const v1::Plan& plan = cluster_.invariants().newest_plan();
  std::vector<std::pair<std::string, std::string>> pairs;
  bool relayed = false;
  for (const v1::Shard& shard : plan.shards()) {
    const bool by_victim =
        std::any_of(shard.relays().begin(), shard.relays().end(),
                    [&](const v1::Relay& relay) { return relay.peer() == victim; });
    if (shard.chunks() == 0 || (relayed && !by_victim)) continue;
    if (by_victim && !std::exchange(relayed, true)) pairs.clear();
    for (int i = 0; i < plan.contributors_size(); ++i) {
      const std::string& from = plan.contributors(i).peer();
      std::string to = shard.reducer();
      for (const v1::Relay& relay : shard.relays()) {
        const bool member = relay.members()[static_cast<size_t>(i) / 8] >> (i % 8) & 1;
        if (member && relay.peer() != from) to = relay.peer();
      }
      if (from != victim && to != victim && from != to) pairs.emplace_back(from, to);
    }
  }
  if (!pairs.empty()) return pairs[draw % pairs.size()];
  const auto contributors = static_cast<uint64_t>(plan.contributors_size());
  const int one = static_cast<int>(draw % contributors);
  return {plan.contributors(one).peer(),
          plan.contributors((one + 1) % plan.contributors_size()).peer()};
}

void SwarmFaults::HoldOpen(const PlannedFault& fault) {
  const v1::Plan& plan = cluster_.invariants().newest_plan();
  const auto contributors = static_cast<uint64_t>(plan.contributors_size());
  if (contributors < 2) return;
  SimNetwork& network = cluster_.world().network();
  const std::string victim = TargetOf(Aimed(fault)).victim;
  const absl::Duration hold = HoldTime();
  const bool relayed = std::any_of(plan.shards().begin(), plan.shards().end(),
                                   [](const auto& shard) { return !shard.relays().empty(); });
  // A relay is missed where its partial mean is there and the chunk is still open; a reducer where
  // some have more of its means than others.
  if ((fault.amount / 32 % 4 == 0) != relayed) {
    // Two others are slow to each other: what hangs on neither of them is soon complete.
    const auto [one, two] = PairBeside(victim, fault.amount / 128);
    cluster_.Disturb(one, cluster_.world().now() + hold);
    cluster_.Disturb(two, cluster_.world().now() + hold);
    network.Clog(one, two, hold);
  } else {
    // What the victim gives comes chunk by chunk: a share takes half of the time, of updates or of
    // means, whichever are longer.
    const SwarmPlan& drawn = cluster_.plan();
    size_t encoded = 0;
    for (const std::string& name : {drawn.codec, drawn.upper_codec}) {
      if (name.empty()) continue;
      const Codec& codec = *ParseCodecName(name)->codec;
      encoded = std::max(encoded, codec.MaxEncodedBytes(drawn.chunk_elements));
    }
    const double chunk_bytes = static_cast<double>(encoded) + kFrameBytes;
    const double chunks =
        std::ceil(static_cast<double>(plan.parameters()) / cluster_.plan().chunk_elements);
    const double share = chunk_bytes * std::max(1.0, chunks / static_cast<double>(contributors));
    // It sends a share to each and a share of results; what the slowest link has taken stays slow.
    cluster_.Disturb(victim, cluster_.world().now() + 4 * hold);
    SimLinkSettings link = cluster_.LinkSettings();
    const double whole = link.bytes_per_second;
    for (uint64_t i = 0; i < contributors; ++i) {
      const std::string& other = plan.contributors(static_cast<int>(i)).peer();
      if (other == victim) continue;
      // To some sooner than to others.
      const double factor = std::exp2(static_cast<double>(SimMix(fault.amount, i) % 3) - 1);
      link.bytes_per_second = std::min(whole, factor * share / absl::ToDoubleSeconds(hold));
      network.SetLinkOneWay(victim, other, link);
      link.bytes_per_second = whole;
      cluster_.world().At(
          hold, [&network, victim, other, link] { network.SetLinkOneWay(victim, other, link); });
    }
  }
}

SwarmFaults::Target SwarmFaults::TargetOf(const PlannedFault& fault) const {
  const auto& peers = cluster_.plan().peers;
  Target target;
  target.victim = peers[static_cast<size_t>(fault.victim)].name;
  target.other = fault.other < 0 ? cluster_.leader() : peers[static_cast<size_t>(fault.other)].name;
  target.until = cluster_.world().now() + fault.lasts;
  return target;
}

void SwarmFaults::Until(const PlannedFault& fault, Task end) {
  const uint64_t id = next_end_++;
  ends_[id] = std::move(end);
  cluster_.world().At(fault.lasts, [this, id] {
    const auto found = ends_.find(id);
    if (found == ends_.end()) return;
    const Task task = std::move(found->second);
    ends_.erase(found);
    task();
  });
}

void SwarmFaults::EndAll() {
  std::map<uint64_t, Task> ends;
  std::swap(ends, ends_);
  for (const auto& [id, end] : ends) end();
  TakeBackOrders();
}

uint64_t SwarmFaults::BytesBetween(const std::string& a, const std::string& b) {
  SimNetwork& network = cluster_.world().network();
  return network.bytes_sent(a, b) + network.bytes_sent(b, a);
}

void SwarmFaults::OnLink(const PlannedFault& fault, const Target& target, Task end) {
  const uint64_t before = BytesBetween(target.victim, target.other);
  Until(fault, [this, fault, target, before, end = std::move(end)] {
    if (BytesBetween(target.victim, target.other) >= before + kLeastBytes) Landed(fault);
    end();
  });
}

void SwarmFaults::Inject(const PlannedFault& planned) {
  const PlannedFault fault = planned.in_exchange ? Aimed(planned) : planned;
  const Target target = TargetOf(fault);
  cluster_.Note(absl::StrCat("fault: ", FaultName(fault.kind), " of ", target.victim, " (other: ",
                             target.other, ") for ", absl::FormatDuration(fault.lasts)));
  const bool known =
      InjectGrey(fault, target) || InjectNetwork(fault, target) || InjectProcess(fault, target) ||
      InjectStorage(fault, target) || InjectClock(fault, target) || InjectWorker(fault, target) ||
      InjectMemory(fault, target) || InjectEtcd(fault, target) || InjectOrder(fault, target);
  CHECK(known);
}

// -----------------------------------------------------------------------------------------------

bool SwarmFaults::InjectNetwork(const PlannedFault& fault, const Target& target) {
  SimNetwork& network = cluster_.world().network();
  const std::string& a = target.victim;
  const std::string& b = target.other;
  if (fault.kind > FaultKind::kThinPipe) return false;
  cluster_.Disturb(a, target.until);
  cluster_.Disturb(b, target.until);
  const bool there = cluster_.Alive(a) && cluster_.Alive(b);
  switch (fault.kind) {
    case FaultKind::kReset:
      if (there) Landed(fault);
      network.BreakCalls(a, b);
      break;
    case FaultKind::kResetAfter:
      network.BreakCallsAfter(a, b, fault.amount % 20000);
      OnLink(fault, target, [] {});
      break;
    case FaultKind::kCut:
      if (there) Landed(fault);
      network.CutLink(a, b);
      Until(fault, [&network, a, b] { network.HealLink(a, b); });
      break;
    case FaultKind::kSplit:
      Split(fault, target);
      break;
    case FaultKind::kOneWay: {
      const bool up = fault.amount % 2 == 0;
      if (there) Landed(fault);
      network.CutOneWay(up ? a : b, up ? b : a);
      Until(fault, [&network, a, b, up] { network.HealOneWay(up ? a : b, up ? b : a); });
      break;
    }
    case FaultKind::kBlackHole: {
      if (cluster_.Alive(a)) Landed(fault);
      const std::vector<std::string> others = OthersThan(a);
      for (const std::string& other : others) network.BlackHole(a, other);
      Until(fault, [&network, a, others] {
        for (const std::string& other : others) network.HealBlackHole(a, other);
      });
      break;
    }
    case FaultKind::kClog:
      network.Clog(a, b, fault.lasts);
      OnLink(fault, target, [] {});
      break;
    case FaultKind::kLoss:
      network.SetLoss(a, b, 0.01 + 0.2 * static_cast<double>(fault.amount % 100) / 100);
      OnLink(fault, target, [&network, a, b] { network.SetLoss(a, b, 0); });
      break;
    case FaultKind::kReplay:
      ReplayCalls(fault);
      break;
    default: {  // kThinPipe
      const double whole =
          cluster_.plan().bytes_per_second > 0 ? cluster_.plan().bytes_per_second : 1e7;
      network.SetPeerRate(a, whole / 100);
      OnLink(fault, target, [this, &network, a] { network.SetPeerRate(a, cluster_.LineOf(a)); });
    }
  }
  return true;
}

// Faults that leave things working in part: no process is dead or cut off, and no error reports it.
// If the fault stays, all peers must do their work as soon as it is known, except a peer that
// receives nothing large, not even from its coordinator.
bool SwarmFaults::InjectGrey(const PlannedFault& fault, const Target& target) {
  SimNetwork& network = cluster_.world().network();
  const std::string& a = target.victim;
  const std::string& b = target.other;
  const bool small = fault.kind == FaultKind::kSmallPackets;
  const bool one_way = fault.kind == FaultKind::kOneWay && fault.stays;
  if (!small && !one_way && fault.kind != FaultKind::kPairCut &&
      fault.kind != FaultKind::kHiddenAddress) {
    return false;
  }
  const absl::Duration until = fault.stays && !small ? cluster_.world().now() : target.until;
  cluster_.Disturb(a, until);
  if (one_way || fault.kind == FaultKind::kPairCut) cluster_.Disturb(b, until);
  if (fault.stays || (cluster_.Alive(a) && cluster_.Alive(b))) Landed(fault);
  if (fault.kind == FaultKind::kHiddenAddress) {
    network.Hide(a);
    Until(fault, [&network, a] { network.Show(a); });
  } else if (fault.kind == FaultKind::kPairCut) {
    network.BlackHole(a, b);
    Until(fault, [&network, a, b] { network.HealBlackHole(a, b); });
  } else if (one_way) {
    network.CutOneWay(a, b);
    Until(fault, [&network, a, b] { network.HealOneWay(a, b); });
  } else {
    const std::vector<std::string> others = OthersThan(a);
    for (const std::string& other : others) network.PassSmallAlone(a, other);
    Until(fault, [&network, a, others] {
      for (const std::string& other : others) network.PassAll(a, other);
    });
  }
  return true;
}

// Returns the machines, including coordinators.
std::vector<std::string> SwarmFaults::OthersThan(const std::string& name) const {
  std::vector<std::string> others = cluster_.coordinators();
  for (const auto& peer : cluster_.plan().peers) {
    if (peer.name != name) others.push_back(peer.name);
  }
  return others;
}

void SwarmFaults::ReplayCalls(const PlannedFault& fault) {
  SimNetwork& network = cluster_.world().network();
  network.ReplayCalls(0.5, [](const std::string& method) {
    return method == "/atolld.v1.Exchange/Exchange" || method == "/atolld.v1.Membership/Session";
  });
  const uint64_t before = network.replayed_calls();
  Until(fault, [this, &network, fault, before] {
    if (network.replayed_calls() > before) Landed(fault);
    network.ReplayCalls(0, nullptr);
  });
}

// Some peers, with or without the coordinator, can reach only each other.
void SwarmFaults::Split(const PlannedFault& fault, const Target& target) {
  std::set<std::string> side = {target.victim};
  std::vector<std::string> all = cluster_.coordinators();
  for (size_t i = 0; i < cluster_.plan().peers.size(); ++i) {
    all.push_back(cluster_.plan().peers[i].name);
    if (fault.amount >> i & 1) side.insert(all.back());
  }
  if (cluster_.Alive(target.victim)) Landed(fault);
  SimNetwork& network = cluster_.world().network();
  std::vector<std::pair<std::string, std::string>> links;
  for (const std::string& a : all) {
    cluster_.Disturb(a, target.until);
    for (const std::string& b : side) {
      if (side.count(a) == 0) links.emplace_back(a, b);
    }
  }
  for (const auto& [a, b] : links) network.CutLink(a, b);
  Until(fault, [&network, links] {
    for (const auto& [a, b] : links) network.HealLink(a, b);
  });
}

// -----------------------------------------------------------------------------------------------

bool SwarmFaults::InjectProcess(const PlannedFault& fault, const Target& target) {
  SimWorld& world = cluster_.world();
  std::string name = target.victim;
  switch (fault.kind) {
    case FaultKind::kKillCoordinator:
      name = cluster_.leader();
      [[fallthrough]];
    case FaultKind::kKillPeer:
      if (!cluster_.Alive(name)) return true;
      Landed(fault);
      cluster_.Kill(name, fault.lasts);
      return true;
    case FaultKind::kKillCoordinatorAtWrite:
      name = cluster_.leader();
      [[fallthrough]];
    case FaultKind::kKillAtWrite:
      KillAtWrite(fault, name);
      return true;
    case FaultKind::kKillSeveral:
      KillSeveral(fault);
      return true;
    case FaultKind::kWipePeer:
      if (!cluster_.Alive(name)) return true;
      cluster_.Kill(name, fault.lasts);
      world.At(fault.lasts / 2, [this, fault, name] {
        if (!cluster_.Alive(name) && cluster_.Wipe(name)) Landed(fault);
      });
      return true;
    case FaultKind::kPauseCoordinator:
      name = cluster_.leader();
      [[fallthrough]];
    case FaultKind::kPausePeer:
      if (!cluster_.Alive(name)) return true;
      Landed(fault);
      cluster_.Disturb(name, target.until);
      world.Pause(name, fault.lasts);
      Until(fault, [this, name] {
        if (cluster_.Alive(name)) cluster_.world().Resume(name);
      });
      return true;
    default:
      return false;
  }
}

void SwarmFaults::KillAtWrite(const PlannedFault& fault, const std::string& name) {
  if (!cluster_.Alive(name)) return;
  SimWorld& world = cluster_.world();
  const int life = world.process(name).lives();
  cluster_.ComeBackAfter(name, fault.lasts);
  world.CrashAtWrite(name, 1 + fault.amount % 40, SimDisk::Crash::kDrawn);
  // A round writes some ten times: it is over within a few.
  PlannedFault window = fault;
  window.lasts = cluster_.longest_training() * 4 + 2 * cluster_.plan().failure_timeout;
  cluster_.Disturb(name, world.now() + window.lasts);
  Until(window, [this, fault, name, life] {
    SimProcess& process = cluster_.world().process(name);
    if (process.lives() > life || !process.alive()) {
      Landed(fault);
    } else {
      cluster_.world().disk(name).CrashAtWrite(0, SimDisk::Crash::kDrawn);
    }
  });
}

// Kills them one by one, and restarts them in another order.
void SwarmFaults::KillSeveral(const PlannedFault& fault) {
  const auto& peers = cluster_.plan().peers;
  SimRandom random(fault.amount);
  bool any = false;
  for (size_t i = 0; i < peers.size(); ++i) {
    const std::string name = peers[i].name;
    const bool chosen = static_cast<int>(i) == fault.victim || random.Below(2) == 0;
    if (!chosen || !cluster_.Alive(name)) continue;
    any = true;
    const absl::Duration at = fault.lasts * random.Unit();
    const absl::Duration away = fault.lasts * random.Unit();
    cluster_.world().At(at, [this, name, away] {
      if (cluster_.Alive(name)) cluster_.Kill(name, away);
    });
  }
  if (any) Landed(fault);
}

bool SwarmFaults::InjectStorage(const PlannedFault& fault, const Target& target) {
  SimWorld& world = cluster_.world();
  const bool store = fault.kind == FaultKind::kStoreFull || fault.kind == FaultKind::kStoreSlow;
  const std::string name = store ? kCoordinatorName : target.victim;
  SimDisk& disk = world.disk(name);
  switch (fault.kind) {
    case FaultKind::kDiskFull:
    case FaultKind::kStoreFull:
      disk.SetCapacity(disk.used() + fault.amount % 500);
      break;
    case FaultKind::kDiskErrors:
      disk.FailWrites(0.05, absl::UnknownError("input/output error"));
      disk.FailReads(0.05, absl::UnknownError("input/output error"));
      if (fault.amount % 2 == 0) disk.FailSyncs(0.05);
      cluster_.invariants().history().OnDiskErrors(name);
      break;
    case FaultKind::kBitFlips:
      disk.FlipBitOnRead(0.05);
      cluster_.invariants().history().Distrust(name);
      break;
    case FaultKind::kSlowSync:
    case FaultKind::kStoreSlow:
      disk.SlowSync(absl::Milliseconds(10), absl::Milliseconds(10 + fault.amount % 500));
      break;
    default:
      return false;
  }
  cluster_.MarkUnsound(name);
  cluster_.Disturb(name, target.until);
  const uint64_t before = disk.writes();
  Until(fault, [this, &disk, fault, before] {
    if (disk.writes() > before) Landed(fault);
    disk.EndFaults();
  });
  return true;
}

bool SwarmFaults::InjectClock(const PlannedFault& fault, const Target& target) {
  SimWorld& world = cluster_.world();
  const std::string name = fault.amount / 1024 % 2 == 0 ? cluster_.leader() : target.victim;
  const int64_t sign = fault.amount % 2 == 0 ? 1 : -1;
  switch (fault.kind) {
    case FaultKind::kWallClock: {
      world.SetWallClock(name, sign * absl::Seconds(static_cast<int64_t>(fault.amount / 2 % 600)),
                         sign * 500);
      const auto by = absl::Seconds(static_cast<int64_t>(1 + fault.amount / 4096 % 200));
      for (int step = 1; step <= kClockSteps; ++step) {
        world.At(fault.lasts * step / kClockSteps,
                 [&world, name, by, sign] { world.StepWallClock(name, -sign * by); });
      }
      break;
    }
    case FaultKind::kDrift:
      world.SetMonotonicDrift(name, sign * static_cast<int64_t>(fault.amount / 2 % 1000));
      Until(fault, [&world, name] { world.SetMonotonicDrift(name, 0); });
      break;
    default:
      return false;
  }
  if (cluster_.Alive(name)) Landed(fault);
  return true;
}

bool SwarmFaults::InjectWorker(const PlannedFault& fault, const Target& target) {
  const std::string& name = target.victim;
  SimWorker* const trainer = cluster_.trainer(name);
  if ((fault.kind < FaultKind::kWorkerDies || fault.kind > FaultKind::kHugeUpdate) &&
      fault.kind != FaultKind::kWorkerHangs) {
    return false;
  }
  if (trainer == nullptr || !trainer->started()) return true;
  cluster_.Disturb(name, target.until);
  switch (fault.kind) {
    case FaultKind::kWorkerDies:
      Landed(fault);
      trainer->Kill(fault.lasts);
      break;
    case FaultKind::kWorkerHangs:
      // Its daemon ends it, at the latest after 60 failure_timeouts or a minute.
      Landed(fault);
      cluster_.Disturb(name, cluster_.world().now() +
                                 60 * std::max(cluster_.plan().failure_timeout, absl::Seconds(1)) +
                                 8 * cluster_.longest_training());
      trainer->HangAt(
          fault.amount % 2 == 0 ? SimWorker::Stage::kTraining : SimWorker::Stage::kEvaluation,
          false);
      break;
    case FaultKind::kStraggler: {
      const absl::Duration step = cluster_.plan().peers[static_cast<size_t>(fault.victim)].step;
      Landed(fault);
      cluster_.SetStep(name, step * (10 + static_cast<double>(fault.amount % 91)));
      Until(fault, [this, name, step] { cluster_.SetStep(name, step); });
      break;
    }
    default: {
      trainer->SpoilNext(fault.kind == FaultKind::kHugeUpdate ? SimWorker::Spoil::kHuge
                         : fault.amount % 2 == 0              ? SimWorker::Spoil::kNaN
                                                              : SimWorker::Spoil::kInfinity);
      Until(fault, [this, fault, name] {
        SimWorker* const later = cluster_.trainer(name);
        if (later != nullptr && later->spoiled()) Landed(fault);
      });
    }
  }
  return true;
}

bool SwarmFaults::InjectMemory(const PlannedFault& fault, const Target& target) {
  if (fault.kind != FaultKind::kMemoryFlip) return false;
  SimWorker* const trainer = cluster_.trainer(target.victim);
  if (trainer == nullptr || !trainer->mapped()) return true;
  // Where one vote is enough nobody can tell who has drifted.
  if (LeastQuorum(cluster_.plan()) < 2) return true;
  // A drift shows at the next commits, or at the attempts that come to nothing for it.
  if (!cluster_.CaughtUp(target.victim)) return true;
  Landed(fault);
  cluster_.invariants().history().OnMemoryFlip(target.victim);
  // Of the fraction: a value that is no longer finite is another fault.
  trainer->FlipThetaBit(fault.amount / 64 % cluster_.plan().elements,
                        static_cast<int>(fault.amount % 23));
  return true;
}

bool SwarmFaults::InjectEtcd(const PlannedFault& fault, const Target& target) {
  if (fault.kind < FaultKind::kKillStandby) return false;
  SimEtcd& etcd = cluster_.etcd()->etcd();
  const std::vector<std::string>& all = cluster_.coordinators();
  std::string name = cluster_.leader();
  cluster_.Disturb(kCoordinatorName, target.until);
  switch (fault.kind) {
    case FaultKind::kKillStandby:
      name = all[fault.amount % all.size()];
      if (name == cluster_.leader() || !cluster_.Alive(name)) return true;
      Landed(fault);
      cluster_.Kill(name, fault.lasts);
      return true;
    case FaultKind::kEndLeader:
      if (!cluster_.Alive(name)) return true;
      Landed(fault);
      cluster_.ComeBackAfter(name, fault.lasts);
      cluster_.etcd()->Stop(name);
      return true;
    case FaultKind::kCutFromEtcd:
      if (fault.amount % 4 == 0) name = all[fault.amount / 4 % all.size()];
      if (cluster_.Alive(name)) Landed(fault);
      etcd.Cut(name, fault.amount / 16 % 2 == 0);
      Until(fault, [&etcd, name] { etcd.Heal(name); });
      return true;
    case FaultKind::kEtcdSlow: {
      const uint64_t late = etcd.late();
      etcd.SlowDown(absl::Milliseconds(static_cast<int64_t>(100 + fault.amount % 4000)));
      Until(fault, [this, &etcd, fault, late] {
        etcd.SlowDown(absl::ZeroDuration());
        if (etcd.late() > late || fault.amount % 4000 < 1000) Landed(fault);
      });
      return true;
    }
    case FaultKind::kEtcdLosesAnswers: {
      const uint64_t lost = etcd.answers_lost();
      etcd.LoseAnswers(0.3);
      Until(fault, [this, &etcd, fault, lost] {
        etcd.LoseAnswers(0);
        if (etcd.answers_lost() > lost) Landed(fault);
      });
      return true;
    }
    case FaultKind::kEtcdMember: {
      const int member = static_cast<int>(fault.amount % SimEtcd::kMembers);
      Landed(fault);
      etcd.StopMember(member, fault.amount / 16 % 2 == 0);
      Until(fault, [&etcd, member] { etcd.StartMember(member); });
      return true;
    }
    default:  // kEtcdDown
      Landed(fault);
      etcd.Stop();
      Until(fault, [&etcd] { etcd.Resume(); });
  }
  return true;
}

bool SwarmFaults::InjectOrder(const PlannedFault& fault, const Target& target) {
  Invariants& invariants = cluster_.invariants();
  const std::string& name = target.victim;
  switch (fault.kind) {
    case FaultKind::kDrain:
      Drain(fault, target);
      return true;
    case FaultKind::kPauseRun:
      ever_paused_ = true;
      invariants.Disturb(kOperator, absl::InfiniteDuration());
      operator_.Order(kRun, "PauseRun", Pack(v1::PauseRunRequest()),
                      [this, fault] { Landed(fault); });
      Until(fault, [this, &invariants] {
        operator_.Order(kRun, "ResumeRun", Pack(v1::ResumeRunRequest()),
                        [&invariants] { invariants.Calm(kOperator); });
      });
      return true;
    case FaultKind::kEvict:
      if (!cluster_.Alive(name)) return true;
      invariants.Disturb(name, absl::InfiniteDuration());
      cluster_.MarkEvicted(name);
      operator_.Order(name, "EvictPeer", EvictRequest(name, false),
                      [this, fault] { Landed(fault); });
      Until(fault, [this, &invariants, name] {
        operator_.Order(name, "EvictPeer", EvictRequest(name, true),
                        [&invariants, name] { invariants.Calm(name); });
      });
      return true;
    case FaultKind::kStoreRestored:
      RestoreStore(fault);
      return true;
    default:
      return false;
  }
}

void SwarmFaults::Drain(const PlannedFault& fault, const Target& target) {
  Peer* const peer = cluster_.peer(target.victim);
  if (peer == nullptr) return;
  cluster_.Disturb(target.victim, target.until);
  cluster_.ComeBackAfter(target.victim, fault.lasts);
  if (fault.amount % 2 == 0) {
    Landed(fault);
    peer->Drain();
    return;
  }
  v1::DrainPeerRequest request;
  request.set_peer(target.victim);
  operator_.Order("drain of " + target.victim, "DrainPeer", Pack(request),
                  [this, fault] { Landed(fault); });
}

// Only while all that was announced is held by living peers: a copy of the store cannot bring back
// what they do not hold.
void SwarmFaults::RestoreStore(const PlannedFault& fault) {
  for (const SwarmPlan::Machine& peer : cluster_.plan().peers) {
    if (cluster_.Exists(peer.name) && !cluster_.CaughtUp(peer.name)) return;
  }
  if (!cluster_.Alive(kCoordinatorName) ||
      cluster_.version() != cluster_.invariants().announced()) {
    return;
  }
  cluster_.Kill(kCoordinatorName, fault.lasts);
  const uint64_t version = cluster_.version();
  cluster_.world().At(fault.lasts / 2, [this, fault, version] {
    if (cluster_.Alive(kCoordinatorName) || cluster_.version() != version) return;
    if (cluster_.RestoreStore(1 + fault.amount % 3)) Landed(fault);
  });
}

bool SwarmFaults::LetInAgain(const std::string& peer) {
  if (!let_in_.insert(peer).second) return false;
  cluster_.Note(absl::StrCat(peer, " is evicted, set up anew and let in again"));
  cluster_.Reform(peer);
  cluster_.MarkEvicted(peer);
  cluster_.Disturb(peer, absl::InfiniteDuration());
  operator_.Order(peer, "EvictPeer", EvictRequest(peer, true), [this, peer] {
    let_in_.erase(peer);
    cluster_.invariants().Calm(peer);
  });
  return true;
}

void SwarmFaults::TakeBackOrders() {
  Invariants& invariants = cluster_.invariants();
  for (const std::string& name : cluster_.evicted()) {
    operator_.Order(name, "EvictPeer", EvictRequest(name, true),
                    [&invariants, name] { invariants.Calm(name); });
  }
  if (!ever_paused_) return;
  operator_.Order(kRun, "ResumeRun", Pack(v1::ResumeRunRequest()),
                  [&invariants] { invariants.Calm(kOperator); });
}

void SwarmFaults::StopRun() {
  operator_.Order(kRun, "StopRun", Pack(v1::StopRunRequest()), nullptr);
}

}  // namespace atolld
