#include "daemon/identity/cluster.h"

#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"
#include "daemon/identity/credentials.h"
#include "daemon/identity/signing_key_file.h"

namespace atolld {
namespace {

constexpr char kCoordinatorId[] = "coordinator";
constexpr char kAdminId[] = "operator";

}  // namespace

absl::StatusOr<std::unique_ptr<Authority>> OpenCluster(Files& files, const std::string& dir,
                                                       const std::string& run_id, absl::Time now,
                                                       const Authority::Random& random) {
  const std::string cluster =
      run_id.empty() ? absl::StrCat("cluster-", absl::Hex(random(), absl::kZeroPad16)) : run_id;
  ASSIGN_OR_RETURN(
      std::unique_ptr<Authority> authority,
      Authority::Open(files, absl::StrCat(dir, "/", kAuthorityFolder), cluster, now, random));
  RETURN_IF_ERROR(RenewCluster(files, dir, *authority, now));
  return authority;
}

absl::Status RenewCluster(Files& files, const std::string& dir, Authority& authority,
                          absl::Time now) {
  RETURN_IF_ERROR(EnsureCredentials(files, authority, absl::StrCat(dir, "/", kIdentityFolder),
                                    Role::kCoordinator, kCoordinatorId, now));
  return EnsureCredentials(files, authority, absl::StrCat(dir, "/", kAdminFolder), Role::kAdmin,
                           kAdminId, now);
}

absl::StatusOr<SigningKey> OpenHistoryKey(Files& files, const std::string& dir, bool make) {
  const std::string path = absl::StrCat(dir, "/", kAuthorityFolder, "/history_key.pem");
  if (make) return EnsureSigningKey(files, path);
  absl::StatusOr<SigningKey> key = LoadSigningKey(files, path);
  if (!absl::IsNotFound(key.status())) return key;
  return absl::FailedPreconditionError(
      absl::StrCat("the history of this run is signed, and its key is not at ", path,
                   ": put it back; without it nobody can go on with the run"));
}

}  // namespace atolld
