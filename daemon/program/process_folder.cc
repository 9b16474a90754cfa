#include "daemon/program/process_folder.h"

#include <filesystem>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"

namespace atolld {
namespace {

std::filesystem::path PlainPath(const std::string& dir) {
  std::filesystem::path path = std::filesystem::path(dir).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();  // "DIR/"
  return path;
}

std::string NotePath(const std::filesystem::path& dir) {
  return (dir.parent_path() / absl::StrCat(".", dir.filename().string(), ".atoll")).string();
}

bool HoldsItsConfig(const std::filesystem::path& dir, const std::string& config) {
  if (config.empty()) return false;
  std::error_code error;
  const std::filesystem::path file = std::filesystem::absolute(config, error).lexically_normal();
  return absl::StartsWith(file.string(), absl::StrCat(dir.string(), "/"));
}

}  // namespace

absl::Status CheckProcessFolder(Files& files, const ProcessFolder& folder) {
  const std::filesystem::path dir = PlainPath(folder.dir);
  if (folder.fresh || files.Exists(dir.string())) return absl::OkStatus();
  const std::string note = NotePath(dir);
  if (files.Exists(note)) {
    return absl::FailedPreconditionError(absl::StrCat(
        dir.string(), " does not exist, and a run was in it before (", note,
        " says so): if the run was moved, set ", folder.named,
        " to where it is now; if its disk is not mounted, mount it; to begin anew, add --new"));
  }
  const std::string parent = dir.parent_path().string();
  if (files.Exists(parent)) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat(
      dir.string(), " does not exist, nor does ", parent, ": if the run was moved, set ",
      folder.named, " to where it is now; at a first start, make ", parent, " or add --new"));
}

absl::Status EnsureProcessFolder(Files& files, const ProcessFolder& folder) {
  RETURN_IF_ERROR(CheckProcessFolder(files, folder));
  const std::filesystem::path dir = PlainPath(folder.dir);
  RETURN_IF_ERROR(files.MakeDirectories(dir.string()));
  if (HoldsItsConfig(dir, folder.config) || files.Exists(NotePath(dir))) return absl::OkStatus();
  const std::string text =
      absl::StrCat("atolld works in ", dir.string(),
                   ". While that folder is missing, atolld does not make it anew without --new.\n");
  // In a place that cannot be written to, the folder cannot be made anew either.
  WriteFileDurably(files, NotePath(dir), BytesOf(text)).IgnoreError();
  return absl::OkStatus();
}

std::string ReadHttpFile(Files& files, const std::string& dir) {
  const absl::StatusOr<std::string> text = ReadFile(files, absl::StrCat(dir, "/", kHttpFile), 1000);
  return text.ok() ? std::string(absl::StripAsciiWhitespace(*text)) : "";
}

}  // namespace atolld
