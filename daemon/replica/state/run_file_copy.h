// The run's small files on this machine: what a list says of one, and whether a copy is the listed
// one. Blocking: before the loop runs, or on the pool.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "atoll/v1/run.pb.h"
#include "daemon/env/env.h"
#include "membership/history/digest.h"

namespace atolld {

// SHA-256 of each block of 1 MiB. Errors are the file's.
absl::StatusOr<std::vector<Digest>> LeavesOf(const ReadableFile& file);

// As a run's list has it, under the name that it has there. INVALID_ARGUMENT: it is empty. Else as
// Files.
absl::StatusOr<v1::RunFile> ListFile(Files& files, const std::string& path, absl::string_view role);

// The leaves of the file at `path`, which is the listed one. NOT_FOUND: it is not there.
// FAILED_PRECONDITION: it is another. Else as Files.
absl::StatusOr<std::vector<Digest>> CheckCopy(Files& files, const std::string& path,
                                              const v1::RunFile& listed);

// Copies `path` to its place under `dir`, durably, if it is the listed one. Errors as CheckCopy.
absl::Status KeepCopy(Files& files, const std::string& path, const std::string& dir,
                      const v1::RunFile& listed);

}  // namespace atolld
