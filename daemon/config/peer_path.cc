#include "daemon/config/peer_path.h"

#include <filesystem>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace atolld {
namespace {

constexpr size_t kMostDigits = 7;  // a million parties

bool IsThere(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

}  // namespace

bool HasPeerPlace(absl::string_view path) { return absl::StrContains(path, kPeerPlace); }

std::string PathOfPeer(const std::string& path, uint32_t number) {
  if (!HasPeerPlace(path)) return path;
  std::string digits = absl::StrCat(number);
  const std::string plain = absl::StrReplaceAll(path, {{kPeerPlace, digits}});
  for (; digits.size() <= kMostDigits; digits.insert(digits.begin(), '0')) {
    const std::string padded = absl::StrReplaceAll(path, {{kPeerPlace, digits}});
    if (IsThere(padded)) return padded;
  }
  return plain;
}

absl::Status CheckPeerPaths(const DataConfig& data, uint32_t peers, const std::string& folder) {
  if (!data.is_private) {
    return absl::InvalidArgumentError(absl::StrCat(
        "[data] path has ", kPeerPlace,
        ", which gives every peer data of its own: set [data] private = true with it"));
  }
  for (uint32_t peer = 1; peer <= peers; ++peer) {
    const std::string path =
        PathOfPeer((std::filesystem::path(folder) / data.path).lexically_normal().string(), peer);
    if (IsThere(path)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("data.path '", path, "', of peer ", peer, ", does not exist"));
  }
  return absl::OkStatus();
}

}  // namespace atolld
