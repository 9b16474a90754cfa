// Completion scripts for shells, written from a program's pages (manual.h): verbs, options, the
// values of those that have few, files and folders where an option takes them.
//
// Pure functions, any thread. A script needs nothing but its shell.
#pragma once

#include <string>

#include "daemon/cli/manual.h"

namespace atolld {

// What an option's value has to be called for its files to be offered.
inline constexpr char kFileValue[] = "FILE";
inline constexpr char kFolderValue[] = "FOLDER";
inline constexpr char kPathValue[] = "PATH";  // a file or a folder

// For bash 4 and later: to be sourced, or put into share/bash-completion/completions.
std::string BashCompletion(const VerbPage& program);

// For zsh 5: to be put as "_atoll" into a folder of $fpath, or evaluated after compinit.
std::string ZshCompletion(const VerbPage& program);

}  // namespace atolld
