// JoinToken: all that a machine needs to join a run, as one string for people to hand on.
//
//   atoll1-<base64url of: the serialised v1::JoinToken, then the first 8 bytes of its SHA-256>
//
// The checksum tells a damaged copy from a wrong token; it protects nothing. Whoever has the string
// may join once: it is a secret. Pure functions, any thread; ParseJoinToken is total.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "atoll/v1/membership.pb.h"

namespace atolld {

// Of the string: a real one has some 3,000 characters.
inline constexpr size_t kLongestJoinToken = 16384;

std::string FormatJoinToken(const v1::JoinToken& token);

// INVALID_ARGUMENT, in one line: no token, damaged, or something is missing. White space around it
// is no error. The certificates are only known to be there.
absl::StatusOr<v1::JoinToken> ParseJoinToken(absl::string_view text);

}  // namespace atolld
