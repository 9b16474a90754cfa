// The run's small files on this machine: these functions make the list entry of a file, and check
// whether a copy is the listed file. They block, so call them before the loop runs or on the pool.
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

// Returns the SHA-256 of each block of 1 MiB. Errors of the file are returned.
absl::StatusOr<std::vector<Digest>> LeavesOf(const ReadableFile& file);

// Returns the file's entry for a run's list, which has the name that the file gets in the run.
// Fails with INVALID_ARGUMENT if the file is empty; errors of `files` are returned.
absl::StatusOr<v1::RunFile> ListFile(Files& files, const std::string& path, absl::string_view role);

// Checks that the file at `path` is the listed one, and returns its leaves. Fails with NOT_FOUND if
// there is no such file, and with FAILED_PRECONDITION if it is another file; errors of `files` are
// returned.
absl::StatusOr<std::vector<Digest>> CheckCopy(Files& files, const std::string& path,
                                              const v1::RunFile& listed);

// Copies `path`, durably, to the place of the listed file under `dir`, if it is that file. Fails
// like CheckCopy.
absl::Status KeepCopy(Files& files, const std::string& path, const std::string& dir,
                      const v1::RunFile& listed);

}  // namespace atolld
