// What an operator does to a swarm.
#include "compression/base/status_macros.h"
#include "tests/sim/swarm_faults.h"

namespace atolld {
namespace {

// The disturbance of a run that is paused, whoever else is well.
constexpr char kOperator[] = "operator";

// What such orders are about.
constexpr char kRun[] = "the run";

Frame EvictRequest(const std::string& peer, bool undo) {
  v1::EvictPeerRequest request;
  request.set_peer(peer);
  request.set_undo(undo);
  return Pack(request);
}

}  // namespace

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
  cluster_.invariants().Disturb(target.victim, target.until);
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

// Only while all that was announced lies with peers that are there: what they do not hold, a copy
// of the store cannot bring back.
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
  cluster_.invariants().Disturb(peer, absl::InfiniteDuration());
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
