// The tokens with which machines join a run: the book of all tokens and of the keys that have
// joined (EnrolmentBook), and the string that people pass on (JoinToken).
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

// EnrolmentBook: records which tokens were handed out, which key has used each of them, to which
// keys the authority has given a name, and what is revoked.
//
// A token is for one peer id. The first public key that is presented with a token spends it; after
// that only this key may be presented again. A machine can therefore repeat its request if the
// answer was lost. Law: the result of a call must be stored before it is sent to anyone. Pure:
// times are arguments. They are wall clock times, since people read them and certificates have
// them. Used by one thread.

// The record of a token, without its secret.
struct TokenRecord {
  std::string serial;   // the serial number of the token's certificate
  std::string peer;     // the id of the machine that joins with it
  std::string role;     // either "peer" or "aggregator"
  int64_t expires = 0;  // Unix seconds
  bool revoked = false;
  // The digest of the public key that has joined with it; empty if none has.
  std::string key{};
};

// A certificate that this authority has signed or that was presented to it. Fields that an older
// release did not record are empty or 0.
struct CertificateRecord {
  std::string serial;
  std::string peer;  // the name in the certificate, which may have any role
  bool revoked = false;
  // Unix seconds. The certificate may expire earlier than this.
  int64_t expires = 0;
  // True if the key was revoked, not only the name; the certificate cannot be reinstated.
  bool for_good = false;
  std::string role{};  // the result of RoleName
  // The fingerprint: SHA-256 of the public key, in lower-case hexadecimal.
  std::string key{};
  int64_t issued = 0;  // Unix seconds
  // Unix seconds of the last time that the certificate was presented; 0 if never.
  int64_t last_seen = 0;
};

// A key with the name that it was given, combined from all its certificates.
struct KeyRecord {
  std::string peer;
  std::string role;
  std::string key;  // empty if an older release did not record it
  bool revoked = false;
  bool for_good = false;
  int64_t issued = 0;     // the earliest time of all its certificates; 0 if unknown
  int64_t expires = 0;    // the latest time of all its certificates
  int64_t last_seen = 0;  // the latest time of all its certificates
};

class EnrolmentBook {
 public:
  // The most tokens that may be open at a time, so that a script in a loop cannot fill a disk.
  static constexpr size_t kMostOpenTokens = 4096;
  // The most keys that may be revoked for good at a time. Every peer must be sent each of them
  // until its certificates have expired.
  static constexpr size_t kMostRevokedKeys = 4096;

  EnrolmentBook(const std::vector<TokenRecord>& tokens,
                const std::vector<CertificateRecord>& certificates);

  // Creates a token with this serial for the peer. Fails with INVALID_ARGUMENT if the id or the
  // time is not valid or the role is neither peer nor aggregator, and with RESOURCE_EXHAUSTED if
  // too many tokens are open.
  absl::StatusOr<TokenRecord> Create(absl::Time now, const std::string& serial,
                                     const std::string& peer, Role role, absl::Duration valid);

  // Returns the record of a token. Fails with PERMISSION_DENIED if it is unknown, revoked or
  // expired.
  absl::StatusOr<TokenRecord> Look(absl::Time now, absl::string_view serial) const;

  // Called when `key` (the digest of a public key) is presented with the token. Fails with
  // PERMISSION_DENIED if the token is unknown, revoked or expired, or if another key has spent it.
  absl::StatusOr<TokenRecord> Spend(absl::Time now, absl::string_view serial,
                                    const std::string& key);

  // Revokes a token, so that no machine can join with it any more. A machine that has already
  // joined is not affected. Fails with NOT_FOUND if there is no such token.
  absl::StatusOr<TokenRecord> Revoke(const std::string& serial);

  // Returns "open", "spent", "revoked" or "expired".
  static std::string StateOf(const TokenRecord& token, absl::Time now);
  std::vector<TokenRecord> tokens() const;  // sorted by expiry

  // Records a certificate that was signed. It counts as revoked if its key is revoked. Returns the
  // record to store, or nullopt if nothing in it is new.
  std::optional<CertificateRecord> Note(CertificateRecord certificate);
  // Records that a certificate was presented. If it is not known, it is assumed to expire
  // `longest_life` from now. Returns the record to store at the first presentation and then once an
  // hour, and nullopt otherwise.
  std::optional<CertificateRecord> See(absl::Time now, const Identity& identity,
                                       absl::Duration longest_life);

  // Revokes or reinstates all certificates of a peer or aggregator, except certificates with keys
  // that are revoked for good. Returns the records that have changed.
  std::vector<CertificateRecord> SetRevoked(const std::string& peer, bool revoked);

  // Returns the keys that `what` names: all keys of the peer with that name or, if there is no such
  // peer, the key with a fingerprint that begins with `what`, which must have at least 8
  // characters. A whole fingerprint of 64 characters may also name a key that was never presented.
  // Fails with NOT_FOUND, and suggests a name, if there is no such key. Fails with INVALID_ARGUMENT
  // if several fingerprints begin with `what`.
  absl::StatusOr<std::vector<KeyRecord>> Find(const std::string& what) const;
  // Revokes the key for good, in all its certificates. Returns the records that have changed. Fails
  // with RESOURCE_EXHAUSTED, and changes nothing, if too many keys are revoked.
  absl::StatusOr<std::vector<CertificateRecord>> RevokeKey(absl::Time now, const KeyRecord& key,
                                                           absl::Duration longest_life);

  // Returns true if a certificate or its key is revoked.
  bool Revoked(const std::string& serial, const std::string& key = "") const;
  // Returns the keys that were revoked for good, which all peers must refuse.
  std::vector<KeyRecord> RevokedKeys() const;
  bool Knows(const std::string& serial) const { return certificates_.count(serial) != 0; }

  // Returns the keys, sorted by name, role and key.
  std::vector<KeyRecord> keys() const;
  // Returns "valid", "revoked" or "expired".
  static std::string StateOf(const KeyRecord& key, absl::Time now);

  struct Purged {
    std::vector<CertificateRecord> changed;
    std::vector<std::string> forgotten;  // the serials of removed tokens and certificates
  };
  // Forgets certificates a day after they expired, and tokens a month after they expired, so that
  // people can still ask about them for a while. If an older release did not record when a
  // certificate expires, it is assumed to expire `longest_life` from now. Returns the changes.
  Purged Purge(absl::Time now, absl::Duration longest_life);

 private:
  std::map<std::string, TokenRecord> tokens_;              // by serial
  std::map<std::string, CertificateRecord> certificates_;  // by serial
  std::set<std::string> revoked_keys_;                     // the keys that were revoked for good
  // The last presentation that See returned, by serial.
  std::map<std::string, int64_t> stored_sights_;
};

// -----------------------------------------------------------------------------------------------
// JoinToken: all that a machine needs to join a run, in one string that people can pass on.
//
//   atoll1-<base64url of: the serialised v1::JoinToken, then the first 8 bytes of its SHA-256>
//
// The checksum only distinguishes a damaged copy from a wrong token; it is no protection. The
// string is a secret, because its holder may join once. Pure. May be called from any thread.

// The longest string that is accepted; a real token has about 3,000 characters.
inline constexpr size_t kLongestJoinToken = 16384;

std::string FormatJoinToken(const v1::JoinToken& token);

// Finds the token in a pasted text. Removes everything that CleanPasted removes, and also quotes,
// the quote marks of a reply, line breaks, and punctuation and words around the token. If there is
// no token, returns the text as one word. Fails with INVALID_ARGUMENT if there are several tokens.
absl::StatusOr<std::string> CleanJoinToken(absl::string_view text);

// Parses the token in any text, from which it first removes what CleanJoinToken removes. Fails with
// INVALID_ARGUMENT and a message of one line if the text has no token, or if the token is damaged
// or incomplete. Only checks that the certificates are present, not that they are valid.
absl::StatusOr<v1::JoinToken> ParseJoinToken(absl::string_view text);

}  // namespace atolld
