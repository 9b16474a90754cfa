// ReplicaKeeper, the state anew: a snapshot has come in, or what is in memory is not the state of
// the history.
//
// A repair goes from cheap to dear: the own snapshot and log first, which holds when only the
// memory was spoiled; then a snapshot from others, of which only the blocks are fetched that differ
// from what is on this disk; at last without the own log. What is put aside stays on the disk.
#include <utility>

#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"
#include "daemon/peer/replica_keeper.h"
#include "daemon/replica/state/set_aside.h"

namespace atolld {
namespace {

// Snapshots that are fetched for one repair before it is given up: others' blocks are checked, so
// what still differs then is this machine.
constexpr int kMostFetches = 4;

}  // namespace

// Begins again from what is on disk now.
void ReplicaKeeper::Reopen() {
  // Here, not on the pool: a worker that comes up asks for the same memory.
  const absl::Status memory = NeedMemory(genesis_.manifest().elements());
  if (!memory.ok()) return Broken(memory);
  reopens_ = has_state();
  opening_ = true;
  open_waits_ = keeping_.under_way;
  if (!open_waits_) return OpenFromDisk();
  retention_.Hurry();
}

void ReplicaKeeper::OpenFromDisk() {
  open_waits_ = false;
  auto opened = std::make_shared<absl::StatusOr<std::unique_ptr<Replica>>>(absl::UnknownError(""));
  queue_.Run(
      [this, opened, repair = repair_] {
        replica_.reset();
        absl::Status ready;
        if (repair && repair->fetches > 0) {
          // The own ones may be what was wrong: the fetched one is the newest from here on.
          ready = SetSnapshotsAside(env_.files, dir_, repair->fetched_version);
          if (ready.ok() && repair->fetches > 1) ready = SetLogAside(env_.files, dir_);
        }
        if (!ready.ok()) {
          *opened = ready;
          return;
        }
        *opened = Replica::Open(env_.files, dir_,
                                [this](uint64_t elements) -> absl::StatusOr<absl::Span<float>> {
                                  RETURN_IF_ERROR(NeedMemory(elements));
                                  return memory_->theta();
                                });
      },
      guard_.Wrap([this, opened] {
        opening_ = reopens_ = false;
        OnReopened(std::move(*opened));
      }));
}

void ReplicaKeeper::OnReopened(absl::StatusOr<std::unique_ptr<Replica>> replica) {
  if (!replica.ok()) {
    if (repair_ && absl::IsDataLoss(replica.status())) return AskOthers(replica.status());
    return Broken(Annotate(replica.status(), "opening the replica again"));
  }
  const uint64_t before = version_;
  replica_ = *std::move(replica);
  if (repair_) return CheckRepair();
  for (uint64_t version = before + 1; version <= replica_->version(); ++version) {
    const auto known = sync_.announced.find(version);
    if (known != sync_.announced.end()) {
      events_.on_skipped(v1::EntryHeader(known->second));
    } else if (version == replica_->version() && replica_->header() != nullptr) {
      events_.on_skipped(v1::EntryHeader(*replica_->header()));
    }
  }
  Adopt();
  Opened();
}

void ReplicaKeeper::Opened() {
  ReadOffer();
  events_.on_opened();
  ComputeDigest();
  Advance();
}

void ReplicaKeeper::Require(const Digest& state) {
  if (!has_state() || committing_) return;
  const std::optional<Digest> ours = StateDigestOf(version_);
  if (ours && *ours != state) OnDrift(*ours, state);
}

// What lies on the disk was checked at every step from a snapshot that the chain confirms; what
// lies in memory was not.
void ReplicaKeeper::Audit() {
  if (!has_state() || committing_ || broken_ || !StateDigestOf(version_)) return;
  env_.log.Warning(absl::StrCat("version ", version_, ": others hold another state than this ",
                                "replica; it is made again from the own disk"));
  Remake(std::nullopt);
}

void ReplicaKeeper::OnDrift(const Digest& state, const Digest& expected) {
  if (repair_ || broken_) return;
  env_.log.Error(absl::StrCat("version ", version_, ": this replica has drifted: its state has ",
                              "digest ", ToHex(state), ", the history says ", ToHex(expected),
                              "; a fault of memory or disk? Repairing it"));
  events_.on_drift(version_, state, expected);
  Remake(expected);
}

void ReplicaKeeper::Remake(std::optional<Digest> expected) {
  EndFetch();
  keeping_.save = false;  // the disk was right
  state_digests_.erase(version_);
  repair_ = KeeperRepair{version_, expected};
  Reopen();
}

// The replica was opened again: is it the history's now?
void ReplicaKeeper::CheckRepair() {
  opening_ = true;  // nobody else may use it yet
  auto state = std::make_shared<Digest>();
  queue_.Run([this, state] { *state = replica_->StateDigest(); }, guard_.Wrap([this, state] {
    opening_ = false;
    if (replica_->version() == repair_->version && repair_->expected.value_or(*state) != *state) {
      return AskOthers(absl::DataLossError(
          absl::StrCat("what is on this disk leads to digest ", ToHex(*state))));
    }
    // Any other version was reached from a snapshot that the chain confirms.
    env_.log.Warning(absl::StrCat(
        "version ", replica_->version(), repair_->expected ? ": repaired from " : ": as ",
        repair_->fetches == 0 ? "the own snapshot and log" : "the blocks of others",
        repair_->expected ? "; the state has digest " : " say, the state has digest ",
        ToHex(*state)));
    repair_.reset();
    Adopt();
    state_digests_[version_] = *state;
    Opened();
  }));
}

void ReplicaKeeper::AskOthers(const absl::Status& why) {
  if (repair_->fetches >= kMostFetches) {
    return Broken(Annotate(why, "the replica cannot be repaired"));
  }
  env_.log.Error(absl::StrCat("version ", repair_->version, ": not repaired from this disk: ",
                              why.message(), "; fetching from others"));
  repair_->ask_others = true;
  Advance();
}

}  // namespace atolld
