// The identities that lie in a coordinator's folder, made at its first start:
//
//   DIR/authority/   the cluster's authority; whoever reads its key can make any identity. With it
//                    the run's history key; whoever reads that can write the run's history
//   DIR/identity/    the coordinator's own credentials
//   DIR/admin/       the operator's: whoever reads them may give orders
//
// Blocking (files).
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/env/env.h"
#include "daemon/identity/authority.h"
#include "membership/history/signing_key.h"

namespace atolld {

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
