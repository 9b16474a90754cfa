#include "daemon/cli/replica_fetch.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "atoll/v1/admin.pb.h"
#include "atoll/v1/replica.pb.h"
#include "compression/base/status_macros.h"
#include "daemon/env/network.h"
#include "daemon/env/posix_executor.h"
#include "daemon/env/posix_files.h"
#include "daemon/env/process_log.h"
#include "daemon/replica/state/replica.h"
#include "daemon/replica/state/state_digest.h"
#include "daemon/replica/transfer/transfer.h"
#include "daemon/transport/grpc_transport.h"
#include "daemon/transport/tls.h"
#include "membership/history/fragment.h"
#include "membership/history/header.h"
#include "membership/history/payload.h"
#include "membership/history/run_codecs.h"

namespace atolld {
namespace {

constexpr absl::Duration kFailureTimeout = absl::Seconds(10);

// Peers are asked in turn until this many have answered, or until this time has passed.
constexpr size_t kEnoughDonors = 4;
constexpr absl::Duration kLookingTime = absl::Seconds(60);

// A large state over a slow line; donors that stall are given up long before.
constexpr absl::Duration kFetchingTime = absl::Hours(30 * 24);

// The coordinator has the newest entry a moment before all peers have it.
constexpr int kEntryTries = 10;
constexpr absl::Duration kEntryPause = absl::Milliseconds(500);

// A peer that answers, with its newest snapshot.
struct Donating {
  std::string address;
  v1::SnapshotInfo newest;
  uint64_t oldest_entry = 0;  // as the coordinator has heard; 0: not known
};

absl::StatusOr<std::vector<v1::EntryHeader>> AllHeaders(AdminClient& client) {
  std::vector<v1::EntryHeader> headers;
  while (true) {  // a page at a time
    const uint64_t next = headers.empty() ? 1 : headers.back().version() + 1;
    ASSIGN_OR_RETURN(const v1::ListHeadersResponse page, client.ListHeaders(next, 0));
    if (page.headers().empty()) break;
    headers.insert(headers.end(), page.headers().begin(), page.headers().end());
  }
  for (size_t i = 0; i < headers.size(); ++i) {
    if (headers[i].version() == i + 1) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("the coordinator lacks header ", i + 1,
                     ", without which peers cannot be checked; use --from with a peer's folder"));
  }
  return headers;
}

absl::Status NobodyError(const std::string& why) {
  return absl::UnavailableError(
      absl::StrCat("no peer of the run gives its state: ", why,
                   "; run this where a peer works, with --from and that peer's folder"));
}

class Fetching {
 public:
  Fetching(const ReplicaFetch& fetch, PosixExecutor& executor, Env env)
      : fetch_(fetch), executor_(executor), env_(env), client_(fetch.access) {}

  absl::StatusOr<FetchedReplica> Run();

 private:
  absl::Status FindDonors();
  absl::StatusOr<v1::SnapshotInfo> Describe(const std::string& donor,
                                            std::optional<uint64_t> version);
  absl::Status KeepThoseOfTheRun();
  absl::StatusOr<uint64_t> ChooseSnapshot();
  absl::Status Confirm(const v1::SnapshotInfo& info) const;
  absl::StatusOr<uint64_t> FetchSnapshot(uint64_t wanted);
  absl::Status FetchEntries(Replica& replica);
  FetchSource Source() const;

  const ReplicaFetch& fetch_;
  PosixExecutor& executor_;
  const Env env_;
  AdminClient client_;
  v1::RunStatus status_;
  std::vector<v1::EntryHeader> headers_;
  std::vector<Donating> donors_;
  uint64_t target_ = 0;
};

// Returns the donor's first answer; the call is then dropped.
absl::StatusOr<v1::SnapshotInfo> Fetching::Describe(const std::string& donor,
                                                    std::optional<uint64_t> version) {
  const auto told = std::make_shared<std::optional<absl::StatusOr<v1::SnapshotInfo>>>();
  const std::unique_ptr<Call> call =
      env_.transport.Dial(donor, kFetchSnapshotMethod, kFailureTimeout);
  Call::Events events;
  events.on_frame = [told](const Frame& frame) {
    v1::SnapshotBlock answer;
    const absl::Status parsed = Unpack(frame, &answer);
    if (parsed.ok()) {
      *told = answer.info();
    } else {
      *told = parsed;
    }
  };
  events.on_closed = [told](const absl::Status& status) {
    if (told->has_value()) return;
    *told = status.ok() ? absl::UnavailableError("it said nothing") : status;
  };
  call->Start(std::move(events));
  v1::SnapshotRequest request;
  request.set_run_id(status_.spec().run_id());
  request.set_newest(!version.has_value());
  request.set_version(version.value_or(0));
  request.set_without_leaves(version.has_value());
  call->Write(Pack(request));
  call->Read();
  executor_.RunUntil([&] { return told->has_value(); }, 2 * kFailureTimeout);
  if (!told->has_value()) return absl::UnavailableError("it does not answer");
  RETURN_IF_ERROR((*told)->status());
  RETURN_IF_ERROR(CheckSnapshotShape(***told));
  return ***told;
}

absl::Status Fetching::FindDonors() {
  const absl::Time end = executor_.Now() + kLookingTime;
  std::string why = "none of them can be dialled";
  for (const v1::PeerStatus& peer : status_.peers()) {
    const v1::Member& member = peer.member();
    const bool here = member.state() == "live" || member.state() == "joining";
    if (member.address().empty() || !here || !member.has_state()) continue;
    if (donors_.size() >= kEnoughDonors || executor_.Now() > end) break;
    Donating donor;
    donor.address = FormatPeerAddress(member.peer(), member.address());
    absl::StatusOr<v1::SnapshotInfo> newest = Describe(donor.address, std::nullopt);
    if (!newest.ok()) {
      why = absl::StrCat("peer ", member.peer(), " at ", member.address(), ": ",
                         newest.status().message());
      continue;
    }
    donor.newest = *std::move(newest);
    donor.oldest_entry = member.offer().oldest_entry();
    donors_.push_back(std::move(donor));
  }
  return donors_.empty() ? NobodyError(why) : absl::OkStatus();
}

// The first header names the genesis.
absl::Status Fetching::KeepThoseOfTheRun() {
  const std::string& genesis = headers_.front().previous_header_digest();
  const auto other = std::remove_if(donors_.begin(), donors_.end(), [&](const Donating& donor) {
    return ToBytes(GenesisDigest(donor.newest.genesis())) != genesis;
  });
  donors_.erase(other, donors_.end());
  return donors_.empty() ? NobodyError("what they have is of another history") : absl::OkStatus();
}

// Chooses the newest snapshot that leads to the target.
absl::StatusOr<uint64_t> Fetching::ChooseSnapshot() {
  std::optional<uint64_t> best;
  uint64_t oldest = donors_.front().newest.version();
  for (const Donating& donor : donors_) {
    oldest = std::min(oldest, donor.newest.version());
    if (donor.newest.version() <= target_)
      best = std::max(best.value_or(0), donor.newest.version());
  }
  if (best) return *best;
  for (const Donating& donor : donors_) {
    std::vector<uint64_t> older = {target_};
    if (donor.oldest_entry > 0) older.push_back(donor.oldest_entry - 1);
    for (const uint64_t version : older) {
      if (!Describe(donor.address, version).ok()) continue;
      oldest = std::min(oldest, version);
      if (version <= target_) return version;
    }
  }
  return absl::OutOfRangeError(absl::StrCat("no peer of the run can give version ", target_,
                                            " any more: versions ", oldest, " to ",
                                            headers_.back().version(), " are available"));
}

// No header gives the state of the newest version yet: the seal gives it, or the peers' reports.
absl::Status Fetching::Confirm(const v1::SnapshotInfo& info) const {
  const uint64_t version = info.version();
  if (version > target_) return absl::NotFoundError("its snapshot is too new");
  const absl::Status forged = absl::InvalidArgumentError(
      absl::StrCat("its snapshot of version ", version, " is not of this run's history"));
  if (version > 0 && HeaderDigest(info.header()) != HeaderDigest(headers_[version - 1])) {
    return forged;
  }
  if (version < headers_.size()) {
    const bool same = headers_[version].previous_state_digest() == info.state_digest();
    return same ? absl::OkStatus() : forged;
  }
  if (status_.has_seal() && status_.seal().version() == version) {
    return status_.seal().state_digest() == info.state_digest() ? absl::OkStatus() : forged;
  }
  for (const v1::PeerStatus& peer : status_.peers()) {
    if (peer.state_version() != version || peer.state_digest().empty()) continue;
    if (peer.state_digest() != info.state_digest()) return forged;
  }
  return absl::OkStatus();
}

FetchSource Fetching::Source() const {
  const v1::Genesis& genesis = donors_.front().newest.genesis();
  FetchSource source;
  source.run_id = genesis.spec().run_id();
  for (const Donating& donor : donors_) source.donors.push_back(donor.address);
  source.failure_timeout = kFailureTimeout;
  source.spec = genesis.spec();
  const absl::StatusOr<LevelCodecs> codecs = CodecsOf(genesis.spec().exchange());
  const ChunkGrid grid(MostEntryElements(genesis.spec(), genesis.manifest()),
                       genesis.spec().exchange().chunk_elements());
  if (codecs.ok()) source.payload_limit = MaxPayloadBytes(grid, *codecs->means.codec);
  return source;
}

absl::StatusOr<uint64_t> Fetching::FetchSnapshot(uint64_t wanted) {
  std::optional<absl::StatusOr<FetchedSnapshot>> result;
  SnapshotFetch::Events events;
  events.confirm = [this](const v1::SnapshotInfo& info,
                          const std::function<void(absl::Status)>& verdict) {
    verdict(Confirm(info));
  };
  events.on_progress = [this](uint64_t bytes, uint64_t total) {
    if (fetch_.on_progress) fetch_.on_progress(bytes, total);
  };
  events.on_done = [&](absl::StatusOr<FetchedSnapshot> fetched) { result = std::move(fetched); };
  const SnapshotFetch fetch(env_, Source(), fetch_.dir, donors_.front().newest.genesis(), {wanted},
                            std::move(events));
  executor_.RunUntil([&] { return result.has_value(); }, kFetchingTime);
  if (!result.has_value()) return absl::DeadlineExceededError("the snapshot takes too long");
  RETURN_IF_ERROR(result->status());
  return (*result)->version;
}

// Applies the entries from the replica's version to the target, each committed with every check, as
// a peer does it.
absl::Status Fetching::FetchEntries(Replica& replica) {
  absl::Status status;
  for (int tries = 0; tries < kEntryTries && replica.version() < target_; ++tries) {
    std::optional<absl::Status> result;
    EntryFetch::Events events;
    events.on_entry = [&](const Entry& entry, const Task& next) {
      const absl::Status committed = replica.Commit(entry.header, &entry.payload, {});
      if (committed.ok()) return next();
      result = committed;
    };
    events.on_done = [&](absl::Status done) { result = std::move(done); };
    const auto from = headers_.begin() + static_cast<std::ptrdiff_t>(replica.version());
    const auto to = headers_.begin() + static_cast<std::ptrdiff_t>(target_);
    const EntryFetch fetch(env_, Source(), std::vector<v1::EntryHeader>(from, to),
                           std::move(events));
    executor_.RunUntil([&] { return result.has_value(); }, kFetchingTime);
    status = result.value_or(absl::DeadlineExceededError("the entries take too long"));
    if (!absl::IsNotFound(status)) break;
    executor_.RunUntil([] { return false; }, kEntryPause);
  }
  return status;
}

absl::StatusOr<FetchedReplica> Fetching::Run() {
  ASSIGN_OR_RETURN(status_, client_.ShowRun(0, 1));
  if (status_.version() == 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "run ", status_.spec().run_id(), " has no round yet, so there is nothing to go on from"));
  }
  if (fetch_.version && *fetch_.version > status_.version()) {
    return absl::OutOfRangeError(absl::StrCat("run ", status_.spec().run_id(),
                                              " has reached version ", status_.version(), ", not ",
                                              *fetch_.version));
  }
  RETURN_IF_ERROR(FindDonors());
  // After the donors' snapshots, so that they name none which is newer.
  ASSIGN_OR_RETURN(headers_, AllHeaders(client_));
  if (headers_.empty()) return absl::UnavailableError("the coordinator gives no headers");
  RETURN_IF_ERROR(KeepThoseOfTheRun());
  target_ = fetch_.version.value_or(headers_.back().version());
  ASSIGN_OR_RETURN(const uint64_t wanted, ChooseSnapshot());
  ASSIGN_OR_RETURN(const uint64_t snapshot, FetchSnapshot(wanted));
  if (snapshot < target_) {
    std::vector<float> theta;
    ASSIGN_OR_RETURN(const std::unique_ptr<Replica> replica,
                     Replica::Open(env_.files, fetch_.dir, [&theta](uint64_t elements) {
                       theta.resize(elements);
                       return absl::StatusOr<absl::Span<float>>(absl::MakeSpan(theta));
                     }));
    RETURN_IF_ERROR(FetchEntries(*replica));
  }
  return FetchedReplica{target_, std::move(headers_)};
}

}  // namespace

absl::StatusOr<FetchedReplica> FetchReplica(const ReplicaFetch& fetch) {
  // Why a donor was left is in the error, if it comes to that.
  ASSIGN_OR_RETURN(const std::unique_ptr<ProcessLog> log,
                   ProcessLog::Open({Log::Level::kError, "", false}));
  PosixExecutor executor({2, 0});
  PosixFiles files;
  GrpcTransport::Options network;
  network.failure_timeout = kFailureTimeout;
  if (!fetch.access.identity.empty()) network.tls = MakeTlsCredentials(fetch.access.identity);
  GrpcTransport transport(executor, network);
  Fetching fetching(fetch, executor, Env{executor, files, transport, *log});
  return fetching.Run();
}

}  // namespace atolld
