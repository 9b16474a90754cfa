// The folder that a daemon works in: found, or made at a first start, and never made anew in place
// of one that was there before.
//
// A folder that does not exist is doubted, because the run may have been moved, or its disk may not
// be mounted; and a coordinator in an empty folder is another authority, with an empty run of the
// same name. It is made only where all says that this is a first start: its parent is there, and no
// note beside it says that a daemon worked in it.
//
//   PARENT/NAME          the folder
//   PARENT/.NAME.atoll   the note; none where the folder holds its own config, which moves with it
//
// Blocking.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "daemon/env/env.h"

namespace atolld {

struct ProcessFolder {
  std::string dir;     // absolute
  std::string named;   // who names it: "[coordinator] dir", "--dir"
  std::string config;  // the file that names it; empty: no file does
  bool fresh = false;  // whoever called says that it is a first start: nothing is doubted
};

// Makes nothing. OK: the folder is there, or may be made. NOT_FOUND: it is not there, nor is its
// parent. FAILED_PRECONDITION: it is not there, and was before.
absl::Status CheckProcessFolder(Files& files, const ProcessFolder& folder);

// The folder is there when this returns OK, with its note. Errors as CheckProcessFolder, or of the
// disk. A note that cannot be written beside a folder that was there is no error.
absl::Status EnsureProcessFolder(Files& files, const ProcessFolder& folder);

}  // namespace atolld
