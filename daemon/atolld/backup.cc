#include "daemon/atolld/backup.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compression/base/bytes.h"
#include "compression/base/status_macros.h"
#include "daemon/coordinator/sqlite_store.h"
#include "daemon/identity/credentials.h"

namespace atolld {
namespace {

constexpr uint64_t kLargestFile = 1 << 20;  // keys and certificates have some hundred bytes

// Copies the folders in it as well.
absl::Status CopyFolder(Files& files, const std::string& from, const std::string& to) {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, files.List(from));
  RETURN_IF_ERROR(files.MakeDirectories(to));
  for (const std::string& name : names) {
    if (absl::EndsWith(name, ".tmp")) continue;  // is being written, and will have another name
    const std::string source = absl::StrCat(from, "/", name);
    const std::string target = absl::StrCat(to, "/", name);
    if (files.List(source).ok()) {
      RETURN_IF_ERROR(CopyFolder(files, source, target));
      continue;
    }
    ASSIGN_OR_RETURN(const std::string bytes, ReadFile(files, source, kLargestFile));
    RETURN_IF_ERROR(WriteSecretDurably(files, target, BytesOf(bytes)));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status BackUpCoordinator(Files& files, const std::string& dir, const std::string& to,
                               bool with_store) {
  const std::string partial = to + ".partial";  // beside it
  for (const std::string& path : {to, partial}) {
    if (!files.Exists(path)) continue;
    return absl::AlreadyExistsError(absl::StrCat(
        path, ": it is there already; ", path == to ? "name a folder that is not" : "remove it",
        path == to ? "" : ", a backup that was cut short has left it"));
  }
  if (with_store) RETURN_IF_ERROR(SqliteStore::CheckUnmarked(files, dir));
  RETURN_IF_ERROR(files.MakeDirectories(partial));
  for (const char* name : {kAuthorityFolder, kAdminFolder, kIdentityFolder}) {
    const std::string source = absl::StrCat(dir, "/", name);
    if (!files.Exists(source)) continue;
    RETURN_IF_ERROR(CopyFolder(files, source, absl::StrCat(partial, "/", name)));
  }
  if (with_store) RETURN_IF_ERROR(SqliteStore::Copy(files, dir, partial));
  RETURN_IF_ERROR(files.Rename(partial, to));
  const size_t slash = to.find_last_of('/');
  return files.SyncDirectory(slash == std::string::npos ? "."
                             : slash == 0               ? "/"
                                                        : to.substr(0, slash));
}

}  // namespace atolld
