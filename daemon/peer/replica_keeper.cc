#include "daemon/peer/replica_keeper.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"
#include "daemon/replica/state/branch_file.h"
#include "daemon/replica/state/layout.h"
#include "membership/history/header.h"

namespace atolld {
namespace {

// The number of state digests kept for votes and reports; a vote names at most the version before
// the newest.
constexpr size_t kDigestsKept = 8;

}  // namespace

ReplicaKeeper::ReplicaKeeper(Env env, std::string dir, const RetentionPolicy& retention,
                             Events events)
    : env_(env),
      dir_(std::move(dir)),
      events_(std::move(events)),
      queue_(env.executor),
      upkeep_(env, dir_, retention, mirror_, UpkeepEvents()),
      catch_up_(env, dir_, mirror_, CatchUpEvents()) {}

ReplicaUpkeep::Events ReplicaKeeper::UpkeepEvents() {
  ReplicaUpkeep::Events events;
  events.on_offer = [this] { events_.on_offer(); };
  events.on_free = [this] { OpenFromDisk(); };
  events.run = [this](std::function<void(Replica*)> work, Task done) {
    Run([this, work] { work(replica_.get()); }, std::move(done));
  };
  return events;
}

CatchUp::Events ReplicaKeeper::CatchUpEvents() {
  CatchUp::Events events;
  events.on_entry = [this](const Entry& entry, Task next) {
    CommitNext(entry.header, entry.payload, std::move(next));
  };
  events.on_snapshot = [this](uint64_t version) {
    if (mirror_.repair) mirror_.repair->OnFetched(version);
    Reopen();
  };
  events.on_change = [this] { Advance(); };
  events.on_donor_failed = [this](const std::string& address) {
    if (events_.on_donor_failed) events_.on_donor_failed(address);
  };
  return events;
}

ReplicaKeeper::~ReplicaKeeper() = default;

absl::StatusOr<std::unique_ptr<Replica>> ReplicaKeeper::Open() {
  ASSIGN_OR_RETURN(std::unique_ptr<Replica> replica,
                   Replica::Open(
                       env_.files, dir_,
                       [this](uint64_t elements) -> absl::StatusOr<absl::Span<float>> {
                         RETURN_IF_ERROR(NeedMemory(elements));
                         return memory_->theta();
                       },
                       buffer_folder_));
  RETURN_IF_ERROR(ShowControl(*replica));
  return replica;
}

// Copies the common control variate, which is one of the replica's buffers, to the worker. Theta
// already lies in memory that the worker sees.
absl::Status ReplicaKeeper::ShowControl(const Replica& replica) {
  const absl::Span<const float> control = replica.control();
  if (control.empty()) return absl::OkStatus();
  RETURN_IF_ERROR(memory_->NeedControl());
  std::copy(control.begin(), control.end(), memory_->control().begin());
  return absl::OkStatus();
}

absl::Status ReplicaKeeper::Load() {
  absl::StatusOr<std::unique_ptr<Replica>> replica = Open();
  if (absl::IsNotFound(replica.status())) return absl::OkStatus();
  RETURN_IF_ERROR(replica.status());
  replica_ = *std::move(replica);
  Adopt();
  upkeep_.LoadOffer();
  return absl::OkStatus();
}

// Updates the mirror from the replica; the queue must be idle.
void ReplicaKeeper::Adopt() {
  mirror_.present = true;
  mirror_.genesis = replica_->genesis();
  mirror_.grid = replica_->grid();
  mirror_.fragments = replica_->fragments();
  mirror_.version = replica_->version();
  mirror_.header_digest = replica_->header_digest();
  mirror_.header.reset();
  if (replica_->header() != nullptr) mirror_.header = *replica_->header();
  catch_up_.OnMoved();
}

void ReplicaKeeper::Create(v1::Genesis genesis) {
  Make([this, genesis = std::move(genesis)]() -> absl::StatusOr<std::unique_ptr<Replica>> {
    const absl::Span<const float> initial = memory_->update();
    std::memcpy(memory_->theta().data(), initial.data(), initial.size() * sizeof(float));
    absl::StatusOr<std::unique_ptr<Replica>> replica =
        Replica::Create(env_.files, dir_, genesis, memory_->theta(), buffer_folder_);
    if (replica.ok()) RETURN_IF_ERROR(ShowControl(**replica));
    return replica;
  });
}

void ReplicaKeeper::CreateFromBranch(v1::Genesis genesis, const std::string& path) {
  Make([this, genesis = std::move(genesis), path]() -> absl::StatusOr<std::unique_ptr<Replica>> {
    RETURN_IF_ERROR(atolld::CreateFromBranch(env_.files, dir_, genesis, path));
    return Open();
  });
}

void ReplicaKeeper::Make(MakeReplica make) {
  if (mirror_.present || mirror_.opening) return;
  mirror_.opening = true;
  auto made = std::make_shared<absl::StatusOr<std::unique_ptr<Replica>>>(absl::UnknownError(""));
  Run([made, make = std::move(make)] { *made = make(); }, guard_.Wrap([this, made] {
    mirror_.opening = false;
    if (!made->ok()) return Broken(made->status());
    replica_ = *std::move(*made);
    Adopt();
    Opened();
  }));
}

void ReplicaKeeper::SetDonors(std::vector<FetchDonor> donors, absl::Duration failure_timeout) {
  catch_up_.SetDonors(std::move(donors), failure_timeout);
  Advance();
}

// -----------------------------------------------------------------------------------------------
// Messages of the coordinator

void ReplicaKeeper::Follow(const v1::Welcome& welcome) {
  const bool another =
      told_.has_value() && GenesisDigest(*told_) != GenesisDigest(welcome.genesis());
  told_ = welcome.genesis();
  if (!mirror_.present) {
    if (another) catch_up_.Forget();  // a fetch under way is for the previous version 0
    mirror_.genesis = welcome.genesis();
  }
  if (IsAnotherRuns()) Drop();
  if (welcome.has_header() && !Announce(welcome.header())) return;
  catch_up_.OnNewest(welcome.version());
  if (has_state()) ComputeDigest();
  Advance();
}

void ReplicaKeeper::FollowNone() {
  if (!told_) return;
  told_.reset();
  if (mirror_.present || mirror_.opening) return;
  catch_up_.Forget();
  mirror_.genesis.Clear();
}

bool ReplicaKeeper::Announce(const v1::EntryHeader& header) {
  const absl::Status fits = catch_up_.CheckTold(header);
  if (!fits.ok()) {
    RefuseHistory(fits);
    return false;
  }
  if (header.version() <= version() && has_state()) {
    if (header.version() != version()) CompareWithLog(header);
    return true;
  }
  catch_up_.OnTold(header);
  Advance();
  return true;
}

// Compares a header that is older than the replica's newest one with the header in the log, if the
// log still has it.
void ReplicaKeeper::CompareWithLog(const v1::EntryHeader& header) {
  auto held = std::make_shared<absl::StatusOr<Digest>>(absl::NotFoundError(""));
  Run(
      [this, held, version = header.version()] {
        if (replica_ != nullptr) *held = replica_->HeaderDigestOf(version);
      },
      guard_.Wrap([this, held, version = header.version(), told = HeaderDigest(header)] {
        if (!held->ok() || **held == told) return;  // the header was dropped, or is the same
        RefuseHistory(ForkedError(version, ToHex(told), ToHex(**held)));
      }));
}

void ReplicaKeeper::RefuseHistory(const absl::Status& why) {
  catch_up_.Forget();
  events_.on_refused(why);
}

// Returns true if the run has another version 0 than the one that was made or fetched here, which
// can happen before the first entry. The told genesis was checked: it is signed with the history
// key.
bool ReplicaKeeper::IsAnotherRuns() const {
  return told_.has_value() && has_state() && version() == 0 && !mirror_.committing &&
         mirror_.header_digest != GenesisDigest(*told_);
}

void ReplicaKeeper::Drop() {
  env_.log.Warning(absl::StrCat("version 0 of this replica, ", ToHex(mirror_.header_digest),
                                ", is not the one that became the run's, ",
                                ToHex(GenesisDigest(*told_)),
                                "; nothing was trained from it: it is dropped"));
  catch_up_.Forget();
  upkeep_.DropSave();
  mirror_.opening = drops_ = true;
  if (upkeep_.FreeToOpen()) Remove();
}

void ReplicaKeeper::Remove() {
  auto removed = std::make_shared<absl::Status>();
  Run(
      [this, removed] {
        replica_.reset();
        *removed = RemoveReplica(env_.files, dir_);
      },
      guard_.Wrap([this, removed] {
        mirror_.opening = drops_ = mirror_.present = false;
        if (!removed->ok()) return Broken(Annotate(*removed, "dropping version 0"));
        mirror_.genesis = *told_;
        mirror_.header_digest = Digest{};
        mirror_.state_digests.clear();
        upkeep_.OnDropped();
        events_.on_dropped();
        Advance();
      }));
}

// -----------------------------------------------------------------------------------------------
// The next entry

void ReplicaKeeper::HoldCommits(bool hold) {
  mirror_.held = hold;
  if (hold || catch_up_.Release()) return;
  Advance();
}

// Applies the next entry if its header is known, or fetches what is missing before it.
void ReplicaKeeper::Advance() {
  if (mirror_.broken || mirror_.held || mirror_.committing || mirror_.opening) return;
  if (has_state() && behind() && !catch_up_.fetching()) {
    const v1::EntryHeader* const next = catch_up_.Known(version() + 1);
    if (next != nullptr) {
      std::optional<SharedBytes> payload;
      if (prepared_version_ == version() + 1) payload = prepared_;
      return CommitNext(v1::EntryHeader(*next), std::move(payload), nullptr);
    }
  }
  catch_up_.Fetch();
}

void ReplicaKeeper::CommitNext(const v1::EntryHeader& header, std::optional<SharedBytes> payload,
                               Task done) {
  struct Result {
    absl::Status status;
    absl::Status shown;             // whether the worker has been given the control variate
    std::optional<Digest> drifted;  // the replica's state, if only this state contradicts the
                                    // header
    absl::Status history;           // not OK if the header does not continue the replica's history
  };
  mirror_.committing = true;
  auto result = std::make_shared<Result>();
  auto shared_header = std::make_shared<const v1::EntryHeader>(header);
  Run(
      [this, result, shared_header, payload] {
        result->status = replica_->Commit(*shared_header, payload ? &*payload : nullptr, {});
        // The payload in memory may belong to an older plan, while the right one is on the disk.
        if (absl::IsNotFound(result->status) && payload) {
          result->status = replica_->Commit(*shared_header, nullptr, {});
        }
        if (result->status.ok()) result->shown = ShowControl(*replica_);
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
        mirror_.committing = false;
        if (!result->shown.ok()) return Broken(result->shown);
        if (result->status.ok()) {
          OnCommitted(*shared_header);
          if (done) done();
          return Advance();
        }
        const absl::StatusOr<Digest> expected =
            DigestFromBytes(shared_header->previous_state_digest());
        if (result->drifted && expected.ok()) return OnDrift(*result->drifted, *expected);
        if (absl::IsNotFound(result->status)) return catch_up_.FetchGap();
        if (!result->history.ok()) return RefuseHistory(result->history);
        Broken(result->status);  // the message names the entry
      }));
}

void ReplicaKeeper::OnCommitted(const v1::EntryHeader& header) {
  Adopt();
  catch_up_.OnCommitted();
  if (prepared_version_ <= version()) prepared_ = SharedBytes();
  events_.on_committed(header);
  upkeep_.OnCommitted();
  ComputeDigest();
}

void ReplicaKeeper::ComputeDigest() {
  if (const std::optional<Digest> known = StateDigestOf(version())) {
    events_.on_digest(version(), *known);
    return;
  }
  auto computed = std::make_shared<std::pair<uint64_t, Digest>>();
  Run(
      [this, computed] {
        if (replica_ != nullptr) *computed = {replica_->version(), replica_->StateDigest()};
      },
      guard_.Wrap([this, computed] {
        if (mirror_.repair) return;  // the digest was that of the drifted state
        std::map<uint64_t, Digest>& digests = mirror_.state_digests;
        digests[computed->first] = computed->second;
        while (digests.size() > kDigestsKept) digests.erase(digests.begin());
        upkeep_.Retain();
        events_.on_digest(computed->first, computed->second);
      }));
}

void ReplicaKeeper::Prepare(SharedBytes payload, std::function<void(absl::Status)> done) {
  auto status = std::make_shared<absl::Status>();
  const uint64_t version = mirror_.version + 1;
  Run(
      [this, status, payload] {
        *status = replica_ != nullptr ? replica_->Prepare(payload)
                                      : absl::UnavailableError("the replica is being repaired");
      },
      guard_.Wrap([this, status, payload, version, done = std::move(done)] {
        if (status->ok() && version == mirror_.version + 1) {
          prepared_ = payload;
          prepared_version_ = version;
        }
        done(*status);
      }));
}

// Runs a job on the queue. Between jobs nothing of the state needs to be resident.
void ReplicaKeeper::Run(Task work, Task done) {
  queue_.Run(
      [this, work = std::move(work)] {
        work();
        if (memory_ != nullptr) memory_->Release();
        if (replica_ != nullptr) replica_->Release();
      },
      std::move(done));
}

void ReplicaKeeper::RunExclusive(Task work, Task done) {
  Run(std::move(work), guard_.Wrap(std::move(done)));
}

void ReplicaKeeper::ReadNewest(std::function<void(const Replica&)> work,
                               std::function<void(uint64_t)> done) {
  auto version = std::make_shared<uint64_t>(0);
  Run(
      [this, version, work = std::move(work)] {
        if (replica_ == nullptr) return;
        *version = replica_->version();
        work(*replica_);
      },
      guard_.Wrap([version, done = std::move(done)] { done(*version); }));
}

absl::Status ReplicaKeeper::NeedMemory(uint64_t elements) {
  if (memory_ == nullptr) {
    if (shared_ == nullptr) {
      ASSIGN_OR_RETURN(shared_, MemoryFile::Make(buffer_folder_));
    }
    ASSIGN_OR_RETURN(memory_, ParameterMemory::Create(elements, shared_));
    return absl::OkStatus();
  }
  if (memory_->elements() == elements) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "the worker's model has ", elements, " parameters, the replica ", memory_->elements()));
}

void ReplicaKeeper::Seal(const v1::Seal& seal, std::function<void(absl::Status)> done) {
  auto status = std::make_shared<absl::Status>();
  auto saved = std::make_shared<absl::Status>();
  // The seal confirms the state in memory, and no later header will.
  const bool save = upkeep_.TakeSave();
  Run(
      [this, status, saved, seal, save] {
        *status = replica_ != nullptr ? replica_->WriteSeal(seal)
                                      : absl::UnavailableError("the replica is being repaired");
        if (status->ok() && save) *saved = replica_->SaveState();
      },
      guard_.Wrap([this, status, saved, save, done = std::move(done)] {
        if (status->ok() && save) upkeep_.TellSaved(*saved);
        done(*status);
      }));
}

void ReplicaKeeper::Broken(const absl::Status& status) {
  if (std::exchange(mirror_.broken, true)) return;
  catch_up_.End();
  events_.on_broken(status);
}

// -----------------------------------------------------------------------------------------------
// Opening the replica again

// Opens the replica again from the present files on disk.
void ReplicaKeeper::Reopen() {
  // This is done on the loop, not on the pool, because a worker that starts asks for the same
  // memory.
  const absl::Status memory = NeedMemory(genesis().manifest().elements());
  if (!memory.ok()) return Broken(memory);
  reopens_ = has_state();
  mirror_.opening = true;
  if (upkeep_.FreeToOpen()) OpenFromDisk();
}

void ReplicaKeeper::OpenFromDisk() {
  if (drops_) return Remove();
  auto opened = std::make_shared<absl::StatusOr<std::unique_ptr<Replica>>>(absl::UnknownError(""));
  Run(
      [this, opened, repair = mirror_.repair] {
        replica_.reset();
        const absl::Status ready = repair ? repair->SetAside(env_.files, dir_) : absl::OkStatus();
        if (ready.ok()) {
          *opened = Open();
        } else {
          *opened = ready;
        }
      },
      guard_.Wrap([this, opened] {
        mirror_.opening = reopens_ = false;
        OnReopened(std::move(*opened));
      }));
}

void ReplicaKeeper::OnReopened(absl::StatusOr<std::unique_ptr<Replica>> replica) {
  if (!replica.ok()) {
    mirror_.present = false;
    if (mirror_.repair && absl::IsDataLoss(replica.status())) return AskOthers(replica.status());
    return Broken(Annotate(replica.status(), "opening the replica again"));
  }
  const uint64_t before = version();
  replica_ = *std::move(replica);
  mirror_.present = true;
  if (mirror_.repair) return CheckRepair();
  for (uint64_t skipped = before + 1; skipped <= replica_->version(); ++skipped) {
    if (const v1::EntryHeader* const known = catch_up_.Known(skipped)) {
      events_.on_skipped(v1::EntryHeader(*known));
    } else if (skipped == replica_->version() && replica_->header() != nullptr) {
      events_.on_skipped(v1::EntryHeader(*replica_->header()));
    }
  }
  Adopt();
  Opened();
}

void ReplicaKeeper::Opened() {
  if (IsAnotherRuns()) return Drop();
  upkeep_.ReadOffer();
  events_.on_opened();
  ComputeDigest();
  Advance();
}

void ReplicaKeeper::Require(const Digest& state) {
  if (!has_state() || mirror_.committing) return;
  const std::optional<Digest> ours = StateDigestOf(version());
  if (ours && *ours != state) OnDrift(*ours, state);
}

// Rebuilds the state from the disk: the disk was checked at every step from a snapshot that the
// chain confirms, but the memory was not.
void ReplicaKeeper::Audit() {
  if (!has_state() || mirror_.committing || mirror_.broken || !StateDigestOf(version())) return;
  env_.log.Warning(absl::StrCat("version ", version(),
                                ": other peers hold another state than this ",
                                "replica; it is made again from its own disk"));
  Remake(std::nullopt);
}

void ReplicaKeeper::OnDrift(const Digest& state, const Digest& expected) {
  if (mirror_.repair || mirror_.broken) return;
  env_.log.Error(absl::StrCat("version ", version(), ": this replica has drifted: its state has ",
                              "digest ", ToHex(state), ", the history says ", ToHex(expected),
                              "; a fault of memory or disk? Repairing it"));
  events_.on_drift(version(), state, expected);
  Remake(expected);
}

void ReplicaKeeper::Remake(std::optional<Digest> expected) {
  catch_up_.EndEntries();
  upkeep_.DropSave();
  mirror_.state_digests.erase(version());
  mirror_.repair.emplace(version(), expected);
  Reopen();
}

// The replica was opened again: checks whether its state is now that of the history.
void ReplicaKeeper::CheckRepair() {
  mirror_.opening = true;  // the replica must not be used yet
  auto state = std::make_shared<Digest>();
  Run([this, state] { *state = replica_->StateDigest(); }, guard_.Wrap([this, state] {
    mirror_.opening = false;
    if (!mirror_.repair->Accepts(replica_->version(), *state)) {
      return AskOthers(absl::DataLossError(
          absl::StrCat("what is on this disk leads to digest ", ToHex(*state))));
    }
    env_.log.Warning(mirror_.repair->Outcome(replica_->version(), *state));
    mirror_.repair.reset();
    Adopt();
    mirror_.state_digests[version()] = *state;
    Opened();
  }));
}

void ReplicaKeeper::AskOthers(const absl::Status& why) {
  const absl::Status asked = mirror_.repair->AskOthers(why);
  if (!asked.ok()) return Broken(asked);
  env_.log.Error(absl::StrCat("version ", mirror_.repair->version(),
                              ": not repaired from this disk: ", why.message(),
                              "; fetching from others"));
  Advance();
}

}  // namespace atolld
