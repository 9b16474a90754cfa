// Finds the folder in which a daemon works, or makes it at the first start. It never makes the
// folder anew if it existed before and is missing.
//
// The folder may be missing because the run was moved or because its disk is not mounted. A
// coordinator that started in a new, empty folder would have a new authority and an empty run of
// the same name. The folder is therefore only made at what must be a first start: its parent
// exists, and no note beside it says that a daemon has worked in it.
//
//   PARENT/NAME          the folder
//   PARENT/.NAME.atoll   the note; it is not written if the folder holds its own config, so that
//                        the folder can be moved with its config
//
// The functions block.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "daemon/env/env.h"

namespace atolld {

struct ProcessFolder {
  std::string dir;     // an absolute path
  std::string named;   // the setting that gives the folder: "[coordinator] dir", "--dir"
  std::string config;  // the config file that gives it; empty if none does
  bool fresh = false;  // true if this is known to be a first start; the note is then ignored
};

// Returns OK if the folder exists or may be made. Fails with NOT_FOUND if neither it nor its parent
// exists, and with FAILED_PRECONDITION if it is missing but existed before. Makes nothing.
absl::Status CheckProcessFolder(Files& files, const ProcessFolder& folder);

// Makes the folder and its note if they do not exist. Fails with the errors of CheckProcessFolder
// or of the disk. It is not an error if the note of an existing folder cannot be written.
absl::Status EnsureProcessFolder(Files& files, const ProcessFolder& folder);

// The file in a daemon's folder with the address of its HTTP port: one line,
// "http://127.0.0.1:7080/". It stays after the daemon's end; the daemon takes the same port at its
// next start.
inline constexpr char kHttpFile[] = "http";

// Returns the address in a daemon's folder, or an empty text if there is none.
std::string ReadHttpFile(Files& files, const std::string& dir);

}  // namespace atolld
