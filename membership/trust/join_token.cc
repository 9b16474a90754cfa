#include "membership/trust/join_token.h"

#include <openssl/sha.h>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace atolld {
namespace {

constexpr absl::string_view kPrefix = "atoll1-";
constexpr size_t kChecksumBytes = 8;

std::string Checksum(absl::string_view bytes) {
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), digest);
  return std::string(reinterpret_cast<const char*>(digest), kChecksumBytes);
}

absl::Status Wrong(absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("the token ", what, "; `atoll token create` prints one"));
}

}  // namespace

std::string FormatJoinToken(const v1::JoinToken& token) {
  std::string bytes = token.SerializeAsString();
  bytes += Checksum(bytes);
  return absl::StrCat(kPrefix, absl::WebSafeBase64Escape(bytes));
}

absl::StatusOr<v1::JoinToken> ParseJoinToken(absl::string_view text) {
  text = absl::StripAsciiWhitespace(text);
  if (text.empty()) return Wrong("is empty");
  if (text.size() > kLongestJoinToken) {
    return Wrong(absl::StrCat("has ", text.size(), " characters, more than ", kLongestJoinToken));
  }
  if (!absl::ConsumePrefix(&text, kPrefix)) {
    return Wrong(absl::StrCat("does not begin with ", kPrefix));
  }
  std::string bytes;
  if (!absl::WebSafeBase64Unescape(text, &bytes) || bytes.size() <= kChecksumBytes) {
    return Wrong("is damaged: it holds characters that it cannot hold, or too few");
  }
  const std::string checksum = bytes.substr(bytes.size() - kChecksumBytes);
  bytes.resize(bytes.size() - kChecksumBytes);
  if (Checksum(bytes) != checksum) {
    return Wrong("is damaged: its checksum is wrong, so a part was lost or changed in copying");
  }
  v1::JoinToken token;
  if (!token.ParseFromString(bytes)) return Wrong("holds no token");
  if (token.address().empty() || token.authority().empty() || token.certificate().empty() ||
      token.key().empty()) {
    return Wrong("lacks an address, a certificate or a key");
  }
  return token;
}

}  // namespace atolld
