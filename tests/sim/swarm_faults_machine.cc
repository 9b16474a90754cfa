// What is done to one machine: its disk, its clock, its worker, its memory.
#include <algorithm>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"
#include "tests/sim/swarm_faults.h"

namespace atolld {
namespace {

// How often a wrong wall clock is set again while the fault lasts: as a bad time source does.
constexpr int kClockSteps = 8;

}  // namespace

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
  cluster_.invariants().Disturb(name, target.until);
  const uint64_t before = disk.writes();
  Until(fault, [this, &disk, fault, before] {
    if (disk.writes() > before) Landed(fault);
    disk.EndFaults();
  });
  return true;
}

bool SwarmFaults::InjectClock(const PlannedFault& fault, const Target& target) {
  SimWorld& world = cluster_.world();
  const std::string name = fault.amount / 1024 % 2 == 0 ? kCoordinatorName : target.victim;
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
  if (fault.kind < FaultKind::kWorkerDies || fault.kind > FaultKind::kHugeUpdate) return false;
  if (trainer == nullptr || !trainer->started()) return true;
  cluster_.invariants().Disturb(name, target.until);
  switch (fault.kind) {
    case FaultKind::kWorkerDies:
      Landed(fault);
      trainer->Kill(fault.lasts);
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
  if (cluster_.plan().quorum < 2) return true;
  // A drift shows at the next commits, or at the attempts that come to nothing for it.
  if (!cluster_.CaughtUp(target.victim)) return true;
  Landed(fault);
  cluster_.invariants().history().OnMemoryFlip(target.victim);
  // Of the fraction: a value that is no longer finite is another fault.
  trainer->FlipThetaBit(fault.amount / 64 % cluster_.plan().elements,
                        static_cast<int>(fault.amount % 23));
  return true;
}

}  // namespace atolld
