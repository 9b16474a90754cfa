#include "daemon/replica/state/run_file_copy.h"

#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"
#include "daemon/replica/state/layout.h"
#include "membership/history/run_files.h"

namespace atolld {

absl::StatusOr<std::vector<Digest>> LeavesOf(const ReadableFile& file) {
  std::vector<Digest> leaves;
  std::vector<uint8_t> block;
  for (uint64_t offset = 0; offset < file.size(); offset += kBlockBytes) {
    block.resize(std::min<uint64_t>(kBlockBytes, file.size() - offset));
    RETURN_IF_ERROR(file.ReadAt(offset, absl::MakeSpan(block)));
    leaves.push_back(Sha256(block));
  }
  return leaves;
}

absl::StatusOr<v1::RunFile> ListFile(Files& files, const std::string& path,
                                     absl::string_view role) {
  ASSIGN_OR_RETURN(const std::unique_ptr<ReadableFile> file, files.OpenToRead(path));
  if (file->size() == 0) return absl::InvalidArgumentError(absl::StrCat(path, ": it is empty"));
  absl::StatusOr<std::vector<Digest>> leaves = LeavesOf(*file);
  if (!leaves.ok()) return Annotate(leaves.status(), path);
  v1::RunFile listed;
  listed.set_role(std::string(role));
  listed.set_name(RunFileName(path.substr(path.rfind('/') + 1)));
  listed.set_bytes(file->size());
  listed.set_digest(ToBytes(TreeRoot(file->size(), *leaves)));
  return listed;
}

absl::StatusOr<std::vector<Digest>> CheckCopy(Files& files, const std::string& path,
                                              const v1::RunFile& listed) {
  ASSIGN_OR_RETURN(const std::unique_ptr<ReadableFile> file, files.OpenToRead(path));
  const absl::Status differs =
      absl::FailedPreconditionError(absl::StrCat(path, " is not the run's ", listed.name()));
  if (file->size() != listed.bytes()) return differs;
  absl::StatusOr<std::vector<Digest>> leaves = LeavesOf(*file);
  if (!leaves.ok()) return Annotate(leaves.status(), path);
  if (ToBytes(TreeRoot(file->size(), *leaves)) != listed.digest()) return differs;
  return leaves;
}

absl::Status KeepCopy(Files& files, const std::string& path, const std::string& dir,
                      const v1::RunFile& listed) {
  RETURN_IF_ERROR(CheckCopy(files, path, listed).status());
  ASSIGN_OR_RETURN(const std::string bytes, ReadFile(files, path, listed.bytes()));
  if (ToBytes(TreeDigest(BytesOf(bytes))) != listed.digest()) {
    return absl::FailedPreconditionError(absl::StrCat(path, " changes while it is read"));
  }
  const std::string copy = RunFilePath(dir, listed);
  RETURN_IF_ERROR(files.MakeDirectories(DirectoryOf(copy)));
  return WriteFileDurably(files, copy, BytesOf(bytes));
}

}  // namespace atolld
