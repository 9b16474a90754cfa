#include "daemon/identity/secret_folder.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"

namespace atolld {
namespace {

// With all that is in it; it holds no folders.
absl::Status RemoveFolder(Files& files, const std::string& folder) {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, files.List(folder));
  for (const std::string& name : names) {
    RETURN_IF_ERROR(files.Remove(absl::StrCat(folder, "/", name)));
  }
  return files.Remove(folder);
}

}  // namespace

absl::StatusOr<bool> PlaceFolder(Files& files, const std::string& folder,
                                 const std::string& witness, uint64_t random,
                                 const std::function<absl::Status(const std::string&)>& fill) {
  const std::string staging = absl::StrCat(folder, ".new-", absl::Hex(random, absl::kZeroPad16));
  RETURN_IF_ERROR(files.MakeDirectories(staging));
  absl::Status placed = fill(staging);
  if (placed.ok()) placed = files.Rename(staging, folder);
  if (placed.ok()) {
    RETURN_IF_ERROR(files.SyncDirectory(folder.substr(0, folder.rfind('/'))));
    return true;
  }
  RemoveFolder(files, staging).IgnoreError();  // the reason is the one to tell
  if (files.Exists(witness)) return false;
  return placed;
}

}  // namespace atolld
