// Reads and makes the secrets in a process's folder: its credentials, its signing keys, and the
// further secrets of a coordinator.
//
// Credentials are a process's key and certificate, with which it proves its identity, and the
// authority's certificate, with which it checks the certificates of others.
//
//   FOLDER/authority.pem   FOLDER/certificate.pem   FOLDER/key.pem (mode 0600)
//
// A coordinator's folder, whose secrets are made at its first start:
//
//   DIR/authority/   the cluster's authority, and the key of the run's history. Anyone who can read
//                    the former can make any identity; anyone who can read the latter can write the
//                    run's history.
//   DIR/identity/    the coordinator's own credentials
//   DIR/admin/       the operator's credentials; anyone who can read them may give orders
//
// Law: a key that other users may read is refused, and a key is written before its certificate.
// Functions that take Files block; call them before a loop runs, or on the pool.
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

// Return the paths of the files in a folder of credentials.
std::string AuthorityFile(const std::string& folder);
std::string CertificateFile(const std::string& folder);
std::string KeyFile(const std::string& folder);

struct Credentials {
  std::string authority;    // The authority's certificate, in PEM like the other two.
  std::string certificate;  // The process's certificate, signed by the authority.
  std::string key;
};

// Makes credentials for the identity `id` in this role, with a new key.
absl::StatusOr<Credentials> MakeCredentials(Authority& authority, Role role, const std::string& id,
                                            absl::Time now, absl::Duration life = kCertificateLife);

// Checks that the certificate belongs to the key, is signed by the authority, and is valid at
// `now`. Returns the contents of the certificate.
absl::StatusOr<CertificateInfo> CheckCredentials(const Credentials& credentials, absl::Time now);

// Reads and checks the credentials in a folder. Fails with NOT_FOUND if a file is missing (the
// message names it), with FAILED_PRECONDITION if other users may read the key, and with the errors
// of CheckCredentials, whose messages then name the folder.
absl::StatusOr<CertificateInfo> LoadCredentials(Files& files, const std::string& folder,
                                                absl::Time now, Credentials* credentials = nullptr);

// Creates the folder if it is missing, and writes the credentials. After a crash the folder has
// either the old credentials, or the new ones, or none that can be loaded.
absl::Status SaveCredentials(Files& files, const std::string& folder,
                             const Credentials& credentials);

// Replaces only the certificate in a folder, after its renewal for the same key.
absl::Status SaveCertificate(Files& files, const std::string& folder, const std::string& pem);

// Makes sure that `folder` holds valid credentials of this identity. Replaces the existing
// credentials by new ones if they have expired, are due for renewal, or belong to another authority
// or identity. Only a process that has the authority can call this. Fails with FAILED_PRECONDITION
// if other users may read the key.
absl::Status EnsureCredentials(Files& files, Authority& authority, const std::string& folder,
                               Role role, const std::string& id, absl::Time now);

// Loads a signing key from a PEM file. Only its owner may be able to read the file, because anyone
// who has the key can sign in the owner's name. Fails with NOT_FOUND if the file does not exist,
// with FAILED_PRECONDITION if other users may read it, and with INVALID_ARGUMENT if it does not
// hold an Ed25519 key.
absl::StatusOr<SigningKey> LoadSigningKey(Files& files, const std::string& path);

// Loads a signing key like LoadSigningKey. If the file does not exist, makes a new key and writes
// it durably; creates the file's folder if it is missing.
absl::StatusOr<SigningKey> EnsureSigningKey(Files& files, const std::string& path);

inline constexpr char kAuthorityFolder[] = "authority";
inline constexpr char kIdentityFolder[] = "identity";  // The name in every process's folder.
inline constexpr char kAdminFolder[] = "admin";

// Opens the authority in the coordinator's folder `dir`, or makes a new authority for the run; if
// `run_id` is empty, the cluster gets a random name. Also makes sure that the folders of the
// coordinator and the operator hold credentials that are valid and not due for renewal. Fails with
// the errors of Authority::Open and EnsureCredentials; the message names the file.
absl::StatusOr<std::unique_ptr<Authority>> OpenCluster(Files& files, const std::string& dir,
                                                       const std::string& run_id, absl::Time now,
                                                       const Authority::Random& random);

// Renews the credentials of the coordinator and the operator if they are due. A process that runs
// for a long time calls this from time to time.
absl::Status RenewCluster(Files& files, const std::string& dir, Authority& authority,
                          absl::Time now);

// Returns the key of a run's history, which is stored beside the authority. A run in plain text has
// this key too. If the key does not exist and `make` is true, makes a new one. If `make` is false,
// fails with FAILED_PRECONDITION; the message says where the key should be. Other errors are those
// of LoadSigningKey.
absl::StatusOr<SigningKey> OpenHistoryKey(Files& files, const std::string& dir, bool make);

// Returns the key of a run's history from the place where a coordinator stores it. `make` is true
// if no run is stored yet, so that a new key may be made.
using HistoryKeySource = std::function<absl::StatusOr<SigningKey>(bool make)>;

}  // namespace atolld
