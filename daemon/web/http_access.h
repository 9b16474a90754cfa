// Who may read the HTTP port: the names that a browser may call it by, and the token to show.
//
// A page that somebody else serves can make a browser ask a port on loopback, under a name of its
// own that leads there (DNS rebinding). It cannot choose the Host header, so on loopback only the
// machine's own names are answered. Pure functions, any thread.
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

// Whether a Host header names this machine's loopback: "localhost", "127.0.0.1", "[::1]" and the
// like, with any port or none.
bool IsLoopbackHost(absl::string_view host);

// Whether an Authorization header shows the token: as a bearer token, or as the password of HTTP
// Basic with any user name, which is what a browser can ask for. Takes the same time wherever they
// differ.
bool ShowsToken(absl::string_view authorization, absl::string_view token);

// The token in a file of one line, which nobody but its owner may read. INVALID_ARGUMENT says what
// is wrong with the file.
absl::StatusOr<std::string> ReadHttpToken(Files& files, const std::string& path);

// What every answer carries: nothing comes from elsewhere, nothing is kept, nothing is framed.
std::vector<std::pair<std::string, std::string>> SecurityHeaders();

}  // namespace atolld
