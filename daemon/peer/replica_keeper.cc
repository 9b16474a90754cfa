#include "daemon/peer/replica_keeper.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"
#include "daemon/replica/state/offer.h"
#include "membership/history/header.h"

namespace atolld {
namespace {

// Donors may all be busy, away or one version behind for a moment: ask again after so long.
constexpr absl::Duration kFetchPause = absl::Milliseconds(500);

// State digests kept for votes and reports: a vote names the version before the newest at most.
constexpr size_t kDigestsKept = 8;

void TellSaved(Log& log, const absl::Status& saved) {
  log.Warning(absl::StrCat("what lies on this disk is spoiled; the state in memory was ",
                           saved.ok() ? "saved" : "not saved: ", saved.message()));
}

}  // namespace

ReplicaKeeper::ReplicaKeeper(Env env, std::string dir, const RetentionPolicy& retention,
                             Events events)
    : env_(env),
      dir_(std::move(dir)),
      events_(std::move(events)),
      queue_(env.executor),
      retention_(env, dir_, retention,
                 Retention::Events{[this](const absl::Status& status, const RetentionReport&,
                                          uint64_t header_allowance) {
                   // The next header says whether the state in memory is right; where none
                   // comes, a disk that leads nowhere twice is worth less than it.
                   const bool twice = keeping_.save && absl::IsDataLoss(status);
                   keeping_.save = !twice && absl::IsDataLoss(status);
                   AfterPass(twice, header_allowance);
                 }}) {}

ReplicaKeeper::~ReplicaKeeper() = default;

absl::Status ReplicaKeeper::NeedMemory(uint64_t elements) {
  if (memory_ == nullptr) {
    ASSIGN_OR_RETURN(memory_, ParameterMemory::Create(elements));
    return absl::OkStatus();
  }
  if (memory_->elements() == elements) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "the worker's model has ", elements, " parameters, the replica ", memory_->elements()));
}

absl::Status ReplicaKeeper::Load() {
  absl::StatusOr<std::unique_ptr<Replica>> replica = Replica::Open(
      env_.files, dir_, [this](uint64_t elements) -> absl::StatusOr<absl::Span<float>> {
        RETURN_IF_ERROR(NeedMemory(elements));
        return memory_->theta();
      });
  if (absl::IsNotFound(replica.status())) return absl::OkStatus();
  RETURN_IF_ERROR(replica.status());
  replica_ = *std::move(replica);
  Adopt();
  const absl::StatusOr<v1::Offer> offer = OfferOf(env_.files, dir_, version_);
  if (offer.ok()) offer_ = *offer;
  return absl::OkStatus();
}

// Mirrors what the replica says; the queue must be idle.
void ReplicaKeeper::Adopt() {
  genesis_ = replica_->genesis();
  grid_ = replica_->grid();
  version_ = replica_->version();
  header_digest_ = replica_->header_digest();
  sync_.failing.reset();
  sync_.newest = std::max(sync_.newest, version_);
  sync_.announced.erase(sync_.announced.begin(), sync_.announced.upper_bound(version_));
  sync_.payload_bytes.erase(sync_.payload_bytes.begin(), sync_.payload_bytes.upper_bound(version_));
}

std::optional<Digest> ReplicaKeeper::StateDigestOf(uint64_t version) const {
  const auto found = state_digests_.find(version);
  if (found == state_digests_.end()) return std::nullopt;
  return found->second;
}

void ReplicaKeeper::Create(v1::Genesis genesis) {
  if (replica_ != nullptr || opening_) return;
  opening_ = true;
  auto made = std::make_shared<absl::StatusOr<std::unique_ptr<Replica>>>(absl::UnknownError(""));
  queue_.Run(
      [this, made, genesis = std::move(genesis)] {
        const absl::Span<const float> initial = memory_->update();
        std::memcpy(memory_->theta().data(), initial.data(), initial.size() * sizeof(float));
        *made = Replica::Create(env_.files, dir_, genesis, memory_->theta());
      },
      guard_.Wrap([this, made] {
        opening_ = false;
        if (!made->ok()) return Broken(made->status());
        replica_ = *std::move(*made);
        Adopt();
        Opened();
      }));
}

void ReplicaKeeper::SetDonors(std::vector<FetchDonor> donors, absl::Duration failure_timeout) {
  sync_.donors = std::move(donors);
  sync_.failure_timeout = failure_timeout;
  // Who has come since can help with what is under way.
  if (sync_.chain != nullptr) sync_.chain->SetDonors(AddressesOf(sync_.donors));
  if (sync_.entries != nullptr) sync_.entries->SetDonors(AddressesOf(sync_.donors));
  if (sync_.snapshot != nullptr) sync_.snapshot->SetDonors(AddressesOf(sync_.donors));
  Advance();
}

void ReplicaKeeper::Follow(const v1::Welcome& welcome) {
  if (replica_ == nullptr) genesis_ = welcome.genesis();
  if (welcome.has_header() && !Announce(welcome.header())) return;
  sync_.newest = std::max(sync_.newest, welcome.version());
  if (has_state()) ComputeDigest();
  Advance();
}

void ReplicaKeeper::HoldCommits(bool hold) {
  held_ = hold;
  if (held_) return;
  if (sync_.deferred) return std::exchange(sync_.deferred, nullptr)();
  Advance();
}

// Applies the next announced header, or fetches what is missing before it.
void ReplicaKeeper::Advance() {
  if (broken_ || held_ || committing_ || opening_) return;
  if (has_state() && version_ < sync_.newest && !fetching()) {
    const auto next = sync_.announced.find(version_ + 1);
    if (next != sync_.announced.end()) {
      std::optional<SharedBytes> payload;
      if (prepared_version_ == version_ + 1) payload = prepared_;
      return CommitNext(v1::EntryHeader(next->second), std::move(payload), nullptr);
    }
  }
  FetchMissing();
}

void ReplicaKeeper::CommitNext(const v1::EntryHeader& header, std::optional<SharedBytes> payload,
                               Task done) {
  struct Result {
    absl::Status status;
    std::optional<Digest> drifted;  // our state, if it alone speaks against the header
    absl::Status history;           // whether the header continues what is here
  };
  committing_ = true;
  auto result = std::make_shared<Result>();
  auto shared_header = std::make_shared<const v1::EntryHeader>(header);
  queue_.Run(
      [this, result, shared_header, payload] {
        result->status = replica_->Commit(*shared_header, payload ? &*payload : nullptr, {});
        // The bytes at hand may be an older plan's while the right ones lie on disk.
        if (absl::IsNotFound(result->status) && payload) {
          result->status = replica_->Commit(*shared_header, nullptr, {});
        }
        if (result->status.ok() || absl::IsNotFound(result->status)) return;
        result->history = CheckHeader(replica_->genesis(), replica_->version(),
                                      replica_->header_digest(), *shared_header);
        if (!result->history.ok() || !absl::IsFailedPrecondition(result->status)) return;
        if (replica_->seal()) {
          result->history = result->status;
        } else {
          result->drifted = replica_->StateDigest();
        }
      },
      guard_.Wrap([this, result, shared_header, done] {
        committing_ = false;
        if (result->status.ok()) {
          OnCommitted(*shared_header);
          if (done) done();
          return Advance();
        }
        const absl::StatusOr<Digest> expected =
            DigestFromBytes(shared_header->previous_state_digest());
        if (result->drifted && expected.ok()) return OnDrift(*result->drifted, *expected);
        if (absl::IsNotFound(result->status)) return FetchGap();
        if (!result->history.ok()) return RefuseHistory(result->history);
        Broken(Annotate(result->status, absl::StrCat("entry ", shared_header->version())));
      }));
}

void ReplicaKeeper::NoteFailing(const std::string& why) {
  if (!sync_.failing) sync_.failing = FetchFailure{env_.executor.Now(), ""};
  sync_.failing->why = why;
}

void ReplicaKeeper::RetryLater(const absl::Status& why) {
  NoteFailing(std::string(why.message()));
  if (std::exchange(sync_.retry_pending, true)) return;
  env_.executor.RunAfter(kFetchPause, guard_.Wrap([this] {
    sync_.retry_pending = false;
    Advance();
  }));
}

void ReplicaKeeper::OnCommitted(const v1::EntryHeader& header) {
  Adopt();
  sync_.lacking = 0;
  if (prepared_version_ <= version_) prepared_ = SharedBytes();
  events_.on_committed(header);
  if (!keeping_.under_way && std::exchange(keeping_.save, false)) AfterPass(true, 0);
  if (offer_ && offer_->oldest_entry() == 0) {
    offer_->set_oldest_entry(version_);
    events_.on_offer();
  }
  ComputeDigest();
}

void ReplicaKeeper::ComputeDigest() {
  if (state_digests_.count(version_) != 0) {
    events_.on_digest(version_, state_digests_[version_]);
    return;
  }
  auto computed = std::make_shared<std::pair<uint64_t, Digest>>();
  queue_.Run(
      [this, computed] {
        if (replica_ != nullptr) *computed = {replica_->version(), replica_->StateDigest()};
      },
      guard_.Wrap([this, computed] {
        if (repair_) return;  // it was the drifted state's, or nothing's
        state_digests_[computed->first] = computed->second;
        while (state_digests_.size() > kDigestsKept) state_digests_.erase(state_digests_.begin());
        Retain();
        events_.on_digest(computed->first, computed->second);
      }));
}

// One pass at a time, and none while the replica is opened anew: both move the directory's files.
void ReplicaKeeper::Retain() {
  const std::optional<Digest> state = StateDigestOf(version_);
  keeping_.again = keeping_.under_way;
  if (keeping_.under_way || !has_state() || !state) return;
  retention_.Advance(version_, *state);
  keeping_.under_way = !retention_.idle();
}

// The pass that failed, once more, also if no version follows.
void ReplicaKeeper::RetainLater() {
  if (keeping_.retry) env_.executor.Cancel(*keeping_.retry);
  keeping_.retry = env_.executor.RunAfter(retention_.RetryPause(), guard_.Wrap([this] {
    keeping_.retry.reset();
    retention_.TryAgain();
    Retain();
  }));
}

// A pass of retention is over, or `save`: the disk can make no snapshot any more, so the state in
// memory is written out. The newest snapshot and the oldest entry may be others now.
void ReplicaKeeper::AfterPass(bool save, uint64_t header_allowance) {
  struct Result {
    absl::Status status;
    bool saved = false;
  };
  keeping_.under_way = true;
  auto done = std::make_shared<Result>();
  queue_.Run(
      [this, done, save, doubted = keeping_.save, header_allowance] {
        if (replica_ == nullptr) return;
        // A seal confirms the state as the next header does.
        done->saved = save || (doubted && replica_->seal().has_value());
        done->status = done->saved ? replica_->SaveState() : replica_->CompactLog(header_allowance);
      },
      guard_.Wrap([this, done] {
        if (done->saved) {
          TellSaved(env_.log, done->status);
        } else if (!done->status.ok()) {
          env_.log.Warning(absl::StrCat("log: ", done->status.message()));
        }
        // Headers that cannot be written anew cannot be read by the next start either.
        if (!done->saved && absl::IsDataLoss(done->status)) keeping_.save = true;
        keeping_.under_way = false;
        if (open_waits_) return OpenFromDisk();
        if (done->saved || retention_.failing()) {
          ReadOffer();
        } else {
          SetOffer(retention_.offer());
        }
        if (retention_.failing() && !(done->saved && done->status.ok())) RetainLater();
        if (keeping_.again) Retain();
      }));
}

// From the directory, where no pass has told yet.
void ReplicaKeeper::ReadOffer() {
  auto offer = std::make_shared<absl::StatusOr<v1::Offer>>(v1::Offer());
  env_.executor.Offload([files = &env_.files, dir = dir_, version = version_,
                         offer] { *offer = OfferOf(*files, dir, version); },
                        guard_.Wrap([this, offer] {
                          if (offer->ok()) SetOffer(**offer);
                        }));
}

void ReplicaKeeper::SetOffer(const v1::Offer& offer) {
  const bool same = offer_ && offer_->oldest_entry() == offer.oldest_entry() &&
                    offer_->has_snapshot() == offer.has_snapshot() &&
                    offer_->snapshot_version() == offer.snapshot_version();
  if (same) return;
  offer_ = offer;
  events_.on_offer();
}

void ReplicaKeeper::Prepare(SharedBytes payload, std::function<void(absl::Status)> done) {
  auto status = std::make_shared<absl::Status>();
  const uint64_t version = version_ + 1;
  queue_.Run(
      [this, status, payload] {
        *status = replica_ != nullptr ? replica_->Prepare(payload)
                                      : absl::UnavailableError("the replica is being repaired");
      },
      guard_.Wrap([this, status, payload, version, done = std::move(done)] {
        if (status->ok() && version == version_ + 1) {
          prepared_ = payload;
          prepared_version_ = version;
        }
        done(*status);
      }));
}

void ReplicaKeeper::RunExclusive(Task work, Task done) {
  queue_.Run(std::move(work), guard_.Wrap(std::move(done)));
}

void ReplicaKeeper::ReadNewest(std::function<void(const Replica&)> work,
                               std::function<void(uint64_t)> done) {
  auto version = std::make_shared<uint64_t>(0);
  queue_.Run(
      [this, version, work = std::move(work)] {
        if (replica_ == nullptr) return;
        *version = replica_->version();
        work(*replica_);
      },
      guard_.Wrap([version, done = std::move(done)] { done(*version); }));
}

void ReplicaKeeper::Seal(const v1::Seal& seal, std::function<void(absl::Status)> done) {
  auto status = std::make_shared<absl::Status>();
  auto saved = std::make_shared<absl::Status>();
  // It confirms the state in memory, and no header will any more.
  const bool save = !keeping_.under_way && std::exchange(keeping_.save, false);
  queue_.Run(
      [this, status, saved, seal, save] {
        *status = replica_ != nullptr ? replica_->WriteSeal(seal)
                                      : absl::UnavailableError("the replica is being repaired");
        if (status->ok() && save) *saved = replica_->SaveState();
      },
      guard_.Wrap([this, status, saved, save, done = std::move(done)] {
        if (status->ok() && save) TellSaved(env_.log, *saved);
        done(*status);
      }));
}

void ReplicaKeeper::Broken(const absl::Status& status) {
  if (std::exchange(broken_, true)) return;
  EndFetch();
  sync_.chain.reset();
  sync_.snapshot.reset();
  events_.on_broken(status);
}

}  // namespace atolld
