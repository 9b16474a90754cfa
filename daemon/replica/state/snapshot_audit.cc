#include "daemon/replica/state/snapshot_audit.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compression/base/status_macros.h"
#include "daemon/replica/state/layout.h"
#include "daemon/replica/state/replay.h"
#include "daemon/replica/state/snapshot.h"
#include "daemon/replica/state/update_log.h"
#include "membership/history/header.h"

namespace atolld {
namespace {

// How far the log leads from `version`, by headers and payloads that are both here.
absl::StatusOr<uint64_t> LeadsTo(const LogReader& log, const std::vector<uint64_t>& payloads,
                                 uint64_t version) {
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

// Nothing: it has been dropped meanwhile.
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
      SnapshotReader::Open(files, file.path);
  if (absl::IsNotFound(reader.status())) return std::nullopt;
  file.status = reader.status();
  if (reader.ok() && (*reader)->info().version() != version) {
    file.status = absl::DataLossError(
        absl::StrCat(file.path, ": it holds version ", (*reader)->info().version()));
  }
  if (!file.status.ok()) return file;
  ASSIGN_OR_RETURN(file.state_digest, DigestFromBytes((*reader)->info().state_digest()));
  ASSIGN_OR_RETURN(file.chain, AskChain(log, (*reader)->info()));
  ASSIGN_OR_RETURN(file.leads_to, LeadsTo(log, payloads, version));
  return file;
}

}  // namespace

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

}  // namespace atolld
