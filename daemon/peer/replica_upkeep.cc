#include "daemon/peer/replica_upkeep.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"
#include "daemon/replica/state/layout.h"
#include "daemon/replica/state/verify.h"

namespace atolld {
namespace {

// The number of snapshots that are fetched for one repair before it is given up. The blocks of
// others are checked, so if the state still differs then, this machine is at fault.
constexpr int kMostFetches = 4;

}  // namespace

absl::Status ReplicaRepair::AskOthers(const absl::Status& why) {
  if (fetches_ >= kMostFetches) return Annotate(why, "the replica cannot be repaired");
  asks_others_ = true;
  return absl::OkStatus();
}

void ReplicaRepair::OnFetched(uint64_t version) {
  ++fetches_;
  fetched_version_ = version;
  asks_others_ = false;
}

absl::Status ReplicaRepair::SetAside(Files& files, const std::string& dir) const {
  if (fetches_ == 0) return absl::OkStatus();
  // The replica's own snapshots may be the cause. From now on the fetched one is the newest.
  RETURN_IF_ERROR(SetSnapshotsAside(files, dir, fetched_version_));
  return fetches_ > 1 ? SetLogAside(files, dir) : absl::OkStatus();
}

// Any other version was reached from a snapshot that the chain confirms, so its state is accepted.
bool ReplicaRepair::Accepts(uint64_t version, const Digest& state) const {
  return version != version_ || expected_.value_or(state) == state;
}

std::string ReplicaRepair::Outcome(uint64_t version, const Digest& state) const {
  return absl::StrCat("version ", version, expected_ ? ": repaired from " : ": as ",
                      fetches_ == 0 ? "its own snapshot and log" : "the blocks of other peers",
                      expected_ ? "; the state has digest " : " say, the state has digest ",
                      ToHex(state));
}

std::optional<Digest> ReplicaMirror::StateDigestOf(uint64_t of_version) const {
  const auto found = state_digests.find(of_version);
  if (found == state_digests.end()) return std::nullopt;
  return found->second;
}

ReplicaUpkeep::ReplicaUpkeep(Env env, std::string dir, const RetentionPolicy& policy,
                             const ReplicaMirror& mirror, Events events)
    : env_(env),
      dir_(std::move(dir)),
      mirror_(mirror),
      events_(std::move(events)),
      retention_(env, dir_, policy, RetentionEvents()) {}

Retention::Events ReplicaUpkeep::RetentionEvents() {
  Retention::Events events;
  events.on_pass = [this](const absl::Status& status, const RetentionReport&,
                          uint64_t header_allowance) {
    // The next header shows whether the state in memory is right. If none comes, and the disk has
    // failed twice, the state in memory is more trustworthy than the disk.
    const bool twice = save_ && absl::IsDataLoss(status);
    save_ = !twice && absl::IsDataLoss(status);
    AfterPass(twice, header_allowance);
  };
  return events;
}

ReplicaUpkeep::~ReplicaUpkeep() = default;

void ReplicaUpkeep::LoadOffer() {
  const absl::StatusOr<v1::Offer> offer = OfferOf(env_.files, dir_, mirror_.version);
  if (offer.ok()) offer_ = *offer;
}

void ReplicaUpkeep::ReadOffer() {
  auto offer = std::make_shared<absl::StatusOr<v1::Offer>>(v1::Offer());
  env_.executor.Offload([files = &env_.files, dir = dir_, version = mirror_.version,
                         offer] { *offer = OfferOf(*files, dir, version); },
                        guard_.Wrap([this, offer] {
                          if (offer->ok()) SetOffer(**offer);
                        }));
}

void ReplicaUpkeep::SetOffer(const v1::Offer& offer) {
  const bool same = offer_ && offer_->oldest_entry() == offer.oldest_entry() &&
                    offer_->has_snapshot() == offer.has_snapshot() &&
                    offer_->snapshot_version() == offer.snapshot_version();
  if (same) return;
  offer_ = offer;
  events_.on_offer();
}

void ReplicaUpkeep::Retain() {
  const std::optional<Digest> state = mirror_.StateDigestOf(mirror_.version);
  again_ = under_way_;
  if (under_way_ || !mirror_.has_state() || !state) return;
  retention_.Advance(mirror_.version, *state);
  under_way_ = !retention_.idle();
}

void ReplicaUpkeep::OnCommitted() {
  if (!under_way_ && std::exchange(save_, false)) AfterPass(true, 0);
  if (offer_ && offer_->oldest_entry() == 0) {
    offer_->set_oldest_entry(mirror_.version);
    events_.on_offer();
  }
}

bool ReplicaUpkeep::FreeToOpen() {
  opener_waits_ = under_way_;
  if (under_way_) retention_.Hurry();
  return !under_way_;
}

void ReplicaUpkeep::TellSaved(const absl::Status& saved) {
  env_.log.Warning(absl::StrCat("what lies on this disk is spoiled; the state in memory was ",
                                saved.ok() ? "saved" : "not saved: ", saved.message()));
}

// Repeats a failed pass later, even if no version follows.
void ReplicaUpkeep::RetainLater() {
  if (retry_) env_.executor.Cancel(*retry_);
  retry_ = env_.executor.RunAfter(retention_.RetryPause(), guard_.Wrap([this] {
    retry_.reset();
    retention_.TryAgain();
    Retain();
  }));
}

// Called when a pass of retention is over. With `save`, no snapshot can be made from the disk any
// more, so the state in memory is saved. The newest snapshot and the oldest entry may have changed.
void ReplicaUpkeep::AfterPass(bool save, uint64_t header_allowance) {
  struct Result {
    absl::Status status;
    bool saved = false;
  };
  under_way_ = true;
  auto done = std::make_shared<Result>();
  events_.run(
      [done, save, doubted = save_, header_allowance](Replica* replica) {
        if (replica == nullptr) return;
        // A seal confirms the state, as the next header would.
        done->saved = save || (doubted && replica->seal().has_value());
        done->status = done->saved ? replica->SaveState() : replica->CompactLog(header_allowance);
      },
      guard_.Wrap([this, done] {
        if (done->saved) {
          TellSaved(done->status);
        } else if (!done->status.ok()) {
          env_.log.Warning(absl::StrCat("log: ", done->status.message()));
        }
        // If headers cannot be rewritten, the next start cannot read them either.
        if (!done->saved && absl::IsDataLoss(done->status)) save_ = true;
        under_way_ = false;
        if (std::exchange(opener_waits_, false)) return events_.on_free();
        // If there is no report of a pass, the offer is read from the folder.
        if (done->saved || retention_.failing()) {
          ReadOffer();
        } else {
          SetOffer(retention_.offer());
        }
        if (retention_.failing() && !(done->saved && done->status.ok())) RetainLater();
        if (again_) Retain();
      }));
}

}  // namespace atolld
