#include "daemon/replica/state/set_aside.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"
#include "daemon/replica/state/layout.h"

namespace atolld {
namespace {

absl::Status SetAside(Files& files, const std::string& path) {
  return files.Rename(path, absl::StrCat(path, ".corrupt"));
}

}  // namespace

absl::Status SetSnapshotsAside(Files& files, const std::string& dir, uint64_t version) {
  ASSIGN_OR_RETURN(const std::vector<uint64_t> versions, ListSnapshots(files, dir));
  bool any = false;
  for (const uint64_t newer : versions) {
    if (newer <= version) continue;
    RETURN_IF_ERROR(SetAside(files, SnapshotPath(dir, newer)));
    any = true;
  }
  return any ? files.SyncDirectory(SnapshotsDirectory(dir)) : absl::OkStatus();
}

absl::Status SetLogAside(Files& files, const std::string& dir) {
  ASSIGN_OR_RETURN(const std::vector<uint64_t> payloads, ListPayloads(files, dir));
  // The headers last: while they stand, what a crash leaves is a log with missing payloads, which
  // Open refuses; without them it is no log at all.
  for (const uint64_t version : payloads) {
    RETURN_IF_ERROR(SetAside(files, PayloadPath(dir, version)));
  }
  if (files.Exists(HeadersPath(dir))) RETURN_IF_ERROR(SetAside(files, HeadersPath(dir)));
  return files.SyncDirectory(LogDirectory(dir));
}

}  // namespace atolld
