// Decides which requests the HTTP port answers: checks the name in the Host header and the token,
// and removes the headers that are not used.
//
// A web page of another server can make a browser send requests to a port on loopback, by a DNS
// name of that server that points there (DNS rebinding). The page cannot choose the Host header, so
// on loopback only requests for loopback's own names are answered. All functions except
// ReadHttpToken are pure. May be called from any thread.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "daemon/env/env.h"

namespace atolld {

inline constexpr size_t kShortestHttpToken = 16;
inline constexpr size_t kLongestHttpToken = 512;

// Returns true if a Host header names this machine's loopback: "localhost", "127.0.0.1", "[::1]"
// and similar names, with or without a port.
bool IsLoopbackHost(absl::string_view host);

// Returns true if an Authorization header contains the token, either as a bearer token or as the
// password of HTTP Basic with any user name; browsers can ask their user for the latter. Characters
// that CleanPasted removes are ignored. The time that the comparison takes does not depend on where
// the two differ.
bool ShowsToken(absl::string_view authorization, absl::string_view token);

// Reads the token from a file of one line, which only its owner may read, and removes characters as
// CleanPasted does. Fails with INVALID_ARGUMENT if the file is wrong; the message says why.
absl::StatusOr<std::string> ReadHttpToken(Files& files, const std::string& path);

// Returns the offset after the empty line that ends a request's head; npos if the head is
// incomplete.
size_t EndOfRequestHead(absl::string_view request);

// Returns a request's head with only the headers that this port uses: Host, Authorization and
// Last-Event-ID. Other headers are removed because the HTTP library would parse them: it parses
// Range, for example, with a regular expression that uses stack for each byte. A line feed alone
// also ends a line.
std::string PlainRequestHead(absl::string_view head);

// Returns the headers of every answer. They tell the browser to load nothing from other servers, to
// cache nothing, and not to show the page in a frame.
std::vector<std::pair<std::string, std::string>> SecurityHeaders();

}  // namespace atolld
