// Credentials: what a process shows to others and what it checks others by - its key, its
// certificate, and the authority's certificate - and the folder where they lie.
//
//   FOLDER/authority.pem   FOLDER/certificate.pem   FOLDER/key.pem (mode 0600)
//
// Law: a key that others may read is refused, and a key is written before its certificate. Blocking
// (files).
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/env/env.h"
#include "daemon/identity/authority.h"
#include "daemon/identity/certificate.h"
#include "daemon/identity/private_key.h"

namespace atolld {

// The files of a folder of credentials.
std::string AuthorityFile(const std::string& folder);
std::string CertificateFile(const std::string& folder);
std::string KeyFile(const std::string& folder);

struct Credentials {
  std::string authority;    // PEM, as the two below
  std::string certificate;  // signed by it
  std::string key;
};

// Both as one identity for `id`, with a fresh key.
absl::StatusOr<Credentials> MakeCredentials(Authority& authority, Role role, const std::string& id,
                                            absl::Time now, absl::Duration life = kCertificateLife);

// OK: the certificate is the key's, signed by the authority, and valid at `now`.
absl::StatusOr<CertificateInfo> CheckCredentials(const Credentials& credentials, absl::Time now);

// NOT_FOUND names the missing file. FAILED_PRECONDITION: others may read the key. Else as
// CheckCredentials, with the folder.
absl::StatusOr<CertificateInfo> LoadCredentials(Files& files, const std::string& folder,
                                                absl::Time now, Credentials* credentials = nullptr);

// Makes the folder. A crash leaves what was there, or nothing that can be loaded, or all of it.
absl::Status SaveCredentials(Files& files, const std::string& folder,
                             const Credentials& credentials);

// Only the certificate of a folder, for the same key: what a renewal brings.
absl::Status SaveCertificate(Files& files, const std::string& folder, const std::string& pem);

// Credentials of this identity in `folder`: those that are there, unless they have expired, are due
// for renewal, or are of another authority or identity; then fresh ones. For whoever has the
// authority at hand. FAILED_PRECONDITION: others may read the key.
absl::Status EnsureCredentials(Files& files, Authority& authority, const std::string& folder,
                               Role role, const std::string& id, absl::Time now);

}  // namespace atolld
