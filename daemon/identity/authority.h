// Authority: the cluster's own certificate authority (P-256), which signs who may take part.
//
// Made at the coordinator's first start, it lives in the coordinator's folder; whoever reads its
// key can make identities of any role. Immutable but for the random numbers that it takes; one
// thread at a time. PlaceFolder puts its folder in place, and those of credentials. Both are
// blocking where they take Files.
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

// A certificate or key in PEM is far smaller.
inline constexpr size_t kLargestPemFile = 16384;

// How long a peer's certificate lives.
inline constexpr absl::Duration kCertificateLife = absl::Hours(24 * 90);

// So long before it was signed a certificate is valid already, for clocks that are late.
inline constexpr absl::Duration kLateClocks = absl::Hours(1);

// The public key of a signing request, as PrivateKey::Digest names it. INVALID_ARGUMENT: it is no
// request of at most 4 KiB, its signature is not its key's, or the key is not of P-256.
absl::StatusOr<std::string> SigningRequestKey(absl::string_view request);

class Authority {
 public:
  using Random = std::function<uint64_t()>;

  // A fresh authority for `cluster`, valid for ten years. `random` (Executor::Random) numbers its
  // certificates.
  static absl::StatusOr<std::unique_ptr<Authority>> Make(const std::string& cluster, absl::Time now,
                                                         Random random);

  // Of FOLDER/certificate.pem and FOLDER/key.pem; made and written there (the key for its owner
  // alone) if neither exists; of two processes that
  // begin there at once both get the same one. FAILED_PRECONDITION: others may read the key.
  // INVALID_ARGUMENT: one of the two is missing, damaged, or not the other's. PERMISSION_DENIED: it
  // has expired.
  static absl::StatusOr<std::unique_ptr<Authority>> Open(Files& files, const std::string& folder,
                                                         const std::string& cluster, absl::Time now,
                                                         Random random);

  // A certificate (PEM) for the key of a signing request (DER): the identity as its one URI, valid
  // from an hour ago, for clocks that are late, and for `life` from now. Errors as
  // SigningRequestKey.
  absl::StatusOr<std::string> Issue(absl::string_view request, Role role, const std::string& id,
                                    absl::Time now, absl::Duration life = kCertificateLife);

  // Where Open found it; empty: it is nowhere.
  const std::string& folder() const { return folder_; }
  const std::string& cluster() const { return cluster_; }
  const std::string& certificate() const { return certificate_; }  // PEM

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

// What an authority's folder says of certificates that were signed without a coordinator: a copy of
// each, FOLDER/issued/SERIAL.pem, so that a coordinator can list and revoke them.
//
// Law: the copy is durable before its owner has the certificate. Nothing is noted of an authority
// that is in no folder.
absl::Status NoteIssued(Files& files, const Authority& authority, const std::string& certificate);
// Those that can be read; what cannot names nobody.
std::vector<CertificateInfo> ReadIssued(Files& files, const std::string& folder);
// Removes those that have expired.
void ForgetIssued(Files& files, const std::string& folder, absl::Time now);

// Puts a folder of secrets in place: whole, and once. Two processes may begin in one folder at the
// same time. Each makes what it needs under a name of its own beside it; the first rename wins, and
// the other takes what it finds.
//
// Calls `fill` with a new folder, and makes that `folder`, which must not exist or be empty. True:
// so it is, durably. False: another process was first, and the file `witness`, in `folder`, is
// there. `random` names the new folder.
absl::StatusOr<bool> PlaceFolder(Files& files, const std::string& folder,
                                 const std::string& witness, uint64_t random,
                                 const std::function<absl::Status(const std::string&)>& fill);

}  // namespace atolld
