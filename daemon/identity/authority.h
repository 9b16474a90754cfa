// Authority: the cluster's own certificate authority (P-256), which signs the certificates of all
// its processes.
//
// It is made at the coordinator's first start and stored in the coordinator's folder; anyone who
// can read its key can make identities of any role. Used by one thread at a time. Functions that
// take Files block.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "daemon/env/env.h"
#include "daemon/identity/certificate.h"
#include "membership/trust/identity.h"

namespace atolld {

// The largest PEM file that is read. Real certificates and keys are far smaller.
inline constexpr size_t kLargestPemFile = 16384;

// The lifetime of a peer's certificate.
inline constexpr absl::Duration kCertificateLife = absl::Hours(24 * 90);

// The validity of a certificate begins this long before it is signed, for machines whose clocks are
// slow.
inline constexpr absl::Duration kLateClocks = absl::Hours(1);

// Returns the public key of a signing request, in the form of PrivateKey::Digest. Fails with
// INVALID_ARGUMENT if `request` is not a signing request of at most 4 KiB, if it was not signed
// with its own key, or if the key is not a P-256 key.
absl::StatusOr<std::string> SigningRequestKey(absl::string_view request);

class Authority {
 public:
  using Random = std::function<uint64_t()>;

  // Makes a new authority for `cluster`, valid for ten years. The serial numbers of its
  // certificates come from `random` (Executor::Random).
  static absl::StatusOr<std::unique_ptr<Authority>> Make(const std::string& cluster, absl::Time now,
                                                         Random random);

  // Reads FOLDER/certificate.pem and FOLDER/key.pem. If neither exists, makes a new authority and
  // writes both files (only their owner may read the key). Two processes that do this at the same
  // time get the same authority. Fails with FAILED_PRECONDITION if other users may read the key;
  // with INVALID_ARGUMENT if one of the files is missing or damaged, or the two do not match; and
  // with PERMISSION_DENIED if the certificate has expired.
  static absl::StatusOr<std::unique_ptr<Authority>> Open(Files& files, const std::string& folder,
                                                         const std::string& cluster, absl::Time now,
                                                         Random random);

  // Returns a certificate (PEM) for the key of a signing request (DER). Its only URI is the
  // identity. It is valid from an hour ago, for machines whose clocks are slow, until `life` from
  // now. Fails with the errors of SigningRequestKey.
  absl::StatusOr<std::string> Issue(absl::string_view request, Role role, const std::string& id,
                                    absl::Time now, absl::Duration life = kCertificateLife);

  // The folder that was given to Open; empty if the authority is not stored.
  const std::string& folder() const { return folder_; }
  const std::string& cluster() const { return cluster_; }
  // The authority's own certificate, in PEM.
  const std::string& certificate() const { return certificate_; }

 private:
  Authority(std::string cluster, std::string certificate, PrivateKey key, Random random,
            std::string folder);
  absl::Status Save(Files& files, const std::string& folder) const;

  const std::string cluster_;
  const std::string certificate_;
  const PrivateKey key_;
  const Random random_;
  const std::string folder_;
};

// The following functions keep a record, in an authority's folder, of the certificates that were
// signed without a coordinator. It has a copy of each, FOLDER/issued/SERIAL.pem, so that a
// coordinator can list and revoke them.
//
// Law: the copy is durable before the certificate is handed to its owner. Nothing is recorded if
// the authority has no folder.
absl::Status NoteIssued(Files& files, const Authority& authority, const std::string& certificate);
// Returns the recorded certificates. Files that cannot be read are skipped.
std::vector<CertificateInfo> ReadIssued(Files& files, const std::string& folder);
// Removes the certificates that have expired.
void ForgetIssued(Files& files, const std::string& folder, absl::Time now);

// Creates a folder of secrets so that it appears only once and complete, even if two processes do
// so at the same time. Each process makes its own folder beside the final place. The process that
// renames its folder first wins, and the other process uses that folder.
//
// Calls `fill` with a new folder, and renames the new folder to `folder`, which must be missing or
// empty. Returns true if this is done and durable. Returns false if another process was first,
// which is known from the file `witness` in `folder`. `random` is part of the name of the new
// folder.
absl::StatusOr<bool> PlaceFolder(Files& files, const std::string& folder,
                                 const std::string& witness, uint64_t random,
                                 const std::function<absl::Status(const std::string&)>& fill);

}  // namespace atolld
