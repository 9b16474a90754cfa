// Where a program takes a join token from: a file, standard input, or, as it always could, an
// argument.
//
// A token is a secret until it is spent, and all users of a machine can read the arguments of its
// processes. Blocking; before any other thread runs.
#pragma once

#include <cstdio>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "daemon/cli/command_line.h"
#include "daemon/env/env.h"

namespace atolld {

struct TokenArgument {
  std::string token;  // TOKEN; "-" is standard input
  std::string file;   // --token-file, which excludes it; "-" likewise

  bool given() const { return !token.empty() || !file.empty(); }
};

// TOKEN and --token-file; `meaning` is the former's. Returns both, for Excludes.
std::pair<Option, Option> AddTokenArgument(const Verb& verb, TokenArgument& argument,
                                           const std::string& meaning);

// The token, without the white space around it. A token that is an argument is taken and warned of,
// once, on `err`. INVALID_ARGUMENT: none is given, a folder is named, or there is not one token but
// none or several. NOT_FOUND: no such file. FAILED_PRECONDITION: others may read the file. Where
// `in` is a terminal, one line is asked for, and not shown.
absl::StatusOr<std::string> ReadToken(Files& files, const TokenArgument& argument, FILE* in,
                                      FILE* err);

}  // namespace atolld
