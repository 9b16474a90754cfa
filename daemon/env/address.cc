#include "daemon/env/address.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace atolld {

bool IsLoopback(absl::string_view address) {
  return absl::StartsWith(address, "unix:") || absl::StartsWith(address, "127.") ||
         absl::StartsWith(address, "localhost:") || absl::StartsWith(address, "[::1]:");
}

std::string FormatPeerAddress(absl::string_view peer, absl::string_view address) {
  return absl::StrCat(peer, "@", address);
}

PeerAddress ParsePeerAddress(absl::string_view text) {
  const size_t at = text.find('@');
  // A path may hold any character.
  if (at == absl::string_view::npos || absl::StartsWith(text, "unix:")) {
    return {"", std::string(text)};
  }
  return {std::string(text.substr(0, at)), std::string(text.substr(at + 1))};
}

}  // namespace atolld
