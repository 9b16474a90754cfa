// Exit codes: the numbers that tell a calling script how a program ended. All programs and verbs
// use the same rule.
//
// The code depends only on the kind of the error, never on the place where it occurred. Pure. May
// be called from any thread.
#pragma once

#include "absl/status/status.h"

namespace atolld {

inline constexpr int kDone = 0;
inline constexpr int kFailed = 1;  // the same call may succeed another time
// The call, or a file that it names, must be corrected first.
inline constexpr int kWrongCall = 2;

// Returns kDone for OK. Returns kWrongCall if the call, the config or a file that they name makes
// no sense (INVALID_ARGUMENT, OUT_OF_RANGE), does not exist (NOT_FOUND), must not be overwritten
// (ALREADY_EXISTS), or does not fit the present state (FAILED_PRECONDITION). Returns kFailed for
// any other error, for example if something is damaged, refused, full or in use by another process
// (UNAVAILABLE), or if there is no answer.
int ExitCodeOf(const absl::Status& status);

}  // namespace atolld
