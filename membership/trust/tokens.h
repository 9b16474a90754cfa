// The tokens that let machines join, and the keys that have joined: the book of those that were
// handed out, and the string that people pass on.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "atoll/v1/membership.pb.h"
#include "membership/trust/identity.h"

namespace atolld {

// EnrolmentBook: which tokens were handed out, to whom each of them led, which keys the authority
// has given a name, and which of them are no good any more.
//
// A token is for one peer id and is spent by the first public key that comes with it; after that
// only this key may come again, so that whoever won keeps what it won although the answer was lost.
// Law: what a call returns is stored before anybody is told of it. Pure: times come in (of the wall
// clock, since people read and certificates carry them), one thread.

// A token that lets one machine join. The secret is not here.
struct TokenRecord {
  std::string serial;   // of its certificate
  std::string peer;     // id that whoever joins with it gets
  std::string role;     // "peer" or "aggregator"
  int64_t expires = 0;  // Unix seconds
  bool revoked = false;
  std::string key{};  // digest of the public key that has joined with it; empty: nobody yet
};

// A certificate that was signed, or that somebody has come with. What an older release did not note
// is empty or 0.
struct CertificateRecord {
  std::string serial;
  std::string peer;  // or whoever else it names
  bool revoked = false;
  int64_t expires = 0;    // Unix seconds, or later than it does
  bool for_good = false;  // revoked with its key, not only with its name: nothing pardons it
  std::string role{};     // RoleName
  std::string key{};      // fingerprint: SHA-256 of its public key, lower-case hexadecimal
  int64_t issued = 0;     // Unix seconds
  int64_t last_seen = 0;  // Unix seconds, when it was last shown here; 0: never
};

// A key and the name that it was given, with all its certificates together.
struct KeyRecord {
  std::string peer;
  std::string role;
  std::string key;  // empty: an older release did not note it
  bool revoked = false;
  bool for_good = false;
  int64_t issued = 0;     // the first of them; 0: unknown
  int64_t expires = 0;    // the last
  int64_t last_seen = 0;  // any of them
};

class EnrolmentBook {
 public:
  // Open tokens at a time, so that a script in a loop fills no disk.
  static constexpr size_t kMostOpenTokens = 4096;
  // Keys revoked for good at a time: every peer is told of each, until its certificates have ended.
  static constexpr size_t kMostRevokedKeys = 4096;

  EnrolmentBook(const std::vector<TokenRecord>& tokens,
                const std::vector<CertificateRecord>& certificates);

  // A token of this serial for the peer. INVALID_ARGUMENT: the id, the role (peer or aggregator),
  // or the time. RESOURCE_EXHAUSTED: too many are open.
  absl::StatusOr<TokenRecord> Create(absl::Time now, const std::string& serial,
                                     const std::string& peer, Role role, absl::Duration valid);

  // The token, as it is. PERMISSION_DENIED: unknown, revoked or expired.
  absl::StatusOr<TokenRecord> Look(absl::Time now, absl::string_view serial) const;

  // `key` (the digest of a public key) comes with the token. PERMISSION_DENIED: as Look, or spent
  // by another key.
  absl::StatusOr<TokenRecord> Spend(absl::Time now, absl::string_view serial,
                                    const std::string& key);

  // Nobody joins with it any more; whoever has joined stays. NOT_FOUND: there is none.
  absl::StatusOr<TokenRecord> Revoke(const std::string& serial);

  // "open", "spent", "revoked" or "expired".
  static std::string StateOf(const TokenRecord& token, absl::Time now);
  std::vector<TokenRecord> tokens() const;  // by expiry

  // A certificate that was signed; one of a key that is revoked is revoked too. Returns what is to
  // be stored, if something of it was not known.
  std::optional<CertificateRecord> Note(CertificateRecord certificate);
  // It was shown; where it is not known, it ends `longest_life` from now at the latest. Returns
  // what is to be stored: the first sight, and then one an hour.
  std::optional<CertificateRecord> See(absl::Time now, const Identity& identity,
                                       absl::Duration longest_life);

  // The name of a peer or aggregator is put out, or let in again: of all its certificates, other
  // than those whose keys are revoked. Returns those that have changed.
  std::vector<CertificateRecord> SetRevoked(const std::string& peer, bool revoked);

  // The keys that `what` means: all that the name has, or else the one whose fingerprint begins so
  // (8 characters or more; all 64 may also name a key that nobody has come with yet). NOT_FOUND
  // suggests a name. INVALID_ARGUMENT: it is the beginning of several.
  absl::StatusOr<std::vector<KeyRecord>> Find(const std::string& what) const;
  // The key is no good any more, with whatever certificate, for good. Returns what has changed.
  // RESOURCE_EXHAUSTED: too many are revoked; then nothing has.
  absl::StatusOr<std::vector<CertificateRecord>> RevokeKey(absl::Time now, const KeyRecord& key,
                                                           absl::Duration longest_life);

  // Whether a certificate, or the key that it is for, is no good any more.
  bool Revoked(const std::string& serial, const std::string& key = "") const;
  // Those that were revoked for good: what peers are told to refuse.
  std::vector<KeyRecord> RevokedKeys() const;
  bool Knows(const std::string& serial) const { return certificates_.count(serial) != 0; }

  // By name, role and key.
  std::vector<KeyRecord> keys() const;
  // "valid", "revoked" or "expired".
  static std::string StateOf(const KeyRecord& key, absl::Time now);

  struct Purged {
    std::vector<CertificateRecord> changed;
    std::vector<std::string> forgotten;  // serials of tokens and certificates
  };
  // Forgets what time alone refuses: certificates a day after they have expired, and tokens a month
  // after, until when people may ask what became of them. Where an older release did not note when
  // a certificate expires, it does so `longest_life` from now. Returns what changed.
  Purged Purge(absl::Time now, absl::Duration longest_life);

 private:
  std::map<std::string, TokenRecord> tokens_;              // by serial
  std::map<std::string, CertificateRecord> certificates_;  // by serial
  std::set<std::string> revoked_keys_;                     // for good
  std::map<std::string, int64_t> stored_sights_;           // the last that See returned, by serial
};

// -----------------------------------------------------------------------------------------------
// JoinToken: all that a machine needs to join a run, as one string for people to hand on.
//
//   atoll1-<base64url of: the serialised v1::JoinToken, then the first 8 bytes of its SHA-256>
//
// The checksum tells a damaged copy from a wrong token; it protects nothing. Whoever has the string
// may join once: it is a secret. Pure functions, any thread; ParseJoinToken is total.

// Of the string: a real one has some 3,000 characters.
inline constexpr size_t kLongestJoinToken = 16384;

std::string FormatJoinToken(const v1::JoinToken& token);

// INVALID_ARGUMENT, in one line: no token, damaged, or something is missing. White space around it
// is no error. The certificates are only known to be there.
absl::StatusOr<v1::JoinToken> ParseJoinToken(absl::string_view text);

}  // namespace atolld
