// Reads a join token from a file, from standard input or, as in earlier releases, from an argument.
//
// A token is secret until it is used, and all users of a machine can read the arguments of its
// processes. ReadToken blocks; call it before any other thread runs.
#pragma once

#include <cstdio>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "daemon/env/env.h"
#include "daemon/program/command_line.h"

namespace atolld {

struct TokenArgument {
  std::string token;  // the argument TOKEN; "-" means standard input
  std::string file;   // --token-file, which excludes TOKEN; "-" means standard input

  bool given() const { return !token.empty() || !file.empty(); }
};

// Adds the arguments TOKEN, described by `meaning`, and --token-file to a verb. Returns both, for
// Option::Excludes.
std::pair<Option, Option> AddTokenArgument(const Verb& verb, TokenArgument& argument,
                                           const std::string& meaning);

// Returns the token, cleaned by CleanJoinToken. A token that is given as an argument is accepted
// with a warning on `err`. If `in` is a terminal, the user is asked for the token, and it is not
// shown while it is typed; if it was pasted as several lines, they are read until the token is
// complete. Fails with INVALID_ARGUMENT if no token is given, if a folder is named, or if there is
// not exactly one token; with NOT_FOUND if there is no such file; with FAILED_PRECONDITION if
// others may read the file.
absl::StatusOr<std::string> ReadToken(Files& files, const TokenArgument& argument, FILE* in,
                                      FILE* err);

}  // namespace atolld
