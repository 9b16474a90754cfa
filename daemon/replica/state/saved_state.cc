#include "daemon/replica/state/saved_state.h"

#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"
#include "daemon/replica/state/layout.h"
#include "daemon/replica/state/record.h"
#include "daemon/replica/state/snapshot.h"
#include "daemon/replica/state/snapshot_build.h"
#include "daemon/replica/state/update_log.h"

namespace atolld {
namespace {

// Saves the headers up to `version` as the log has them; saves none if the log begins later.
absl::Status SaveHeaders(Files& files, const std::string& dir, const std::string& out,
                         uint64_t version) {
  const auto records = [&]() -> absl::StatusOr<std::string> {
    std::string bytes;
    ASSIGN_OR_RETURN(const LogReader log, LogReader::Open(files, dir, 1));
    if (log.empty() || version > log.last_version()) return bytes;
    for (uint64_t v = log.first_version(); v <= version; ++v) {
      ASSIGN_OR_RETURN(const v1::EntryHeader header, log.ReadHeader(v));
      absl::StrAppend(&bytes, EncodeRecord(header.SerializeAsString()));
    }
    return bytes;
  };
  ASSIGN_OR_RETURN(const std::string bytes, Steadily(files, dir, records));
  if (bytes.empty()) return absl::OkStatus();
  RETURN_IF_ERROR(files.MakeDirectories(LogDirectory(out)));
  return WriteFileDurably(files, HeadersPath(out), BytesOf(bytes));
}

absl::Status SaveSeal(Files& files, const std::string& dir, const std::string& out,
                      uint64_t version) {
  if (!files.Exists(SealPath(dir))) return absl::OkStatus();
  v1::Seal seal;
  RETURN_IF_ERROR(ReadMessageFile(files, SealPath(dir), &seal));
  if (seal.version() != version) return absl::OkStatus();
  return WriteMessageFile(files, SealPath(out), seal);
}

}  // namespace

absl::StatusOr<uint64_t> BytesToSave(Files& files, const std::string& dir, uint64_t version) {
  return Steadily(files, dir, [&]() -> absl::StatusOr<uint64_t> {
    ASSIGN_OR_RETURN(const uint64_t covered, CoveredVersion(files, dir, version));
    ASSIGN_OR_RETURN(const std::unique_ptr<SnapshotReader> base, FindSnapshot(files, dir, covered));
    const uint64_t state = base->map().total_bytes();
    const uint64_t stage = kStageBlocks << 20;  // the one that is being copied
    return state + std::min(state, stage);
  });
}

absl::StatusOr<MaterializedSnapshot> SaveState(Files& files, const std::string& dir,
                                               const std::string& out, uint64_t version) {
  RETURN_IF_ERROR(files.MakeDirectories(SnapshotsDirectory(out)));
  ASSIGN_OR_RETURN(MaterializedSnapshot saved,
                   MaterializeSnapshot(files, dir, SnapshotPath(out, version), version));
  RETURN_IF_ERROR(SaveHeaders(files, dir, out, version));
  RETURN_IF_ERROR(SaveSeal(files, dir, out, version));
  RETURN_IF_ERROR(WriteMessageFile(files, GenesisPath(out), saved.genesis));
  return saved;
}

}  // namespace atolld
