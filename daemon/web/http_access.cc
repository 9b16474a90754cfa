#include "daemon/web/http_access.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>
#include <array>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "compression/base/pasted.h"

namespace atolld {
namespace {

// A token as UTF-16, with a byte order mark and an end of line.
constexpr size_t kMostRead = 2 * (kLongestHttpToken + 3);

using Sha256 = std::array<unsigned char, SHA256_DIGEST_LENGTH>;

Sha256 DigestOf(absl::string_view text) {
  Sha256 digest;
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  return digest;
}

// Compares their digests, so that the time does not reveal the token's length either.
bool AreEqual(absl::string_view a, absl::string_view b) {
  const Sha256 first = DigestOf(a);
  const Sha256 second = DigestOf(b);
  return CRYPTO_memcmp(first.data(), second.data(), first.size()) == 0;
}

bool IsPort(absl::string_view text) {
  return !text.empty() && text.size() <= 5 &&
         std::all_of(text.begin(), text.end(), absl::ascii_isdigit);
}

// Returns true for 127.0.0.0/8, but not for "127.1", which no browser sends.
bool IsLoopbackIpv4(absl::string_view host) {
  const std::vector<absl::string_view> parts = absl::StrSplit(host, '.');
  if (parts.size() != 4 || parts[0] != "127") return false;
  return std::all_of(parts.begin(), parts.end(), [](absl::string_view part) {
    int value = 0;
    return part.size() <= 3 && IsPort(part) && absl::SimpleAtoi(part, &value) && value <= 255;
  });
}

constexpr absl::string_view kHeadEnd = "\r\n\r\n";

// A library may take any line feed for the end of a line.
absl::string_view FirstLine(absl::string_view line) {
  return line.substr(0, line.find_first_of("\r\n"));
}

// Removes the name of a scheme, in any case of letters, from the front.
bool ConsumeScheme(absl::string_view* header, absl::string_view scheme) {
  if (!absl::StartsWithIgnoreCase(*header, scheme)) return false;
  *header = absl::StripLeadingAsciiWhitespace(header->substr(scheme.size()));
  return true;
}

}  // namespace

bool IsLoopbackHost(absl::string_view host) {
  if (absl::StartsWith(host, "[")) {
    const size_t end = host.find(']');
    if (end == absl::string_view::npos || host.substr(1, end - 1) != "::1") return false;
    absl::string_view rest = host.substr(end + 1);
    return rest.empty() || (absl::ConsumePrefix(&rest, ":") && IsPort(rest));
  }
  const size_t colon = host.find(':');
  if (colon != absl::string_view::npos && !IsPort(host.substr(colon + 1))) return false;
  const absl::string_view name = host.substr(0, colon);
  return absl::EqualsIgnoreCase(name, "localhost") ||
         absl::EndsWithIgnoreCase(name, ".localhost") || IsLoopbackIpv4(name);
}

bool ShowsToken(absl::string_view authorization, absl::string_view token) {
  absl::string_view shown = authorization;
  if (ConsumeScheme(&shown, "Bearer ")) {
    return AreEqual(CleanPasted(shown), token);
  }
  std::string decoded;
  if (!ConsumeScheme(&shown, "Basic ") ||
      !absl::Base64Unescape(absl::StripTrailingAsciiWhitespace(shown), &decoded)) {
    return false;
  }
  const size_t colon = decoded.find(':');
  if (colon == std::string::npos) return false;
  // The user has pasted it into the browser's form.
  return AreEqual(CleanPasted(absl::string_view(decoded).substr(colon + 1)), token);
}

absl::StatusOr<std::string> ReadHttpToken(Files& files, const std::string& path) {
  const absl::StatusOr<bool> is_private = files.IsPrivate(path);
  const absl::StatusOr<std::string> text = ReadFile(files, path, kMostRead);
  for (const absl::Status& read : {is_private.status(), text.status()}) {
    if (!read.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("[http] token_file: ", read.message()));
    }
  }
  if (!*is_private) {
    return absl::InvalidArgumentError(absl::StrCat(
        "[http] token_file: ", path, " can be read by others; `chmod 600` makes it yours alone"));
  }
  const std::string token = CleanPasted(*text);
  const bool fits = token.size() >= kShortestHttpToken && token.size() <= kLongestHttpToken &&
                    std::all_of(token.begin(), token.end(), absl::ascii_isgraph);
  if (fits) return token;
  return absl::InvalidArgumentError(absl::StrCat(
      "[http] token_file: ", path, " must hold one line of ", kShortestHttpToken, " to ",
      kLongestHttpToken, " visible ASCII characters; `openssl rand -hex 32` draws one"));
}

size_t EndOfRequestHead(absl::string_view request) {
  const size_t end = request.find(kHeadEnd);
  return end == absl::string_view::npos ? end : end + kHeadEnd.size();
}

std::string PlainRequestHead(absl::string_view head) {
  const std::vector<absl::string_view> lines = absl::StrSplit(head, "\r\n");
  std::string plain = absl::StrCat(FirstLine(lines.front()), "\r\n");
  for (size_t i = 1; i < lines.size(); ++i) {
    const absl::string_view line = FirstLine(lines[i]);
    const absl::string_view name = line.substr(0, line.find(':'));
    for (const absl::string_view used : {"Host", "Authorization", "Last-Event-ID"}) {
      if (absl::EqualsIgnoreCase(name, used)) absl::StrAppend(&plain, line, "\r\n");
    }
  }
  return plain + "\r\n";
}

std::vector<std::pair<std::string, std::string>> SecurityHeaders() {
  return {{"Content-Security-Policy",
           "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
           "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
          {"X-Content-Type-Options", "nosniff"},
          {"X-Frame-Options", "DENY"},
          {"Referrer-Policy", "no-referrer"},
          {"Cross-Origin-Resource-Policy", "same-origin"},
          {"Cache-Control", "no-store"}};
}

}  // namespace atolld
