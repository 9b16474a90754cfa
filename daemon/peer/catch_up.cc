#include "daemon/peer/catch_up.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compression/base/check.h"
#include "compression/base/planted_bug.h"
#include "compression/base/status_macros.h"
#include "compression/base/words.h"
#include "membership/history/fragment.h"
#include "membership/history/header.h"
#include "membership/history/run_codecs.h"
#include "membership/history/state_buffers.h"

namespace atolld {
namespace {

// The pause before the donors are asked again. All of them may be busy, away or one version behind
// for a moment.
constexpr absl::Duration kFetchPause = absl::Milliseconds(500);

// How often all donors must lack an entry before a whole snapshot is fetched instead, if they have
// made no offers. One of them may be a moment behind.
constexpr int kLackingBeforeSnapshot = 4;

// The same number for the case that some donors lack the entry and none of the others gave it. One
// of these may only be busy, but a donor that never answers must not keep a replica from fetching
// the others' snapshots.
constexpr int kPartlyLackingBeforeSnapshot = 8;

constexpr char kNobody[] = "no peer that has more can be asked";

// The most headers that are fetched at once; for a longer gap a snapshot is fetched. They are held
// in memory and take some hundred bytes each, or more with many contributors.
constexpr uint64_t kMostHeadersKept = 16384;

std::string HexOf(const std::string& digest) {
  const absl::StatusOr<Digest> parsed = DigestFromBytes(digest);
  return parsed.ok() ? ToHex(*parsed) : "none";
}

}  // namespace

std::vector<std::string> AddressesOf(absl::Span<const FetchDonor> donors) {
  std::vector<std::string> addresses;
  for (const FetchDonor& donor : donors) addresses.push_back(donor.address);
  return addresses;
}

std::vector<uint64_t> SnapshotsOffered(absl::Span<const FetchDonor> donors, uint64_t oldest,
                                       uint64_t newest) {
  std::map<uint64_t, size_t> offered;
  for (const FetchDonor& donor : donors) {
    if (!donor.offer || !donor.offer->has_snapshot()) continue;
    const uint64_t version = donor.offer->snapshot_version();
    if (version >= oldest && version <= newest) ++offered[version];
  }
  size_t most = 0;
  for (const auto& [version, count] : offered) most = std::max(most, count);
  std::vector<uint64_t> versions;
  for (auto it = offered.rbegin(); it != offered.rend(); ++it) versions.push_back(it->first);
  const auto best = std::find_if(versions.begin(), versions.end(),
                                 [&](uint64_t version) { return 2 * offered[version] >= most; });
  if (best != versions.end()) std::rotate(versions.begin(), best, best + 1);
  return versions;
}

bool EntryOffered(absl::Span<const FetchDonor> donors, uint64_t version) {
  return std::any_of(donors.begin(), donors.end(), [version](const FetchDonor& donor) {
    if (!donor.offer) return true;
    return donor.offer->oldest_entry() > 0 && donor.offer->oldest_entry() <= version;
  });
}

bool SnapshotOffered(absl::Span<const FetchDonor> donors, uint64_t oldest, uint64_t newest) {
  return std::any_of(donors.begin(), donors.end(),
                     [](const FetchDonor& donor) { return !donor.offer.has_value(); }) ||
         !SnapshotsOffered(donors, oldest, newest).empty();
}

uint64_t SnapshotBytes(const v1::Genesis& genesis) {
  const absl::StatusOr<std::vector<std::string>> buffers = StateBuffers(genesis.spec());
  CHECK_OK(buffers.status());
  return genesis.manifest().elements() * sizeof(float) * (1 + buffers->size());
}

std::string FormatBytes(uint64_t bytes) {
  if (bytes < 1000) return absl::StrCat(bytes, " B");
  if (bytes < 100000) return absl::StrFormat("%.1f kB", static_cast<double>(bytes) / 1e3);
  return absl::StrFormat("%.1f MB", static_cast<double>(bytes) / 1e6);
}

absl::Status ForkedError(uint64_t version, const std::string& told, const std::string& here) {
  return absl::FailedPreconditionError(absl::StrCat("the history is forked: version ", version,
                                                    " has header ", told, ", here it is ", here));
}

CatchUp::CatchUp(Env env, std::string dir, const ReplicaMirror& replica, Events events)
    : env_(env),
      dir_(std::move(dir)),
      replica_(replica),
      events_(std::move(events)),
      lines_(std::make_shared<RepeatedLines>(env.executor, env.log)) {}

CatchUp::~CatchUp() = default;

void CatchUp::SetDonors(std::vector<FetchDonor> donors, absl::Duration failure_timeout) {
  donors_ = std::move(donors);
  failure_timeout_ = failure_timeout;
  // Donors that have come since can help with the fetch under way.
  if (chain_ != nullptr) chain_->SetDonors(AddressesOf(donors_));
  if (entries_ != nullptr) entries_->SetDonors(AddressesOf(donors_));
  if (snapshot_ != nullptr) snapshot_->SetDonors(AddressesOf(donors_));
}

void CatchUp::OnTold(const v1::EntryHeader& header) {
  OnNewest(header.version());
  announced_[header.version()] = header;
}

void CatchUp::OnNewest(uint64_t version) { newest_ = std::max(newest_, version); }

const v1::EntryHeader* CatchUp::Known(uint64_t version) const {
  const auto known = announced_.find(version);
  return known == announced_.end() ? nullptr : &known->second;
}

void CatchUp::OnMoved() {
  failing_.reset();
  OnNewest(replica_.version);
  announced_.erase(announced_.begin(), announced_.upper_bound(replica_.version));
  payload_bytes_.erase(payload_bytes_.begin(), payload_bytes_.upper_bound(replica_.version));
}

bool CatchUp::Release() {
  if (!deferred_) return false;
  std::exchange(deferred_, nullptr)();
  return true;
}

void CatchUp::Forget() {
  End();
  announced_.clear();
  payload_bytes_.clear();
  newest_ = replica_.version;
}

void CatchUp::End() {
  EndEntries();
  chain_.reset();
  snapshot_.reset();
}

void CatchUp::NoteFailing(const std::string& why) {
  if (!failing_) failing_ = FetchFailure{env_.executor.Now(), ""};
  failing_->why = why;
}

// Logs that a fetch begins. Repeated attempts are logged only from time to time.
void CatchUp::SayBegun(Log::Level level, const std::string& line) {
  if (!failing_) return env_.log.Write(level, line);
  lines_->Write(level, WithoutNumbers(line), line);
}

void CatchUp::SayAgain(Log::Level level, const std::string& line) {
  lines_->Write(level, WithoutNumbers(line), absl::StrCat(line, "; asking again"));
}

void CatchUp::RetryLater(const absl::Status& why) {
  NoteFailing(std::string(why.message()));
  if (std::exchange(retry_pending_, true)) return;
  env_.executor.RunAfter(kFetchPause, guard_.Wrap([this] {
    retry_pending_ = false;
    events_.on_change();
  }));
}

// Checks the header by itself, and against its neighbours as far as they are known.
absl::Status CatchUp::CheckTold(const v1::EntryHeader& header) const {
  const uint64_t version = header.version();
  if (replica_.genesis.state_digest().empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("entry ", version, ": the run's version 0 is not known yet"));
  }
  RETURN_IF_ERROR(CheckHeaderAlone(replica_.genesis, header));
  if (Planted(PlantedBug::kHeaderChainNotChecked)) return absl::OkStatus();
  const Digest digest = HeaderDigest(header);
  if (replica_.has_state()) {
    const std::string held = ToBytes(replica_.header_digest);
    if (version == replica_.version && ToBytes(digest) != held) {
      return ForkedError(version, ToHex(digest), ToHex(replica_.header_digest));
    }
    if (version == replica_.version + 1 && header.previous_header_digest() != held) {
      return ForkedError(replica_.version, HexOf(header.previous_header_digest()),
                         ToHex(replica_.header_digest));
    }
  }
  const auto same = announced_.find(version);
  if (same != announced_.end() && HeaderDigest(same->second) != digest) {
    return ForkedError(version, ToHex(digest), ToHex(HeaderDigest(same->second)));
  }
  const auto before = announced_.find(version - 1);
  if (before != announced_.end() &&
      ToBytes(HeaderDigest(before->second)) != header.previous_header_digest()) {
    return ForkedError(version - 1, HexOf(header.previous_header_digest()),
                       ToHex(HeaderDigest(before->second)));
  }
  const auto after = announced_.find(version + 1);
  if (after != announced_.end() && after->second.previous_header_digest() != ToBytes(digest)) {
    return ForkedError(version, ToHex(digest), HexOf(after->second.previous_header_digest()));
  }
  return absl::OkStatus();
}

FetchSource CatchUp::Source() const {
  FetchSource source;
  source.run_id = replica_.genesis.spec().run_id();
  source.donors = AddressesOf(donors_);
  source.failure_timeout = failure_timeout_;
  source.spec = replica_.genesis.spec();
  source.lines = lines_;
  source.on_failed = events_.on_donor_failed;
  const absl::StatusOr<LevelCodecs> codecs = CodecsOf(replica_.genesis.spec().exchange());
  const ChunkGrid grid(MostEntryElements(replica_.genesis.spec(), replica_.genesis.manifest()),
                       replica_.genesis.spec().exchange().chunk_elements());
  if (codecs.ok() && grid.elements() > 0) {
    source.payload_limit = MaxPayloadBytes(grid, *codecs->means.codec);
  }
  return source;
}

void CatchUp::Fetch() {
  if (replica_.broken || replica_.held || replica_.opening || replica_.committing) return;
  if (retry_pending_ || fetching()) return;
  if (replica_.genesis.state_digest().empty()) return;
  if (replica_.repair && !replica_.repair->asks_others()) return;
  const bool snapshot = replica_.repair || !replica_.present;
  if (!snapshot && (!behind() || Known(replica_.version + 1) != nullptr)) return;
  if (donors_.empty()) return NoteFailing(kNobody);
  if (snapshot) return FetchSnapshot();
  const bool entries =
      EntryOffered(donors_, replica_.version + 1) && newest_ - replica_.version <= kMostHeadersKept;
  if (!entries || EntryIsGone()) {
    if (SnapshotOffered(donors_, replica_.version + 1, newest_)) return FetchSnapshot();
    if (!entries) {
      return RetryLater(absl::NotFoundError(
          absl::StrCat("nobody offers entry ", replica_.version + 1, " or a snapshot after it")));
    }
  }
  FetchChain(replica_.version + 1, [this](const absl::Status& status) {
    if (status.ok()) return FetchGap();
    // Donors may be a moment behind. Only if they lack the entry again and again is it gone for
    // good.
    CountLacking(status);
    SayAgain(Log::Level::kInfo, std::string(status.message()));
    RetryLater(status);
  });
}

void CatchUp::CountLacking(const absl::Status& status) {
  lacking_ += absl::IsNotFound(status) ? 1 : 0;
  partly_lacking_ += absl::IsAborted(status) ? 1 : 0;
}

bool CatchUp::EntryIsGone() const {
  return lacking_ >= kLackingBeforeSnapshot || partly_lacking_ >= kPartlyLackingBeforeSnapshot;
}

// Fetches the headers from `first` up to one that is known. Each is confirmed by its successor.
void CatchUp::FetchChain(uint64_t first, std::function<void(absl::Status)> done) {
  const auto known = announced_.lower_bound(first);
  uint64_t last = replica_.version;
  Digest newest = replica_.header_digest;
  if (known != announced_.end()) {
    if (known->first == first) return done(absl::OkStatus());
    const absl::StatusOr<Digest> previous = DigestFromBytes(known->second.previous_header_digest());
    if (!previous.ok()) return done(absl::InvalidArgumentError("the newest header is broken"));
    last = known->first - 1;
    newest = *previous;
  } else if ((!replica_.present && !replica_.repair) || last < first) {
    return done(absl::UnavailableError("no later header is known yet"));
  }
  if (last - first >= kMostHeadersKept) {
    return done(absl::NotFoundError(absl::StrCat("header ", first, " lies too far back")));
  }
  chain_ = std::make_unique<ChainFetch>(
      env_, Source(), first, last, newest,
      guard_.Wrap([this, done = std::move(done)](absl::StatusOr<std::vector<ChainLink>> links) {
        chain_.reset();
        if (!links.ok()) return done(links.status());
        for (ChainLink& link : *links) {
          payload_bytes_[link.header.version()] = link.payload_bytes;
          announced_[link.header.version()] = std::move(link.header);
        }
        done(absl::OkStatus());
      }));
}

// Called when every header up to the newest is known and only payloads are missing.
void CatchUp::FetchGap() {
  if (replica_.broken || fetching() || replica_.repair) return;
  if (donors_.empty()) return NoteFailing(kNobody);
  std::vector<v1::EntryHeader> headers;
  for (auto it = announced_.find(replica_.version + 1); it != announced_.end(); ++it) {
    if (it->first != replica_.version + 1 + headers.size()) break;
    headers.push_back(it->second);
  }
  if (headers.empty()) return events_.on_change();
  const bool gone = EntryIsGone() || !EntryOffered(donors_, replica_.version + 1);
  const bool other = SnapshotOffered(donors_, replica_.version + 1, newest_);
  if (other && (gone || SnapshotIsCheaper(headers))) return FetchSnapshot();
  FetchEntries(std::move(headers));
}

// Returns the size of an entry. If no donor has reported it, assumes that the run's entries have
// about the same size.
uint64_t CatchUp::EntryBytes(uint64_t version) const {
  const auto told = payload_bytes_.find(version);
  return told != payload_bytes_.end() ? told->second : Source().payload_limit;
}

bool CatchUp::SnapshotIsCheaper(absl::Span<const v1::EntryHeader> headers) const {
  const std::vector<uint64_t> offered = SnapshotsOffered(donors_, replica_.version + 1, newest_);
  if (offered.empty()) return false;
  uint64_t entries = 0;
  uint64_t tail = 0;
  for (const v1::EntryHeader& header : headers) {
    const uint64_t bytes = EntryBytes(header.version());
    entries += bytes;
    if (header.version() > offered.front()) tail += bytes;
  }
  return SnapshotBytes(replica_.genesis) + tail < entries;
}

void CatchUp::FetchEntries(std::vector<v1::EntryHeader> headers) {
  const uint64_t first = headers.front().version();
  const uint64_t last = headers.back().version();
  uint64_t bytes = 0;
  for (const v1::EntryHeader& header : headers) bytes += EntryBytes(header.version());
  // A peer that trains nothing follows the run in this way, entry by entry, so this is not worth a
  // line.
  const Log::Level level = first == last ? Log::Level::kDebug : Log::Level::kInfo;
  SayBegun(level, absl::StrCat("round ", first, ": fetching entries ", first, " to ", last, ", ",
                               FormatBytes(bytes), ", from ", Counted(donors_.size(), "peer")));
  EntryFetch::Events events;
  events.on_entry = guard_.Wrap([this](Entry entry, Task next) {
    failing_.reset();
    if (entry.header.version() != replica_.version + 1) return next();
    Task commit = [this, entry, next] { events_.on_entry(entry, next); };
    if (!replica_.held) return commit();
    deferred_ = std::move(commit);
  });
  events.on_done = guard_.Wrap([this, first, last, level](absl::Status status) {
    const uint64_t received = entries_->received_bytes();
    const size_t used = entries_->donors_used();
    EndEntries();
    if (status.ok()) {
      env_.log.Write(level, absl::StrCat("fetched entries ", first, " to ", last, " from ",
                                         Counted(used, "peer"), ": ", FormatBytes(received),
                                         " instead of a snapshot of ",
                                         FormatBytes(SnapshotBytes(replica_.genesis))));
      return events_.on_change();
    }
    CountLacking(status);
    SayAgain(Log::Level::kWarning, absl::StrCat("entries: ", status.message()));
    RetryLater(status);
  });
  entries_ = std::make_unique<EntryFetch>(env_, Source(), std::move(headers), std::move(events));
}

void CatchUp::FetchSnapshot() {
  const uint64_t oldest = replica_.present && !replica_.repair ? replica_.version + 1 : 0;
  std::vector<uint64_t> wanted = SnapshotsOffered(donors_, oldest, newest_);
  SayBegun(Log::Level::kInfo,
           absl::StrCat("fetching ",
                        wanted.empty() ? "the newest snapshot"
                                       : absl::StrCat("the snapshot of version ", wanted[0]),
                        " from ", Counted(donors_.size(), "peer")));
  SnapshotFetch::Events events;
  events.confirm =
      guard_.Wrap([this](const v1::SnapshotInfo& info, std::function<void(absl::Status)> verdict) {
        Confirm(info, std::move(verdict));
      });
  events.on_progress = guard_.Wrap([this](uint64_t bytes, uint64_t) {
    if (bytes <= snapshot_bytes_) return;  // an earlier fetch has already got so far
    snapshot_bytes_ = bytes;
    failing_.reset();
  });
  events.on_done =
      guard_.Wrap([this](absl::StatusOr<FetchedSnapshot> fetched) { OnSnapshot(fetched); });
  snapshot_ = std::make_unique<SnapshotFetch>(env_, Source(), dir_, replica_.genesis,
                                              std::move(wanted), std::move(events));
}

void CatchUp::OnSnapshot(const absl::StatusOr<FetchedSnapshot>& fetched) {
  snapshot_.reset();
  chain_.reset();
  if (!fetched.ok()) {
    SayAgain(Log::Level::kWarning, std::string(fetched.status().message()));
    return RetryLater(fetched.status());
  }
  env_.log.Info(absl::StrCat("fetched the snapshot of version ", fetched->version, " from ",
                             Counted(fetched->donors, "peer"), ": ",
                             FormatBytes(fetched->received_bytes), " of ",
                             FormatBytes(fetched->bytes), ", ", fetched->blocks_fetched, " of ",
                             Counted(fetched->blocks, "block"), "; the others were here"));
  OnCommitted();
  snapshot_bytes_ = 0;
  failing_.reset();
  events_.on_snapshot(fetched->version);
}

// Confirms that the snapshot is one of the run's history: the header after it must name its state
// and its header.
void CatchUp::Confirm(const v1::SnapshotInfo& info, std::function<void(absl::Status)> verdict) {
  const uint64_t version = info.version();
  if (version > newest_) {
    return verdict(absl::InvalidArgumentError(
        absl::StrCat("its snapshot is of version ", version, ", the run has reached ", newest_)));
  }
  if (replica_.present && !replica_.repair && version <= replica_.version) {
    return verdict(absl::NotFoundError(
        absl::StrCat("its snapshot of version ", version, " leads to nothing new")));
  }
  // The state of version 0 is the genesis's (CheckSnapshotInfo). After the newest version there is
  // no header to check against.
  if (version == 0 || version == newest_) return verdict(CompareState(info));
  FetchChain(version + 1, [this, info, verdict = std::move(verdict)](const absl::Status& status) {
    if (status.ok()) return verdict(CompareState(info));
    if (!absl::IsNotFound(status)) {
      return verdict(absl::UnavailableError(
          absl::StrCat("version ", info.version(), " cannot be confirmed: ", status.message())));
    }
    // Without the entries after it, the snapshot is useless.
    verdict(absl::NotFoundError(
        absl::StrCat("nobody holds the entries after version ", info.version())));
  });
}

// Fails with INVALID_ARGUMENT if the snapshot belongs to another history. If this is not known yet,
// the snapshot is accepted; if the next header contradicts it, the replica is repaired.
absl::Status CatchUp::CompareState(const v1::SnapshotInfo& info) const {
  const absl::Status forged = absl::InvalidArgumentError(
      absl::StrCat("its snapshot of version ", info.version(), " is not of this run's history"));
  if (info.version() == 0) return absl::OkStatus();
  const std::string header = ToBytes(HeaderDigest(info.header()));
  const auto next = announced_.find(info.version() + 1);
  if (next != announced_.end() && (next->second.previous_state_digest() != info.state_digest() ||
                                   next->second.previous_header_digest() != header)) {
    return forged;
  }
  const auto same = announced_.find(info.version());
  if (same != announced_.end() && ToBytes(HeaderDigest(same->second)) != header) return forged;
  if (replica_.present && info.version() == replica_.version &&
      header != ToBytes(replica_.header_digest)) {
    return forged;
  }
  if (replica_.repair && replica_.repair->expected() &&
      info.version() == replica_.repair->version() &&
      info.state_digest() != ToBytes(*replica_.repair->expected())) {
    return forged;
  }
  return absl::OkStatus();
}

void CatchUp::EndEntries() {
  entries_.reset();
  deferred_ = nullptr;
}

}  // namespace atolld
