// Folder fitness: finds out whether a folder supports everything that a daemon does in it, by
// trying it.
//
// Free space and write permission are not enough. On a Windows disk or in a folder of another
// machine, file modes may have no effect (so that others can read a key), sockets may be impossible
// (so that no worker can be started), and syncing may fail (so that the daemon ends itself).
// Everything is therefore tried in a scratch folder, which is removed afterwards, before a token is
// spent or a key is written. The functions block.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "daemon/env/env.h"
#include "daemon/fitness/finding.h"

namespace atolld {

enum class FolderUse { kPeer, kCoordinator };

// Returns a finding, whose line begins with "folder: ", for each thing that `dir` does not support,
// with advice; or one good finding if it supports everything. If `dir` does not exist, the folder
// in which it would be made is tried.
std::vector<Finding> CheckFolder(Files& files, const std::string& dir, FolderUse use);

// Fails with FAILED_PRECONDITION if CheckFolder has fatal findings; the message holds their lines.
absl::Status FolderIsFit(Files& files, const std::string& dir, FolderUse use);

// Returns the folder itself, or the nearest existing folder above it.
std::string ExistingFolder(const std::string& dir);

}  // namespace atolld
