// LastWords: a message that a process writes to standard error just before it ends because of a bug
// or a fatal error.
//
// A pipe that no process reads must not keep the process from ending, so text that standard error
// does not accept within a second is dropped. May be called from any thread.
#pragma once

#include "absl/strings/string_view.h"

namespace atolld {

// Writes the text. Allocates no memory and takes no lock, so a signal handler may call it.
void LastWords(absl::string_view text);

// Writes "FILE:LINE: WHAT" and aborts. CHECK uses it.
[[noreturn]] void DieOfCheck(const char* file, int line, absl::string_view what);

// From now on, an uncaught exception is reported in one line before the process aborts. If the
// exception was thrown because the system refused to make a thread, the line names the limits. Call
// this once, in main.
void TellUncaughtExceptions();

}  // namespace atolld
