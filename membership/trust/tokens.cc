#include "membership/trust/tokens.h"

#include <openssl/sha.h>

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "compression/base/names.h"
#include "compression/base/pasted.h"
#include "compression/base/status_macros.h"

namespace atolld {
namespace {

constexpr absl::Duration kTokensListed = absl::Hours(24 * 30);
constexpr absl::Duration kCertificatesKept = absl::Hours(24);  // because clocks differ
constexpr absl::Duration kLongestValid = absl::Hours(24 * 30);

// The last sight of a certificate is stored this often: one row an hour, whatever is called.
constexpr absl::Duration kSeenStored = absl::Hours(1);

constexpr size_t kFingerprintLength = 2 * SHA256_DIGEST_LENGTH;
constexpr size_t kShortestFingerprint = 8;

bool IsFingerprint(absl::string_view text) {
  return text.size() >= kShortestFingerprint && text.size() <= kFingerprintLength &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return absl::ascii_isdigit(static_cast<unsigned char>(c)) || (c >= 'a' && c <= 'f');
         });
}

// Returns true for a peer or aggregator. An older release recorded no others.
bool IsMember(const CertificateRecord& certificate) {
  return certificate.role.empty() || certificate.role == RoleName(Role::kPeer) ||
         certificate.role == RoleName(Role::kAggregator);
}

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
    stored_sights_[certificate.serial] = certificate.last_seen;
    if (certificate.for_good && !certificate.key.empty()) revoked_keys_.insert(certificate.key);
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

std::optional<CertificateRecord> EnrolmentBook::Note(CertificateRecord certificate) {
  if (revoked_keys_.count(certificate.key) != 0) {
    certificate.revoked = certificate.for_good = true;
  }
  const auto [place, fresh] = certificates_.emplace(certificate.serial, certificate);
  CertificateRecord& known = place->second;
  if (fresh) return known;
  const bool adds = known.key.empty() || (known.issued == 0 && certificate.issued != 0);
  if (!adds || certificate.key.empty()) return std::nullopt;
  // Fills in all fields that were unknown; the time of the last sight does not change.
  known.revoked = known.revoked || certificate.revoked;
  known.for_good = known.for_good || certificate.for_good;
  known.role = certificate.role;
  known.key = certificate.key;
  known.expires = certificate.expires;
  known.issued = certificate.issued;
  return known;
}

std::optional<CertificateRecord> EnrolmentBook::See(absl::Time now, const Identity& identity,
                                                    absl::Duration longest_life) {
  const int64_t seconds = absl::ToUnixSeconds(now);
  CertificateRecord shown;
  shown.serial = identity.serial;
  shown.peer = identity.id;
  shown.expires = absl::ToUnixSeconds(now + longest_life);
  shown.role = std::string(RoleName(identity.role));
  shown.key = identity.key;
  const auto known = certificates_.find(identity.serial);
  if (known != certificates_.end() && known->second.expires != 0) {
    shown.expires = std::min(shown.expires, known->second.expires);
  }
  const bool fresh = Note(shown).has_value();
  CertificateRecord& record = certificates_.at(identity.serial);
  record.last_seen = seconds;
  int64_t& stored = stored_sights_[identity.serial];
  if (!fresh && seconds - stored < absl::ToInt64Seconds(kSeenStored)) return std::nullopt;
  stored = seconds;
  return record;
}

std::vector<CertificateRecord> EnrolmentBook::SetRevoked(const std::string& peer, bool revoked) {
  std::vector<CertificateRecord> changed;
  for (auto& [serial, certificate] : certificates_) {
    const bool of_the_name = certificate.peer == peer && IsMember(certificate);
    if (!of_the_name || certificate.revoked == revoked || certificate.for_good) continue;
    certificate.revoked = revoked;
    changed.push_back(certificate);
  }
  return changed;
}

absl::StatusOr<std::vector<KeyRecord>> EnrolmentBook::Find(const std::string& what) const {
  if (what.empty()) {
    return absl::InvalidArgumentError("name a key, by the beginning of its fingerprint, or a name");
  }
  std::vector<KeyRecord> of_name, of_key;
  std::vector<std::string> names;
  std::set<std::string> fingerprints;
  const std::string lower = absl::AsciiStrToLower(what);
  const bool fingerprint = IsFingerprint(lower);
  for (KeyRecord& one : keys()) {
    if (one.key.empty()) continue;
    if (names.empty() || names.back() != one.peer) names.push_back(one.peer);
    if (fingerprint && absl::StartsWith(one.key, lower)) {
      fingerprints.insert(one.key);
      of_key.push_back(one);
    }
    if (one.peer == what) of_name.push_back(std::move(one));
  }
  if (!of_name.empty()) return of_name;
  if (fingerprints.size() > 1) {
    return absl::InvalidArgumentError(absl::StrCat("the fingerprints of ", fingerprints.size(),
                                                   " keys begin with ", lower,
                                                   "; give more of it"));
  }
  if (!of_key.empty()) return of_key;
  if (fingerprint && lower.size() == kFingerprintLength) {
    KeyRecord unseen;
    unseen.key = lower;
    return std::vector<KeyRecord>{unseen};
  }
  return absl::NotFoundError(UnknownNameMessage("identity", what, names));
}

absl::StatusOr<std::vector<CertificateRecord>> EnrolmentBook::RevokeKey(
    absl::Time now, const KeyRecord& key, absl::Duration longest_life) {
  std::vector<CertificateRecord> changed;
  if (revoked_keys_.count(key.key) != 0) return changed;
  if (revoked_keys_.size() >= kMostRevokedKeys) {
    return absl::ResourceExhaustedError(
        absl::StrCat(revoked_keys_.size(), " keys are revoked already; evict the peers instead"));
  }
  revoked_keys_.insert(key.key);
  for (auto& [serial, certificate] : certificates_) {
    if (certificate.key != key.key) continue;
    certificate.revoked = certificate.for_good = true;
    changed.push_back(certificate);
  }
  if (!changed.empty()) return changed;
  CertificateRecord unseen;  // only the key; no certificate has this serial
  unseen.serial = key.key;
  unseen.revoked = unseen.for_good = true;
  unseen.expires = absl::ToUnixSeconds(now + longest_life);
  unseen.key = key.key;
  certificates_[unseen.serial] = unseen;
  changed.push_back(unseen);
  return changed;
}

bool EnrolmentBook::Revoked(const std::string& serial, const std::string& key) const {
  const auto found = certificates_.find(serial);
  if (found != certificates_.end() && found->second.revoked) return true;
  return revoked_keys_.count(key) != 0;
}

std::vector<KeyRecord> EnrolmentBook::RevokedKeys() const {
  std::vector<KeyRecord> revoked;
  for (KeyRecord& key : keys()) {
    if (key.for_good) revoked.push_back(std::move(key));
  }
  return revoked;
}

std::vector<KeyRecord> EnrolmentBook::keys() const {
  std::map<std::tuple<std::string, std::string, std::string, std::string>, KeyRecord> keys;
  for (const auto& [serial, certificate] : certificates_) {
    // If the key is unknown, each certificate is listed by itself.
    const std::string& which = certificate.key.empty() ? serial : certificate.key;
    const auto [place, first] =
        keys.try_emplace({certificate.peer, certificate.role, certificate.key, which}, KeyRecord());
    KeyRecord& key = place->second;
    key.peer = certificate.peer;
    key.role = certificate.role;
    key.key = certificate.key;
    key.revoked = key.revoked || certificate.revoked;
    key.for_good = key.for_good || certificate.for_good;
    key.issued = first ? certificate.issued : std::min(key.issued, certificate.issued);
    key.expires = std::max(key.expires, certificate.expires);
    key.last_seen = std::max(key.last_seen, certificate.last_seen);
  }
  std::vector<KeyRecord> sorted;
  for (auto& [name, key] : keys) sorted.push_back(std::move(key));
  return sorted;
}

std::string EnrolmentBook::StateOf(const KeyRecord& key, absl::Time now) {
  if (key.revoked) return "revoked";
  return key.expires != 0 && now > absl::FromUnixSeconds(key.expires) ? "expired" : "valid";
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
    if (past) {
      purged.forgotten.push_back(it->first);
      stored_sights_.erase(it->first);
    }
    it = past ? certificates_.erase(it) : std::next(it);
  }
  revoked_keys_.clear();
  for (const auto& [serial, one] : certificates_) {
    if (one.for_good) revoked_keys_.insert(one.key);
  }
  return purged;
}

std::string FormatJoinToken(const v1::JoinToken& token) {
  std::string bytes = token.SerializeAsString();
  bytes += Checksum(bytes);
  return absl::StrCat(kPrefix, absl::WebSafeBase64Escape(bytes));
}

absl::StatusOr<std::string> CleanJoinToken(absl::string_view text) {
  // No token contains these characters: quotes, and marks of a reply, of Markdown and of a
  // continued line.
  constexpr absl::string_view kAround = "\"'`<>()[]{}*|\\=,;.:";
  const std::string clean = CleanPasted(text);
  std::string found;
  size_t tokens = 0;
  for (absl::string_view word : absl::StrSplit(clean, ' ', absl::SkipEmpty())) {
    const size_t begin = word.find_first_not_of(kAround);
    if (begin == absl::string_view::npos) continue;
    word = word.substr(begin, word.find_last_not_of(kAround) + 1 - begin);
    if (absl::StartsWith(word, kPrefix) && tokens++ == 0) found.clear();
    found.append(word.data(), word.size());
  }
  if (tokens > 1)
    return Wrong(absl::StrCat("is not a single one: the text holds ", tokens, " of them"));
  return found;
}

absl::StatusOr<v1::JoinToken> ParseJoinToken(absl::string_view pasted) {
  ASSIGN_OR_RETURN(const std::string clean, CleanJoinToken(pasted));
  absl::string_view text = clean;
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
