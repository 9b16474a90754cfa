// What a certificate says, once its signature was checked by whoever took it in: TLS does that for
// a call, LoadCredentials for a folder.
//
// Pure functions, any thread.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "membership/trust/identity.h"

namespace atolld {

struct CertificateInfo {
  Identity identity;  // with its serial
  absl::Time not_before;
  absl::Time not_after;
  std::string key_digest;  // SHA-256 of its public key, hexadecimal
};

// Of one PEM certificate. INVALID_ARGUMENT: it is none, or names no identity of Atoll.
absl::StatusOr<CertificateInfo> ParseCertificate(absl::string_view pem);

// PERMISSION_DENIED: it has expired or is not yet valid, with both times.
absl::Status CheckValidAt(const CertificateInfo& certificate, absl::Time now);

// Less than a third of its life is left.
bool RenewalDue(const CertificateInfo& certificate, absl::Time now);

// INVALID_ARGUMENT: `pem` was not signed by the certificate `authority`.
absl::Status CheckSignedBy(absl::string_view pem, absl::string_view authority);

// The DNS name that the certificate of whoever serves as this role carries; a dialler demands it.
// Empty: this role serves nothing.
std::string ServerName(Role role);

}  // namespace atolld
