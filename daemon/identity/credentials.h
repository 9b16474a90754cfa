// The secrets that lie in a process's folder: credentials, signing keys, and what a coordinator's
// folder holds besides.
//
// Credentials are what a process shows to others and what it checks others by: its key, its
// certificate, and the authority's certificate.
//
//   FOLDER/authority.pem   FOLDER/certificate.pem   FOLDER/key.pem (mode 0600)
//
// A coordinator's folder, whose secrets are made at its first start:
//
//   DIR/authority/   the cluster's authority; whoever reads its key can make any identity. With it
//                    the run's history key; whoever reads that can write the run's history
//   DIR/identity/    the coordinator's own credentials
//   DIR/admin/       the operator's: whoever reads them may give orders
//
// Law: a key that others may read is refused, and a key is written before its certificate. Blocking
// (files): before a loop runs, or on the pool.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/env/env.h"
#include "daemon/identity/authority.h"
#include "daemon/identity/certificate.h"
#include "membership/history/signing_key.h"

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

// A signing key's file: PEM, its owner's alone. Whoever reads it can sign in its owner's name.
// NOT_FOUND: there is no such file. FAILED_PRECONDITION: others may read it. INVALID_ARGUMENT: it
// holds no Ed25519 key.
absl::StatusOr<SigningKey> LoadSigningKey(Files& files, const std::string& path);

// The same; a fresh one is made and durable there if there is no such file. Its folder is made too.
absl::StatusOr<SigningKey> EnsureSigningKey(Files& files, const std::string& path);

inline constexpr char kAuthorityFolder[] = "authority";
inline constexpr char kIdentityFolder[] = "identity";  // in every process's folder
inline constexpr char kAdminFolder[] = "admin";

// Opens the authority of `dir`, or makes it for the run (an empty name: a drawn one), and sees to
// it that the two other folders hold what is valid and not due for renewal. Errors as
// Authority::Open and EnsureCredentials; they name the file.
absl::StatusOr<std::unique_ptr<Authority>> OpenCluster(Files& files, const std::string& dir,
                                                       const std::string& run_id, absl::Time now,
                                                       const Authority::Random& random);

// The last of these again, for a process that lives long.
absl::Status RenewCluster(Files& files, const std::string& dir, Authority& authority,
                          absl::Time now);

// The key of a run's history, beside the authority (also where there is none: in plain text).
// `make`: a new one may be made if there is none; else FAILED_PRECONDITION says where it should be.
// Other errors as LoadSigningKey.
absl::StatusOr<SigningKey> OpenHistoryKey(Files& files, const std::string& dir, bool make);

// It, from wherever a coordinator's key is. `make`: no run is stored, so it may be a new one.
using HistoryKeySource = std::function<absl::StatusOr<SigningKey>(bool make)>;

}  // namespace atolld
