// ReplicaKeeper, what is missing: headers back from the newest one, then entries or a snapshot from
// others.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"
#include "daemon/peer/replica_keeper.h"
#include "membership/history/header.h"
#include "membership/history/run_codecs.h"

namespace atolld {
namespace {

// How often all donors must lack an entry before a whole snapshot is fetched instead, where they
// have not said what they offer: one of them may be a moment behind.
constexpr int kLackingBeforeSnapshot = 4;

constexpr char kNobody[] = "nobody who has more can be asked";

// Headers that are fetched at once: those of a gap beyond it take a snapshot. They are held in
// memory, some hundred bytes each and more with many contributors.
constexpr uint64_t kMostHeadersKept = 16384;

}  // namespace

FetchSource ReplicaKeeper::Source() const {
  FetchSource source;
  source.run_id = genesis_.spec().run_id();
  source.donors = AddressesOf(sync_.donors);
  source.failure_timeout = sync_.failure_timeout;
  source.spec = genesis_.spec();
  const absl::StatusOr<LevelCodecs> codecs = CodecsOf(genesis_.spec().exchange());
  const ChunkGrid grid(genesis_.manifest().elements(), genesis_.spec().exchange().chunk_elements());
  if (codecs.ok() && grid.elements() > 0) {
    source.payload_limit = MaxPayloadBytes(grid, *codecs->means.codec);
  }
  return source;
}

void ReplicaKeeper::FetchMissing() {
  if (broken_ || held_ || opening_ || committing_ || sync_.retry_pending || fetching()) return;
  if (genesis_.state_digest().empty()) return;
  if (repair_ && !repair_->ask_others) return;
  const bool snapshot = repair_ || replica_ == nullptr;
  if (!snapshot && (version_ >= sync_.newest || sync_.announced.count(version_ + 1) != 0)) return;
  if (sync_.donors.empty()) return NoteFailing(kNobody);
  if (snapshot) return FetchSnapshot();
  const bool entries =
      EntryOffered(sync_.donors, version_ + 1) && sync_.newest - version_ <= kMostHeadersKept;
  if (!entries || sync_.lacking >= kLackingBeforeSnapshot) {
    if (SnapshotOffered(sync_.donors, version_ + 1, sync_.newest)) return FetchSnapshot();
    if (!entries) {
      return RetryLater(absl::NotFoundError(
          absl::StrCat("nobody offers entry ", version_ + 1, " or a snapshot after it")));
    }
  }
  FetchChain(version_ + 1, [this](const absl::Status& status) {
    if (status.ok()) return FetchGap();
    // Donors may be a moment behind; only entries that stay away are gone for good.
    sync_.lacking = absl::IsNotFound(status) ? sync_.lacking + 1 : 0;
    env_.log.Info(absl::StrCat(status.message(), "; asking again"));
    RetryLater(status);
  });
}

// The headers from `first` up to one that is known, each vouched for by its successor.
void ReplicaKeeper::FetchChain(uint64_t first, std::function<void(absl::Status)> done) {
  const auto known = sync_.announced.lower_bound(first);
  uint64_t last = version_;
  Digest newest = header_digest_;
  if (known != sync_.announced.end()) {
    if (known->first == first) return done(absl::OkStatus());
    const absl::StatusOr<Digest> previous = DigestFromBytes(known->second.previous_header_digest());
    if (!previous.ok()) return done(absl::InvalidArgumentError("the newest header is broken"));
    last = known->first - 1;
    newest = *previous;
  } else if ((replica_ == nullptr && !repair_) || last < first) {
    return done(absl::UnavailableError("no later header is known yet"));
  }
  if (last - first >= kMostHeadersKept) {
    return done(absl::NotFoundError(absl::StrCat("header ", first, " lies too far back")));
  }
  sync_.chain = std::make_unique<ChainFetch>(
      env_, Source(), first, last, newest,
      guard_.Wrap([this, done = std::move(done)](absl::StatusOr<std::vector<ChainLink>> links) {
        sync_.chain.reset();
        if (!links.ok()) return done(links.status());
        for (ChainLink& link : *links) {
          sync_.payload_bytes[link.header.version()] = link.payload_bytes;
          sync_.announced[link.header.version()] = std::move(link.header);
        }
        done(absl::OkStatus());
      }));
}

// Every header up to the newest is known; the payloads are not here.
void ReplicaKeeper::FetchGap() {
  if (broken_ || fetching() || repair_) return;
  if (sync_.donors.empty()) return NoteFailing(kNobody);
  std::vector<v1::EntryHeader> headers;
  for (auto it = sync_.announced.find(version_ + 1); it != sync_.announced.end(); ++it) {
    if (it->first != version_ + 1 + headers.size()) break;
    headers.push_back(it->second);
  }
  if (headers.empty()) return Advance();
  const bool gone =
      sync_.lacking >= kLackingBeforeSnapshot || !EntryOffered(sync_.donors, version_ + 1);
  const bool other = SnapshotOffered(sync_.donors, version_ + 1, sync_.newest);
  if (other && (gone || SnapshotIsCheaper(headers))) return FetchSnapshot();
  FetchEntries(std::move(headers));
}

// Of the entries of this run one is about as long as another, where nobody has told.
uint64_t ReplicaKeeper::EntryBytes(uint64_t version) const {
  const auto told = sync_.payload_bytes.find(version);
  return told != sync_.payload_bytes.end() ? told->second : Source().payload_limit;
}

bool ReplicaKeeper::SnapshotIsCheaper(absl::Span<const v1::EntryHeader> headers) const {
  const std::vector<uint64_t> offered = SnapshotsOffered(sync_.donors, version_ + 1, sync_.newest);
  if (offered.empty()) return false;
  uint64_t entries = 0;
  uint64_t tail = 0;
  for (const v1::EntryHeader& header : headers) {
    const uint64_t bytes = EntryBytes(header.version());
    entries += bytes;
    if (header.version() > offered.front()) tail += bytes;
  }
  return SnapshotBytes(genesis_) + tail < entries;
}

void ReplicaKeeper::FetchEntries(std::vector<v1::EntryHeader> headers) {
  const uint64_t first = headers.front().version();
  const uint64_t last = headers.back().version();
  uint64_t bytes = 0;
  for (const v1::EntryHeader& header : headers) bytes += EntryBytes(header.version());
  // One that trains nothing follows so, entry by entry: that is no news.
  const Log::Level level = first == last ? Log::Level::kDebug : Log::Level::kInfo;
  env_.log.Write(level,
                 absl::StrCat("round ", first, ": fetching entries ", first, " to ", last, ", ",
                              FormatBytes(bytes), ", from ", sync_.donors.size(), " peers"));
  EntryFetch::Events events;
  events.on_entry = guard_.Wrap([this](Entry entry, Task next) {
    sync_.failing.reset();
    if (entry.header.version() != version_ + 1) return next();
    Task commit = [this, entry, next] { CommitNext(entry.header, entry.payload, next); };
    if (!held_) return commit();
    sync_.deferred = std::move(commit);
  });
  events.on_done = guard_.Wrap([this, first, last, level](absl::Status status) {
    const uint64_t received = sync_.entries->received_bytes();
    const size_t used = sync_.entries->donors_used();
    EndFetch();
    if (status.ok()) {
      env_.log.Write(level,
                     absl::StrCat("fetched entries ", first, " to ", last, " from ", used,
                                  " peers: ", FormatBytes(received), " instead of a snapshot of ",
                                  FormatBytes(SnapshotBytes(genesis_))));
      return Advance();
    }
    sync_.lacking = absl::IsNotFound(status) ? sync_.lacking + 1 : 0;
    env_.log.Warning(absl::StrCat("entries: ", status.message(), "; asking again"));
    RetryLater(status);
  });
  sync_.entries =
      std::make_unique<EntryFetch>(env_, Source(), std::move(headers), std::move(events));
}

void ReplicaKeeper::FetchSnapshot() {
  const uint64_t oldest = replica_ != nullptr && !repair_ ? version_ + 1 : 0;
  std::vector<uint64_t> wanted = SnapshotsOffered(sync_.donors, oldest, sync_.newest);
  env_.log.Info(absl::StrCat(
      "fetching ",
      wanted.empty() ? "the newest snapshot" : absl::StrCat("the snapshot of version ", wanted[0]),
      " from ", sync_.donors.size(), " peers"));
  SnapshotFetch::Events events;
  events.confirm =
      guard_.Wrap([this](const v1::SnapshotInfo& info, std::function<void(absl::Status)> verdict) {
        Confirm(info, std::move(verdict));
      });
  events.on_progress = guard_.Wrap([this](uint64_t bytes, uint64_t) {
    if (bytes <= sync_.snapshot_bytes) return;  // it was here already, from an earlier fetch
    sync_.snapshot_bytes = bytes;
    sync_.failing.reset();
  });
  events.on_done = guard_.Wrap([this](absl::StatusOr<FetchedSnapshot> fetched) {
    sync_.snapshot.reset();
    sync_.chain.reset();
    if (!fetched.ok()) {
      env_.log.Warning(absl::StrCat(fetched.status().message(), "; asking again"));
      return RetryLater(fetched.status());
    }
    env_.log.Info(absl::StrCat("fetched the snapshot of version ", fetched->version, " from ",
                               fetched->donors, " peers: ", FormatBytes(fetched->received_bytes),
                               " of ", FormatBytes(fetched->bytes), ", ", fetched->blocks_fetched,
                               " of ", fetched->blocks, " blocks; the others were here"));
    if (repair_) {
      ++repair_->fetches;
      repair_->fetched_version = fetched->version;
      repair_->ask_others = false;
    }
    sync_.lacking = 0;
    sync_.snapshot_bytes = 0;
    sync_.failing.reset();
    Reopen();
  });
  sync_.snapshot = std::make_unique<SnapshotFetch>(env_, Source(), dir_, genesis_,
                                                   std::move(wanted), std::move(events));
}

// The snapshot is one of the run's history if the header after it names its state and its header.
void ReplicaKeeper::Confirm(const v1::SnapshotInfo& info,
                            std::function<void(absl::Status)> verdict) {
  const uint64_t version = info.version();
  if (version > sync_.newest) {
    return verdict(absl::InvalidArgumentError(absl::StrCat(
        "its snapshot is of version ", version, ", the run has reached ", sync_.newest)));
  }
  if (replica_ != nullptr && !repair_ && version <= version_) {
    return verdict(absl::NotFoundError(
        absl::StrCat("its snapshot of version ", version, " leads to nothing new")));
  }
  // That of version 0 is the genesis' own (CheckSnapshotInfo); after the newest there is no header.
  if (version == 0 || version == sync_.newest) return verdict(CompareState(info));
  FetchChain(version + 1, [this, info, verdict = std::move(verdict)](const absl::Status& status) {
    if (status.ok()) return verdict(CompareState(info));
    if (!absl::IsNotFound(status)) {
      return verdict(absl::UnavailableError(
          absl::StrCat("version ", info.version(), " cannot be confirmed: ", status.message())));
    }
    // Without the entries after it, it leads nowhere.
    verdict(absl::NotFoundError(
        absl::StrCat("nobody holds the entries after version ", info.version())));
  });
}

// INVALID_ARGUMENT: another history's. What cannot be known yet is believed: the next header tells,
// and a replica that it contradicts is repaired.
absl::Status ReplicaKeeper::CompareState(const v1::SnapshotInfo& info) const {
  const absl::Status forged = absl::InvalidArgumentError(
      absl::StrCat("its snapshot of version ", info.version(), " is not of this run's history"));
  if (info.version() == 0) return absl::OkStatus();
  const std::string header = ToBytes(HeaderDigest(info.header()));
  const auto next = sync_.announced.find(info.version() + 1);
  if (next != sync_.announced.end() &&
      (next->second.previous_state_digest() != info.state_digest() ||
       next->second.previous_header_digest() != header)) {
    return forged;
  }
  const auto same = sync_.announced.find(info.version());
  if (same != sync_.announced.end() && ToBytes(HeaderDigest(same->second)) != header) return forged;
  if (replica_ != nullptr && info.version() == version_ && header != ToBytes(header_digest_)) {
    return forged;
  }
  if (repair_ && repair_->expected && info.version() == repair_->version &&
      info.state_digest() != ToBytes(*repair_->expected)) {
    return forged;
  }
  return absl::OkStatus();
}

void ReplicaKeeper::EndFetch() {
  sync_.entries.reset();
  sync_.deferred = nullptr;
}

}  // namespace atolld
