#include "daemon/replica/state/layout.h"

#include <algorithm>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "compression/base/status_macros.h"
#include "membership/history/run_files.h"

namespace atolld {
namespace {

constexpr absl::string_view kPayloadSuffix = ".payload";
constexpr absl::string_view kDamagedSuffix = ".corrupt";
constexpr size_t kVersionDigits = 12;

std::string VersionName(uint64_t version) { return absl::StrFormat("%012d", version); }

std::optional<uint64_t> ParseVersion(absl::string_view name) {
  uint64_t version = 0;
  if (name.size() != kVersionDigits ||
      !std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; }) ||
      !absl::SimpleAtoi(name, &version)) {
    return std::nullopt;
  }
  return version;
}

absl::StatusOr<std::vector<uint64_t>> ListVersions(Files& files, const std::string& directory,
                                                   absl::string_view suffix) {
  std::vector<uint64_t> versions;
  if (!files.Exists(directory)) return versions;
  ASSIGN_OR_RETURN(const std::vector<std::string> names, files.List(directory));
  for (const std::string& name : names) {
    absl::string_view stem = name;
    if (!absl::ConsumeSuffix(&stem, suffix)) continue;
    if (const std::optional<uint64_t> version = ParseVersion(stem)) versions.push_back(*version);
  }
  std::sort(versions.begin(), versions.end());
  return versions;
}

absl::Status SetAside(Files& files, const std::string& path) {
  return files.Rename(path, absl::StrCat(path, kDamagedSuffix));
}

}  // namespace

std::string GenesisPath(const std::string& dir) { return absl::StrCat(dir, "/genesis"); }
std::string SealPath(const std::string& dir) { return absl::StrCat(dir, "/seal"); }
std::string LogDirectory(const std::string& dir) { return absl::StrCat(dir, "/log"); }
std::string HeadersPath(const std::string& dir) { return absl::StrCat(dir, "/log/headers"); }
std::string PayloadPath(const std::string& dir, uint64_t version) {
  return absl::StrCat(dir, "/log/", VersionName(version), kPayloadSuffix);
}
std::string SnapshotsDirectory(const std::string& dir) { return absl::StrCat(dir, "/snapshots"); }
std::string SnapshotPath(const std::string& dir, uint64_t version) {
  return absl::StrCat(dir, "/snapshots/", VersionName(version));
}
std::string DamagedSnapshotPath(const std::string& dir, uint64_t version) {
  return absl::StrCat(SnapshotPath(dir, version), kDamagedSuffix);
}
std::string FetchDirectory(const std::string& dir) { return absl::StrCat(dir, "/fetch"); }
std::string RunFilePath(const std::string& dir, const v1::RunFile& file) {
  return absl::StrCat(dir, "/", kRunFilesFolder, "/", file.role(), "/", file.name());
}

absl::StatusOr<std::vector<uint64_t>> ListPayloads(Files& files, const std::string& dir) {
  return ListVersions(files, LogDirectory(dir), kPayloadSuffix);
}

absl::StatusOr<std::vector<uint64_t>> ListSnapshots(Files& files, const std::string& dir) {
  return ListVersions(files, SnapshotsDirectory(dir), "");
}

absl::StatusOr<std::vector<uint64_t>> ListDamagedSnapshots(Files& files, const std::string& dir) {
  return ListVersions(files, SnapshotsDirectory(dir), kDamagedSuffix);
}

absl::Status RemoveTemporaries(Files& files, const std::string& directory) {
  if (!files.Exists(directory)) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::vector<std::string> names, files.List(directory));
  for (const std::string& name : names) {
    if (!absl::EndsWith(name, ".tmp")) continue;
    RETURN_IF_ERROR(files.Remove(absl::StrCat(directory, "/", name)));
  }
  return absl::OkStatus();
}

absl::Status RemoveReplica(Files& files, const std::string& dir) {
  RETURN_IF_ERROR(files.Remove(GenesisPath(dir)));
  RETURN_IF_ERROR(files.SyncDirectory(dir));
  ASSIGN_OR_RETURN(const std::vector<uint64_t> snapshots, ListSnapshots(files, dir));
  for (const uint64_t version : snapshots) {
    RETURN_IF_ERROR(files.Remove(SnapshotPath(dir, version)));
  }
  ASSIGN_OR_RETURN(const std::vector<uint64_t> payloads, ListPayloads(files, dir));
  for (const uint64_t version : payloads) {
    RETURN_IF_ERROR(files.Remove(PayloadPath(dir, version)));
  }
  return files.Remove(HeadersPath(dir));
}

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

// -----------------------------------------------------------------------------------------------

absl::StatusOr<Footprint> FootprintOf(Files& files, const std::string& dir) {
  Footprint footprint;
  ASSIGN_OR_RETURN(footprint.snapshots, ListSnapshots(files, dir));
  ASSIGN_OR_RETURN(footprint.payloads, ListPayloads(files, dir));
  const absl::StatusOr<std::unique_ptr<ReadableFile>> headers = files.OpenToRead(HeadersPath(dir));
  if (headers.ok()) footprint.header_bytes = (*headers)->size();
  return footprint;
}

}  // namespace atolld
