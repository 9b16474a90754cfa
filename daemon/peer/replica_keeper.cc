#include "daemon/peer/replica_keeper.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/status_macros.h"

namespace atolld {
namespace {

// Donors may all be busy, away or one version behind for a moment: ask again after so long.
constexpr absl::Duration kFetchPause = absl::Milliseconds(500);

// How often all donors must lack an entry before a whole snapshot is fetched instead.
constexpr int kLackingBeforeSnapshot = 4;

// State digests kept for votes and reports: a vote names the version before the newest at most.
constexpr size_t kDigestsKept = 8;

}  // namespace

ReplicaKeeper::ReplicaKeeper(Env env, std::string dir, RetentionPolicy retention, Events events)
    : env_(env),
      dir_(std::move(dir)),
      retention_(retention),
      events_(std::move(events)),
      queue_(env.executor) {}

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
  return absl::OkStatus();
}

// Mirrors what the replica says; the queue must be idle.
void ReplicaKeeper::Adopt() {
  genesis_ = replica_->genesis();
  grid_ = replica_->grid();
  version_ = replica_->version();
  header_digest_ = replica_->header_digest();
  newest_ = std::max(newest_, version_);
  announced_.erase(announced_.begin(), announced_.upper_bound(version_));
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
        ComputeDigest();
        events_.on_opened();
        Advance();
      }));
}

void ReplicaKeeper::SetDonors(std::vector<std::string> donors, absl::Duration failure_timeout) {
  donors_ = std::move(donors);
  failure_timeout_ = failure_timeout;
  Advance();
}

void ReplicaKeeper::Follow(const v1::Genesis& genesis, uint64_t newest) {
  if (replica_ == nullptr) genesis_ = genesis;
  newest_ = std::max(newest_, newest);
  if (has_state()) ComputeDigest();
  Advance();
}

void ReplicaKeeper::Announce(const v1::EntryHeader& header) {
  if (header.version() <= version_ && has_state()) return;
  newest_ = std::max(newest_, header.version());
  announced_[header.version()] = header;
  Advance();
}

void ReplicaKeeper::HoldCommits(bool hold) {
  held_ = hold;
  if (held_) return;
  if (deferred_) return std::exchange(deferred_, nullptr)();
  Advance();
}

// Applies the next announced header, or fetches what is missing before it.
void ReplicaKeeper::Advance() {
  if (broken_ || held_ || committing_ || opening_) return;
  if (replica_ != nullptr && version_ < newest_ && entries_ == nullptr && snapshot_ == nullptr) {
    const auto next = announced_.find(version_ + 1);
    if (next != announced_.end()) {
      std::optional<SharedBytes> payload;
      if (prepared_version_ == version_ + 1) payload = prepared_;
      CommitNext(next->second, std::move(payload), nullptr);
      return;
    }
  }
  FetchMissing();
}

void ReplicaKeeper::CommitNext(const v1::EntryHeader& header, std::optional<SharedBytes> payload,
                               Task done) {
  committing_ = true;
  auto status = std::make_shared<absl::Status>();
  auto shared_header = std::make_shared<const v1::EntryHeader>(header);
  queue_.Run(
      [this, status, shared_header, payload] {
        *status = replica_->Commit(*shared_header, payload ? &*payload : nullptr, {});
        // The bytes at hand may be an older plan's while the right ones lie on disk.
        if (absl::IsNotFound(*status) && payload) {
          *status = replica_->Commit(*shared_header, nullptr, {});
        }
      },
      guard_.Wrap([this, status, shared_header, done] {
        committing_ = false;
        if (status->ok()) {
          OnCommitted(*shared_header);
          if (done) done();
          return Advance();
        }
        const absl::Status why =
            Annotate(*status, absl::StrCat("entry ", shared_header->version()));
        if (entries_ != nullptr) return LeaveDonor(why);
        if (absl::IsNotFound(*status)) return FetchEntries(shared_header->version());
        Broken(why);
      }));
}

// What a donor gave is no successor of our state: ask the others before giving up.
void ReplicaKeeper::LeaveDonor(const absl::Status& why) {
  EndFetch();
  if (donors_.empty()) return RetryLater();
  if (++bad_donors_ >= donors_.size()) return Broken(why);
  env_.log.Warning(absl::StrCat("a donor's ", why.message(), "; asking another"));
  std::rotate(donors_.begin(), donors_.begin() + 1, donors_.end());
  RetryLater();
}

void ReplicaKeeper::EndFetch() {
  entries_.reset();
  deferred_ = nullptr;
}

void ReplicaKeeper::RetryLater() {
  if (std::exchange(retry_pending_, true)) return;
  env_.executor.RunAfter(kFetchPause, guard_.Wrap([this] {
    retry_pending_ = false;
    Advance();
  }));
}

void ReplicaKeeper::OnCommitted(const v1::EntryHeader& header) {
  Adopt();
  bad_donors_ = 0;
  lacking_ = 0;
  if (prepared_version_ <= version_) prepared_ = SharedBytes();
  events_.on_committed(header);
  ComputeDigest();
  AdvanceSnapshots();
}

FetchSource ReplicaKeeper::Source() const {
  FetchSource source;
  source.run_id = genesis_.spec().run_id();
  source.donors = donors_;
  source.failure_timeout = failure_timeout_;
  const absl::StatusOr<const Codec*> codec = FindCodec(genesis_.spec().exchange().codec());
  if (codec.ok() && grid_.elements() > 0) source.payload_limit = MaxPayloadBytes(grid_, **codec);
  return source;
}

void ReplicaKeeper::FetchMissing() {
  if (broken_ || held_ || opening_ || committing_ || donors_.empty()) return;
  if (entries_ != nullptr || snapshot_ != nullptr || retry_pending_) return;
  if (replica_ == nullptr) {
    if (genesis_.state_digest().empty()) return;
    return FetchSnapshot();
  }
  // A gap before the next announced header, or a tail that was never announced here.
  if (version_ < newest_ && announced_.count(version_ + 1) == 0) FetchEntries(newest_);
}

void ReplicaKeeper::FetchEntries(uint64_t last) {
  if (donors_.empty()) return;
  env_.log.Info(absl::StrCat("round ", version_ + 1, ": fetching entries ", version_ + 1, " to ",
                             last, " from ", donors_.size(), " peers"));
  EntryFetch::Events events;
  events.on_entry = guard_.Wrap([this](Entry entry, Task next) {
    if (entry.header.version() != version_ + 1) return next();
    Task commit = [this, entry, next] { CommitNext(entry.header, entry.payload, next); };
    if (!held_) return commit();
    deferred_ = std::move(commit);
  });
  events.on_done = guard_.Wrap([this](absl::Status status) {
    EndFetch();
    // Donors may be a moment behind; only entries that stay away are gone for good.
    if (absl::IsNotFound(status) && ++lacking_ >= kLackingBeforeSnapshot) return FetchSnapshot();
    if (status.ok()) return Advance();
    env_.log.Warning(absl::StrCat("entries: ", status.message(), "; asking again"));
    RetryLater();
  });
  entries_ = std::make_unique<EntryFetch>(env_, Source(), version_ + 1, last, std::move(events));
}

void ReplicaKeeper::FetchSnapshot() {
  if (donors_.empty()) return;
  env_.log.Info(absl::StrCat("fetching a snapshot from ", donors_.size(), " peers"));
  snapshot_ = std::make_unique<SnapshotFetch>(
      env_, Source(), dir_, genesis_, guard_.Wrap([this](absl::Status status) {
        snapshot_.reset();
        if (status.ok()) return Reopen();
        env_.log.Warning(absl::StrCat("snapshot: ", status.message(), "; asking again"));
        RetryLater();
      }),
      guard_.Wrap([](uint64_t, uint64_t) {}));
}

// A snapshot has come in: begin again from what is on disk now.
void ReplicaKeeper::Reopen() {
  lacking_ = 0;
  // Here, not on the pool: a worker that comes up asks for the same memory.
  const absl::Status memory = NeedMemory(genesis_.manifest().elements());
  if (!memory.ok()) return Broken(memory);
  opening_ = true;
  auto status = std::make_shared<absl::Status>();
  auto opened = std::make_shared<std::unique_ptr<Replica>>();
  queue_.Run(
      [this, status, opened] {
        replica_.reset();
        absl::StatusOr<std::unique_ptr<Replica>> replica = Replica::Open(
            env_.files, dir_, [this](uint64_t elements) -> absl::StatusOr<absl::Span<float>> {
              RETURN_IF_ERROR(NeedMemory(elements));
              return memory_->theta();
            });
        *status = replica.status();
        if (replica.ok()) *opened = *std::move(replica);
      },
      guard_.Wrap([this, status, opened] {
        opening_ = false;
        if (!status->ok()) return Broken(Annotate(*status, "the fetched snapshot"));
        replica_ = std::move(*opened);
        Adopt();
        ComputeDigest();
        events_.on_opened();
        Advance();
      }));
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
        state_digests_[computed->first] = computed->second;
        while (state_digests_.size() > kDigestsKept) state_digests_.erase(state_digests_.begin());
        events_.on_digest(computed->first, computed->second);
      }));
}

void ReplicaKeeper::AdvanceSnapshots() {
  if (snapshotting_) return;
  snapshotting_ = true;
  auto status = std::make_shared<absl::Status>();
  env_.executor.Offload(
      [files = &env_.files, dir = dir_, policy = retention_, version = version_, status] {
        *status = Replica::AdvanceSnapshots(*files, dir, policy, version);
      },
      guard_.Wrap([this, status] {
        snapshotting_ = false;
        if (!status->ok()) env_.log.Warning(absl::StrCat("snapshot: ", status->message()));
      }));
}

void ReplicaKeeper::Prepare(SharedBytes payload, std::function<void(absl::Status)> done) {
  auto status = std::make_shared<absl::Status>();
  const uint64_t version = version_ + 1;
  queue_.Run([this, status, payload] { *status = replica_->Prepare(payload); },
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

void ReplicaKeeper::Seal(const v1::Seal& seal, std::function<void(absl::Status)> done) {
  auto status = std::make_shared<absl::Status>();
  queue_.Run([this, status, seal] { *status = replica_->WriteSeal(seal); },
             guard_.Wrap([status, done = std::move(done)] { done(*status); }));
}

void ReplicaKeeper::Broken(const absl::Status& status) {
  if (std::exchange(broken_, true)) return;
  EndFetch();
  snapshot_.reset();
  events_.on_broken(status);
}

}  // namespace atolld
