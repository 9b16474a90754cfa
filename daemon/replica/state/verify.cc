#include "daemon/replica/state/verify.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compression/base/status_macros.h"
#include "daemon/replica/state/layout.h"
#include "daemon/replica/state/record.h"
#include "daemon/replica/state/replay.h"
#include "daemon/replica/state/snapshot.h"
#include "daemon/replica/state/snapshot_build.h"
#include "daemon/replica/state/update_log.h"
#include "membership/history/header.h"

namespace atolld {
namespace {

class Verification {
 public:
  Verification(Files& files, const std::string& dir) : files_(files), dir_(dir) {}

  absl::StatusOr<VerifyReport> Run() {
    RETURN_IF_ERROR(Open());
    RETURN_IF_ERROR(CheckLogIsWhole());
    RETURN_IF_ERROR(CheckOlderHeaders());
    while (replay_->version() < replay_->last_version()) {
      RETURN_IF_ERROR(replay_->Next().status());
      RETURN_IF_ERROR(CheckSnapshot(replay_->version()));
    }
    VerifyReport report;
    report.first_version = base_version_;
    report.version = replay_->version();
    report.state_digest = replay_->state_digest();
    ASSIGN_OR_RETURN(report.sealed, CheckSeal());
    return report;
  }

 private:
  absl::Status Open() {
    RETURN_IF_ERROR(ReadGenesis(files_, dir_).status());
    // Before the log: one that is prepared meanwhile is no fault.
    ASSIGN_OR_RETURN(payloads_, ListPayloads(files_, dir_));
    ASSIGN_OR_RETURN(snapshots_, ListSnapshots(files_, dir_));
    if (snapshots_.empty()) {
      return absl::DataLossError(absl::StrCat(SnapshotsDirectory(dir_), ": no snapshot is left"));
    }
    base_version_ = snapshots_.front();
    ASSIGN_OR_RETURN(std::unique_ptr<SnapshotReader> base,
                     SnapshotReader::OpenVersion(files_, dir_, base_version_));
    ASSIGN_OR_RETURN(replay_, LogReplay::Open(files_, dir_, std::move(base)));
    return absl::OkStatus();
  }

  absl::Status CheckLogIsWhole() {
    const LogReader& log = replay_->log();
    const uint64_t last = replay_->last_version();
    if (log.torn()) {
      return EntryFault(last + 1, HeadersPath(dir_),
                        absl::StrCat("offset ", log.end(), ": the record is cut short"));
    }
    if ((!payloads_.empty() && payloads_.back() > last + 1) || snapshots_.back() > last) {
      return EntryFault(last + 1, HeadersPath(dir_),
                        absl::StrCat("offset ", log.end(), ": its header is missing"));
    }
    return absl::OkStatus();
  }

  // Headers whose payloads were dropped still have to be a chain that leads to the oldest snapshot.
  absl::Status CheckOlderHeaders() {
    const LogReader& log = replay_->log();
    if (log.empty() || log.first_version() > base_version_) return absl::OkStatus();
    Digest previous = GenesisDigest(replay_->genesis());
    for (uint64_t version = log.first_version(); version <= base_version_; ++version) {
      ASSIGN_OR_RETURN(const v1::EntryHeader header, log.ReadHeader(version));
      if (version == log.first_version() && version > 1) {
        const absl::StatusOr<Digest> claimed = DigestFromBytes(header.previous_header_digest());
        if (!claimed.ok())
          return EntryFault(version, HeadersPath(dir_), claimed.status().message());
        previous = *claimed;
      }
      const absl::Status chain = CheckHeader(replay_->genesis(), version - 1, previous, header);
      if (!chain.ok()) return EntryFault(version, HeadersPath(dir_), chain.message());
      previous = HeaderDigest(header);
    }
    if (previous == replay_->header_digest()) return absl::OkStatus();
    return EntryFault(
        base_version_, HeadersPath(dir_),
        absl::StrCat("its header is not the one in ", SnapshotPath(dir_, base_version_)));
  }

  absl::Status CheckSnapshot(uint64_t version) {
    if (!std::binary_search(snapshots_.begin(), snapshots_.end(), version)) {
      return absl::OkStatus();
    }
    const std::string path = SnapshotPath(dir_, version);
    ASSIGN_OR_RETURN(const std::unique_ptr<SnapshotReader> snapshot,
                     SnapshotReader::Open(files_, path));
    const v1::SnapshotInfo& info = snapshot->info();
    if (info.version() != version || info.state_digest() != ToBytes(replay_->state_digest()) ||
        HeaderDigest(info.header()) != replay_->header_digest() ||
        GenesisDigest(info.genesis()) != GenesisDigest(replay_->genesis())) {
      return EntryFault(version, path, "the snapshot is not the state that the log leads to");
    }
    return snapshot->CheckBlocks();
  }

  absl::StatusOr<bool> CheckSeal() {
    const std::string path = SealPath(dir_);
    v1::Seal seal;
    const absl::Status status = ReadMessageFile(files_, path, &seal);
    if (absl::IsNotFound(status)) return false;
    RETURN_IF_ERROR(Annotate(status, "seal"));
    const absl::Status vouched = CheckSigned(replay_->genesis().spec(), seal);
    if (!vouched.ok()) return EntryFault(replay_->version(), path, vouched.message());
    if (seal.run_id() != replay_->genesis().spec().run_id() ||
        seal.version() != replay_->version() ||
        seal.header_digest() != ToBytes(replay_->header_digest()) ||
        seal.state_digest() != ToBytes(replay_->state_digest())) {
      return EntryFault(replay_->version(), path,
                        "the seal is not that of the state that the log leads to");
    }
    return true;
  }

  Files& files_;
  const std::string& dir_;
  std::vector<uint64_t> payloads_;
  std::vector<uint64_t> snapshots_;
  uint64_t base_version_ = 0;
  std::unique_ptr<LogReplay> replay_;
};

absl::StatusOr<MaterializedSnapshot> Materialize(Files& files, const std::string& dir,
                                                 const std::string& out_path,
                                                 std::optional<uint64_t> wanted) {
  MaterializedSnapshot result;
  ASSIGN_OR_RETURN(result.genesis, ReadGenesis(files, dir));
  ASSIGN_OR_RETURN(result.version, CoveredVersion(files, dir, wanted));
  ASSIGN_OR_RETURN(std::unique_ptr<SnapshotReader> base, FindSnapshot(files, dir, result.version));
  RETURN_IF_ERROR(BuildSnapshot(files, dir, std::move(base), result.version, out_path));
  ASSIGN_OR_RETURN(const std::unique_ptr<SnapshotReader> made,
                   SnapshotReader::Open(files, out_path));
  result.path = out_path;
  result.theta_offset = made->theta_offset();
  result.elements = result.genesis.manifest().elements();
  ASSIGN_OR_RETURN(result.state_digest, DigestFromBytes(made->info().state_digest()));
  return result;
}

// Returns the version to which the log leads from `version`, by headers and payloads that are both
// here.
uint64_t LeadsTo(const LogReader& log, const std::vector<uint64_t>& payloads, uint64_t version) {
  uint64_t last = version;
  for (const uint64_t payload : payloads) {
    const bool header =
        !log.empty() && payload >= log.first_version() && payload <= log.last_version();
    if (payload == last + 1 && header) last = payload;
  }
  return last;
}

absl::StatusOr<ChainWord> AskChain(const LogReader& log, const v1::SnapshotInfo& info) {
  const absl::StatusOr<v1::EntryHeader> own = log.ReadHeader(info.version());
  if (own.ok() && HeaderDigest(*own) != HeaderDigest(info.header())) {
    return ChainWord::kContradicted;
  }
  const absl::StatusOr<v1::EntryHeader> next = log.ReadHeader(info.version() + 1);
  if (absl::IsNotFound(next.status())) return ChainWord::kUnsaid;
  RETURN_IF_ERROR(next.status());
  return next->previous_state_digest() == info.state_digest() ? ChainWord::kConfirmed
                                                              : ChainWord::kContradicted;
}

// Returns nullopt if the snapshot was dropped meanwhile.
absl::StatusOr<std::optional<SnapshotFile>> Describe(Files& files, const std::string& dir,
                                                     const LogReader& log,
                                                     const std::vector<uint64_t>& payloads,
                                                     uint64_t version) {
  SnapshotFile file;
  file.version = version;
  file.path = SnapshotPath(dir, version);
  const absl::StatusOr<std::unique_ptr<ReadableFile>> bytes = files.OpenToRead(file.path);
  if (absl::IsNotFound(bytes.status())) return std::nullopt;
  RETURN_IF_ERROR(bytes.status());
  file.bytes = (*bytes)->size();
  const absl::StatusOr<std::unique_ptr<SnapshotReader>> reader =
      SnapshotReader::OpenVersion(files, dir, version);
  if (absl::IsNotFound(reader.status())) return std::nullopt;
  file.status = reader.status();
  if (!file.status.ok()) return file;
  ASSIGN_OR_RETURN(file.state_digest, DigestFromBytes((*reader)->info().state_digest()));
  ASSIGN_OR_RETURN(file.chain, AskChain(log, (*reader)->info()));
  file.leads_to = LeadsTo(log, payloads, version);
  return file;
}

}  // namespace

absl::StatusOr<VerifyReport> VerifyLog(Files& files, const std::string& dir) {
  return Steadily(files, dir, [&] { return Verification(files, dir).Run(); });
}

absl::StatusOr<VersionRange> CoveredVersions(Files& files, const std::string& dir) {
  ASSIGN_OR_RETURN(const std::vector<uint64_t> snapshots, ListSnapshots(files, dir));
  if (snapshots.empty()) {
    return absl::NotFoundError(absl::StrCat(SnapshotsDirectory(dir), ": no snapshot is left"));
  }
  ASSIGN_OR_RETURN(const LogReader log, LogReader::Open(files, dir, snapshots.back() + 1));
  VersionRange range{snapshots.front(), snapshots.back()};
  if (!log.empty()) range.last = std::max(range.last, log.last_version());
  return range;
}

absl::StatusOr<uint64_t> CoveredVersion(Files& files, const std::string& dir,
                                        std::optional<uint64_t> wanted) {
  ASSIGN_OR_RETURN(const VersionRange range, CoveredVersions(files, dir));
  const uint64_t version = wanted.value_or(range.last);
  if (version >= range.first && version <= range.last) return version;
  return absl::NotFoundError(absl::StrCat("version ", version, " cannot be made from ", dir,
                                          ": its snapshots and its log cover versions ",
                                          range.first, " to ", range.last));
}

absl::StatusOr<std::vector<LogEntryInfo>> ListLog(Files& files, const std::string& dir) {
  RETURN_IF_ERROR(ReadGenesis(files, dir).status());
  ASSIGN_OR_RETURN(const LogReader log, LogReader::Open(files, dir, 1));
  std::vector<LogEntryInfo> entries;
  if (log.empty()) return entries;
  for (uint64_t version = log.first_version(); version <= log.last_version(); ++version) {
    LogEntryInfo entry;
    ASSIGN_OR_RETURN(entry.header, log.ReadHeader(version));
    const absl::StatusOr<std::unique_ptr<ReadableFile>> payload =
        files.OpenToRead(PayloadPath(dir, version));
    if (payload.ok()) {
      entry.payload_bytes = (*payload)->size();
    } else if (!absl::IsNotFound(payload.status())) {
      return payload.status();
    }
    entries.push_back(std::move(entry));
  }
  return entries;
}

absl::StatusOr<v1::Offer> OfferOf(Files& files, const std::string& dir, uint64_t committed) {
  v1::Offer offer;
  ASSIGN_OR_RETURN(const std::vector<uint64_t> payloads, ListPayloads(files, dir));
  ASSIGN_OR_RETURN(const LogReader log, LogReader::Open(files, dir, 1));
  uint64_t oldest = committed + 1;
  for (auto payload = payloads.rbegin(); payload != payloads.rend(); ++payload) {
    if (*payload > committed) continue;  // prepared, or committed since
    if (*payload + 1 != oldest || log.empty() || *payload > log.last_version() ||
        *payload < log.first_version()) {
      break;
    }
    oldest = *payload;
  }
  if (oldest <= committed) offer.set_oldest_entry(oldest);
  const absl::StatusOr<std::unique_ptr<SnapshotReader>> snapshot =
      FindSnapshot(files, dir, committed);
  if (snapshot.ok()) {
    offer.set_has_snapshot(true);
    offer.set_snapshot_version((*snapshot)->info().version());
  } else if (!absl::IsNotFound(snapshot.status()) && !absl::IsDataLoss(snapshot.status())) {
    return snapshot.status();
  }
  return offer;
}

absl::StatusOr<std::vector<SnapshotFile>> ListSnapshotFiles(Files& files, const std::string& dir) {
  RETURN_IF_ERROR(ReadGenesis(files, dir).status());
  ASSIGN_OR_RETURN(const std::vector<uint64_t> versions, ListSnapshots(files, dir));
  ASSIGN_OR_RETURN(const std::vector<uint64_t> payloads, ListPayloads(files, dir));
  ASSIGN_OR_RETURN(const LogReader log, LogReader::Open(files, dir, 1));
  std::vector<SnapshotFile> found;
  for (const uint64_t version : versions) {
    ASSIGN_OR_RETURN(std::optional<SnapshotFile> file,
                     Describe(files, dir, log, payloads, version));
    if (file.has_value()) found.push_back(*std::move(file));
  }
  return found;
}

absl::StatusOr<SnapshotAudit> VerifySnapshot(Files& files, const std::string& dir,
                                             uint64_t version) {
  ASSIGN_OR_RETURN(const std::vector<SnapshotFile> all, ListSnapshotFiles(files, dir));
  SnapshotAudit audit;
  std::vector<uint64_t> versions;
  for (const SnapshotFile& file : all) {
    versions.push_back(file.version);
    if (file.version == version) audit.file = file;
  }
  if (audit.file.path.empty()) {
    return absl::NotFoundError(absl::StrCat(SnapshotsDirectory(dir), ": no snapshot of version ",
                                            version,
                                            "; there are: ", absl::StrJoin(versions, ", ")));
  }
  RETURN_IF_ERROR(audit.file.status);
  ASSIGN_OR_RETURN(const std::unique_ptr<SnapshotReader> reader,
                   SnapshotReader::Open(files, audit.file.path));
  RETURN_IF_ERROR(reader->CheckBlocks());
  audit.blocks = reader->map().blocks();
  if (audit.file.chain == ChainWord::kContradicted) {
    return absl::DataLossError(absl::StrCat(audit.file.path, ": its state has digest ",
                                            ToHex(audit.file.state_digest), ", the headers in ",
                                            HeadersPath(dir), " name another"));
  }
  return audit;
}

absl::StatusOr<MaterializedSnapshot> MaterializeSnapshot(Files& files, const std::string& dir,
                                                         const std::string& out_path,
                                                         std::optional<uint64_t> version) {
  return Steadily(files, dir, [&] { return Materialize(files, dir, out_path, version); });
}

}  // namespace atolld
