// Completion scripts for shells, made from a program's pages (manual.h). They complete verbs,
// options, the values of an option with few values, and files or folders for an option that takes
// them.
//
// A script needs no program besides its shell. Pure. May be called from any thread.
#pragma once

#include <string>

#include "daemon/program/manual.h"

namespace atolld {

// The names of options' values for which the shell offers files or folders.
inline constexpr char kFileValue[] = "FILE";
inline constexpr char kFolderValue[] = "FOLDER";
inline constexpr char kPathValue[] = "PATH";  // a file or a folder

// Returns the script for bash 4 and later. Source it, or put it into
// share/bash-completion/completions.
std::string BashCompletion(const VerbPage& program);

// Returns the script for zsh 5. Put it as "_atoll" into a folder of $fpath, or evaluate it after
// compinit.
std::string ZshCompletion(const VerbPage& program);

}  // namespace atolld
