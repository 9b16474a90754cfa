// The mark by which a process finds all descendants of its children.
//
// Without privileges, Linux gives no handle for all descendants of a process: setsid leaves a
// process group, and the parent's number is lost when the parent dies. But environment variables
// are inherited. So a child gets a variable with a value that no other process's children have, and
// all processes that carry it are ended with the child. A process under another user, or one that
// has cleared its environment, is not found. The functions read /proc and may be called from any
// thread.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace atolld {

inline constexpr char kChildMark[] = "ATOLL_CHILD_OF";

// Returns the mark of this process's children. No other process on this machine has the same mark
// until the machine is started again.
std::string OwnMark();

// Kills every process that carries `mark`, and the processes that these start in the meantime.
// Returns the number of killed processes. The call usually takes a few milliseconds; after a second
// it gives up on processes that have not died.
int EndMarked(const std::string& mark);

// Starts a helper process that waits until this process ends, even by SIGKILL, and then ends all
// processes that carry this process's mark. Call it before this process has any other thread.
absl::Status WatchOverMarked();

}  // namespace atolld
