#include "daemon/replica/verify.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/replica/header.h"
#include "daemon/replica/layout.h"
#include "daemon/replica/record.h"
#include "daemon/replica/snapshot_build.h"
#include "daemon/replica/state_memory.h"
#include "daemon/replica/update_log.h"
#include "daemon/status_macros.h"

namespace atolld {
namespace {

absl::Status Fault(uint64_t version, absl::string_view path, absl::string_view what) {
  return absl::DataLossError(absl::StrCat("entry ", version, ": ", path, ": ", what));
}

class Verification {
 public:
  Verification(Files& files, const std::string& dir, v1::Genesis genesis,
               std::unique_ptr<SnapshotReader> base, std::vector<uint64_t> snapshots)
      : files_(files),
        dir_(dir),
        genesis_(std::move(genesis)),
        base_(std::move(base)),
        snapshots_(std::move(snapshots)),
        theta_(genesis_.manifest().elements()),
        memory_(genesis_, absl::MakeSpan(theta_)) {}

  absl::StatusOr<VerifyReport> Run() {
    RETURN_IF_ERROR(CheckBase());
    RETURN_IF_ERROR(CheckLogIsWhole());
    RETURN_IF_ERROR(CheckOlderHeaders());
    for (uint64_t version = base_->info().version() + 1; version <= last_; ++version) {
      RETURN_IF_ERROR(CheckEntry(version));
    }
    VerifyReport report;
    report.first_version = base_->info().version();
    report.version = last_;
    report.state_digest = state_digest_;
    ASSIGN_OR_RETURN(report.sealed, CheckSeal());
    return report;
  }

 private:
  absl::Status CheckBase() {
    const v1::SnapshotInfo& info = base_->info();
    if (GenesisDigest(info.genesis()) != GenesisDigest(genesis_)) {
      return absl::DataLossError(
          absl::StrCat(SnapshotPath(dir_, info.version()), ": its genesis is another one"));
    }
    RETURN_IF_ERROR(memory_.Load(*base_));
    ASSIGN_OR_RETURN(state_digest_, DigestFromBytes(info.state_digest()));
    header_digest_ = info.has_header() ? HeaderDigest(info.header()) : GenesisDigest(genesis_);
    return absl::OkStatus();
  }

  absl::Status CheckLogIsWhole() {
    const uint64_t base = base_->info().version();
    ASSIGN_OR_RETURN(log_, LogReader::Open(files_, dir_, base + 1));
    last_ = log_->empty() ? base : log_->last_version();
    if (log_->torn()) {
      return Fault(last_ + 1, HeadersPath(dir_),
                   absl::StrCat("offset ", log_->end(), ": the record is cut short"));
    }
    if (!log_->empty() && (log_->first_version() > base + 1 || last_ < base)) {
      return absl::DataLossError(absl::StrCat(HeadersPath(dir_), ": it holds entries ",
                                              log_->first_version(), " to ", last_,
                                              ", the oldest snapshot is version ", base));
    }
    ASSIGN_OR_RETURN(const std::vector<uint64_t> payloads, ListPayloads(files_, dir_));
    const uint64_t newest_snapshot = snapshots_.back();
    if ((!payloads.empty() && payloads.back() > last_ + 1) || newest_snapshot > last_) {
      return Fault(last_ + 1, HeadersPath(dir_),
                   absl::StrCat("offset ", log_->end(), ": its header is missing"));
    }
    return absl::OkStatus();
  }

  // Headers whose payloads were dropped still have to be a chain that leads to the oldest snapshot.
  absl::Status CheckOlderHeaders() {
    const uint64_t base = base_->info().version();
    if (log_->empty() || log_->first_version() > base) return absl::OkStatus();
    Digest previous = GenesisDigest(genesis_);
    for (uint64_t version = log_->first_version(); version <= base; ++version) {
      ASSIGN_OR_RETURN(const v1::EntryHeader header, log_->ReadHeader(version));
      if (version == log_->first_version() && version > 1) {
        const absl::StatusOr<Digest> claimed = DigestFromBytes(header.previous_header_digest());
        if (!claimed.ok()) return Fault(version, HeadersPath(dir_), claimed.status().message());
        previous = *claimed;
      }
      const absl::Status chain = CheckHeader(genesis_, version - 1, previous, header);
      if (!chain.ok()) return Fault(version, HeadersPath(dir_), chain.message());
      previous = HeaderDigest(header);
    }
    if (previous == header_digest_) return absl::OkStatus();
    return Fault(base, HeadersPath(dir_),
                 absl::StrCat("its header is not the one in ", SnapshotPath(dir_, base)));
  }

  absl::Status CheckEntry(uint64_t version) {
    ASSIGN_OR_RETURN(const v1::EntryHeader header, log_->ReadHeader(version));
    const absl::Status chain = CheckHeader(genesis_, version - 1, header_digest_, header);
    if (!chain.ok()) return Fault(version, HeadersPath(dir_), chain.message());
    if (header.previous_state_digest() != ToBytes(state_digest_)) {
      return Fault(version, HeadersPath(dir_),
                   absl::StrCat("the replayed state of version ", version - 1, " has digest ",
                                ToHex(state_digest_), ", the header says otherwise"));
    }
    const absl::StatusOr<EntryStep> step = EntryStep::Make(header);
    if (!step.ok()) return Fault(version, HeadersPath(dir_), step.status().message());
    const std::string path = PayloadPath(dir_, version);
    const absl::StatusOr<SharedBytes> payload =
        ReadPayload(files_, dir_, version, MaxPayloadBytes(step->grid(), step->codec()));
    if (absl::IsNotFound(payload.status())) return Fault(version, path, "the payload is missing");
    RETURN_IF_ERROR(payload.status());
    if (ToBytes(TreeDigest(payload->span())) != header.payload_digest()) {
      return Fault(version, path, "the payload's digest differs from the header's");
    }
    const absl::Status decodes = CheckPayload(step->grid(), step->codec(), *payload);
    if (!decodes.ok()) return Fault(version, path, decodes.message());
    memory_.Step(*step, *payload, {});
    state_digest_ = memory_.StateDigest();
    header_digest_ = HeaderDigest(header);
    return CheckSnapshotOf(version);
  }

  absl::Status CheckSnapshotOf(uint64_t version) {
    if (!std::binary_search(snapshots_.begin(), snapshots_.end(), version)) {
      return absl::OkStatus();
    }
    const std::string path = SnapshotPath(dir_, version);
    ASSIGN_OR_RETURN(const std::unique_ptr<SnapshotReader> snapshot,
                     SnapshotReader::Open(files_, path));
    const v1::SnapshotInfo& info = snapshot->info();
    if (info.version() != version || info.state_digest() != ToBytes(state_digest_) ||
        HeaderDigest(info.header()) != header_digest_ ||
        GenesisDigest(info.genesis()) != GenesisDigest(genesis_)) {
      return Fault(version, path, "the snapshot is not the state that the log leads to");
    }
    std::vector<uint8_t> bytes(kBlockBytes);
    for (uint64_t block = 0; block < snapshot->map().blocks(); ++block) {
      RETURN_IF_ERROR(snapshot->ReadBlock(
          block, absl::MakeSpan(bytes).subspan(0, snapshot->map().Bytes(block))));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<bool> CheckSeal() {
    const std::string path = SealPath(dir_);
    v1::Seal seal;
    const absl::Status status = ReadMessageFile(files_, path, &seal);
    if (absl::IsNotFound(status)) return false;
    RETURN_IF_ERROR(Annotate(status, "seal"));
    if (seal.run_id() != genesis_.spec().run_id() || seal.version() != last_ ||
        seal.header_digest() != ToBytes(header_digest_) ||
        seal.state_digest() != ToBytes(state_digest_)) {
      return Fault(last_, path, "the seal is not that of the state that the log leads to");
    }
    return true;
  }

  Files& files_;
  const std::string& dir_;
  const v1::Genesis genesis_;
  const std::unique_ptr<SnapshotReader> base_;
  const std::vector<uint64_t> snapshots_;
  std::vector<float> theta_;

  // Where the replay stands.
  StateMemory memory_;
  Digest state_digest_;
  Digest header_digest_;
  std::optional<LogReader> log_;
  uint64_t last_ = 0;
};

absl::StatusOr<v1::Genesis> ReadGenesis(Files& files, const std::string& dir) {
  v1::Genesis genesis;
  RETURN_IF_ERROR(ReadMessageFile(files, GenesisPath(dir), &genesis));
  const absl::Status status = CheckGenesis(genesis);
  if (!status.ok()) {
    return absl::DataLossError(absl::StrCat(GenesisPath(dir), ": ", status.message()));
  }
  return genesis;
}

}  // namespace

absl::StatusOr<VerifyReport> VerifyLog(Files& files, const std::string& dir) {
  ASSIGN_OR_RETURN(v1::Genesis genesis, ReadGenesis(files, dir));
  ASSIGN_OR_RETURN(std::vector<uint64_t> snapshots, ListSnapshots(files, dir));
  if (snapshots.empty()) {
    return absl::DataLossError(absl::StrCat(SnapshotsDirectory(dir), ": no snapshot is left"));
  }
  const std::string path = SnapshotPath(dir, snapshots.front());
  ASSIGN_OR_RETURN(std::unique_ptr<SnapshotReader> base, SnapshotReader::Open(files, path));
  if (base->info().version() != snapshots.front()) {
    return absl::DataLossError(absl::StrCat(path, ": it holds version ", base->info().version()));
  }
  return Verification(files, dir, std::move(genesis), std::move(base), std::move(snapshots)).Run();
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

absl::StatusOr<MaterializedSnapshot> MaterializeSnapshot(Files& files, const std::string& dir,
                                                         const std::string& out_path,
                                                         std::optional<uint64_t> version) {
  MaterializedSnapshot result;
  ASSIGN_OR_RETURN(result.genesis, ReadGenesis(files, dir));
  if (!version.has_value()) {
    ASSIGN_OR_RETURN(const LogReader log, LogReader::Open(files, dir, 1));
    ASSIGN_OR_RETURN(const std::vector<uint64_t> snapshots, ListSnapshots(files, dir));
    version = snapshots.empty() ? 0 : snapshots.back();
    if (!log.empty()) version = std::max(*version, log.last_version());
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<SnapshotReader> base, FindSnapshot(files, dir, *version));
  RETURN_IF_ERROR(BuildSnapshot(files, dir, *base, *version, out_path));
  ASSIGN_OR_RETURN(const std::unique_ptr<SnapshotReader> made,
                   SnapshotReader::Open(files, out_path));
  result.path = out_path;
  result.version = *version;
  result.theta_offset = made->theta_offset();
  result.elements = result.genesis.manifest().elements();
  ASSIGN_OR_RETURN(result.state_digest, DigestFromBytes(made->info().state_digest()));
  return result;
}

}  // namespace atolld
