// Putting a folder of secrets in place: whole, and once.
//
// Two processes may begin in one folder at the same time. Each makes what it needs under a name of
// its own beside it; the first rename wins, and the other takes what it finds. Blocking (files).
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "daemon/env/env.h"

namespace atolld {

// Calls `fill` with a new folder, and makes that `folder`, which must not exist or be empty. True:
// so it is, durably. False: another process was first, and the file `witness`, in `folder`, is
// there. `random` names the new folder.
absl::StatusOr<bool> PlaceFolder(Files& files, const std::string& folder,
                                 const std::string& witness, uint64_t random,
                                 const std::function<absl::Status(const std::string&)>& fill);

}  // namespace atolld
