// Exit codes: what a program tells the script that called it, one rule for every program and verb.
//
// The code hangs on the kind of the error alone, never on who met it. Pure functions, any thread.
#pragma once

#include "absl/status/status.h"

namespace atolld {

inline constexpr int kDone = 0;
inline constexpr int kFailed = 1;     // the same call may succeed another time
inline constexpr int kWrongCall = 2;  // the call, or a file that it names, must change first

// kWrongCall where the call, the config or what they name makes no sense (INVALID_ARGUMENT,
// OUT_OF_RANGE), is not there (NOT_FOUND), must not be overwritten (ALREADY_EXISTS), or does not go
// with what is there (FAILED_PRECONDITION). Else kFailed: damaged, refused, full, in use by another
// process (UNAVAILABLE), or nobody answers.
int ExitCodeOf(const absl::Status& status);

}  // namespace atolld
