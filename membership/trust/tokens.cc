#include "membership/trust/tokens.h"

#include <openssl/sha.h>

#include <algorithm>
#include <iterator>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "compression/base/names.h"
#include "compression/base/status_macros.h"

namespace atolld {
namespace {

constexpr absl::Duration kTokensListed = absl::Hours(24 * 30);
constexpr absl::Duration kCertificatesKept = absl::Hours(24);  // clocks differ
constexpr absl::Duration kLongestValid = absl::Hours(24 * 30);

absl::Time ExpiryOf(const TokenRecord& token) { return absl::FromUnixSeconds(token.expires); }

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

EnrolmentBook::EnrolmentBook(const std::vector<TokenRecord>& tokens,
                             const std::vector<CertificateRecord>& certificates) {
  for (const TokenRecord& token : tokens) tokens_[token.serial] = token;
  for (const CertificateRecord& certificate : certificates) {
    certificates_[certificate.serial] = certificate;
  }
}

absl::StatusOr<TokenRecord> EnrolmentBook::Create(absl::Time now, const std::string& serial,
                                                  const std::string& peer, Role role,
                                                  absl::Duration valid) {
  if (!IsValidId(peer)) {
    return absl::InvalidArgumentError(absl::StrCat("a peer's id has ", kIdGrammar));
  }
  if (role != Role::kPeer && role != Role::kAggregator) {
    return absl::InvalidArgumentError("a token is for the role peer or aggregator");
  }
  if (valid < absl::Seconds(1) || valid > kLongestValid) {
    return absl::InvalidArgumentError("a token is valid for 1 second to 30 days");
  }
  const auto open = std::count_if(tokens_.begin(), tokens_.end(), [&](const auto& entry) {
    return StateOf(entry.second, now) == "open";
  });
  if (static_cast<size_t>(open) >= kMostOpenTokens) {
    return absl::ResourceExhaustedError(
        absl::StrCat(open, " tokens are open already; revoke some"));
  }
  TokenRecord token;
  token.serial = serial;
  token.peer = peer;
  token.role = std::string(RoleName(role));
  token.expires = absl::ToUnixSeconds(now + valid);
  tokens_[serial] = token;
  return token;
}

absl::StatusOr<TokenRecord> EnrolmentBook::Look(absl::Time now, absl::string_view serial) const {
  const auto found = tokens_.find(std::string(serial));
  if (found == tokens_.end()) {
    return absl::PermissionDeniedError("the token is not one of this coordinator's");
  }
  const TokenRecord& token = found->second;
  if (token.revoked) return absl::PermissionDeniedError("the token was revoked");
  if (now > ExpiryOf(token)) return absl::PermissionDeniedError("the token has expired");
  return token;
}

absl::StatusOr<TokenRecord> EnrolmentBook::Spend(absl::Time now, absl::string_view serial,
                                                 const std::string& key) {
  RETURN_IF_ERROR(Look(now, serial).status());
  TokenRecord& token = tokens_.at(std::string(serial));
  if (!token.key.empty() && token.key != key) {
    return absl::PermissionDeniedError("the token is spent: another key has joined with it");
  }
  token.key = key;
  return token;
}

absl::StatusOr<TokenRecord> EnrolmentBook::Revoke(const std::string& serial) {
  const auto found = tokens_.find(serial);
  if (found == tokens_.end()) return absl::NotFoundError(absl::StrCat("no token ", serial));
  found->second.revoked = true;
  return found->second;
}

std::string EnrolmentBook::StateOf(const TokenRecord& token, absl::Time now) {
  if (token.revoked) return "revoked";
  if (!token.key.empty()) return "spent";
  return now > ExpiryOf(token) ? "expired" : "open";
}

std::vector<TokenRecord> EnrolmentBook::tokens() const {
  std::vector<TokenRecord> tokens;
  for (const auto& [serial, token] : tokens_) tokens.push_back(token);
  std::stable_sort(tokens.begin(), tokens.end(), [](const TokenRecord& a, const TokenRecord& b) {
    return a.expires < b.expires;
  });
  return tokens;
}

bool EnrolmentBook::Note(const CertificateRecord& certificate) {
  return certificates_.emplace(certificate.serial, certificate).second;
}

std::vector<CertificateRecord> EnrolmentBook::SetRevoked(const std::string& peer, bool revoked) {
  std::vector<CertificateRecord> changed;
  for (auto& [serial, certificate] : certificates_) {
    if (certificate.peer != peer || certificate.revoked == revoked) continue;
    certificate.revoked = revoked;
    changed.push_back(certificate);
  }
  return changed;
}

bool EnrolmentBook::Revoked(const std::string& serial) const {
  const auto found = certificates_.find(serial);
  return found != certificates_.end() && found->second.revoked;
}

EnrolmentBook::Purged EnrolmentBook::Purge(absl::Time now, absl::Duration longest_life) {
  Purged purged;
  for (auto it = tokens_.begin(); it != tokens_.end();) {
    const bool past = now > ExpiryOf(it->second) + kTokensListed;
    if (past) purged.forgotten.push_back(it->first);
    it = past ? tokens_.erase(it) : std::next(it);
  }
  for (auto it = certificates_.begin(); it != certificates_.end();) {
    CertificateRecord& certificate = it->second;
    if (certificate.expires == 0) {
      certificate.expires = absl::ToUnixSeconds(now + longest_life);
      purged.changed.push_back(certificate);
    }
    const bool past = now > absl::FromUnixSeconds(certificate.expires) + kCertificatesKept;
    if (past) purged.forgotten.push_back(it->first);
    it = past ? certificates_.erase(it) : std::next(it);
  }
  return purged;
}

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
