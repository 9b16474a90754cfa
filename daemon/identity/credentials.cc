#include "daemon/identity/credentials.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"

namespace atolld {
namespace {

constexpr size_t kLargestKeyFile = 4096;
constexpr char kCoordinatorId[] = "coordinator";
constexpr char kAdminId[] = "operator";

}  // namespace

std::string AuthorityFile(const std::string& folder) { return folder + "/authority.pem"; }
std::string CertificateFile(const std::string& folder) { return folder + "/certificate.pem"; }
std::string KeyFile(const std::string& folder) { return folder + "/key.pem"; }

absl::StatusOr<Credentials> MakeCredentials(Authority& authority, Role role, const std::string& id,
                                            absl::Time now, absl::Duration life) {
  ASSIGN_OR_RETURN(const PrivateKey key, PrivateKey::Generate());
  ASSIGN_OR_RETURN(const std::string request, key.SigningRequest());
  Credentials credentials;
  credentials.authority = authority.certificate();
  ASSIGN_OR_RETURN(credentials.certificate, authority.Issue(request, role, id, now, life));
  ASSIGN_OR_RETURN(credentials.key, key.ToPem());
  return credentials;
}

absl::StatusOr<CertificateInfo> CheckCredentials(const Credentials& credentials, absl::Time now) {
  ASSIGN_OR_RETURN(const CertificateInfo info, ParseCertificate(credentials.certificate));
  RETURN_IF_ERROR(CheckSignedBy(credentials.certificate, credentials.authority));
  ASSIGN_OR_RETURN(const PrivateKey key, PrivateKey::FromPem(credentials.key));
  ASSIGN_OR_RETURN(const std::string digest, key.Digest());
  if (digest != info.key_digest) {
    return absl::InvalidArgumentError("the key is not the certificate's");
  }
  RETURN_IF_ERROR(CheckValidAt(info, now));
  return info;
}

absl::StatusOr<CertificateInfo> LoadCredentials(Files& files, const std::string& folder,
                                                absl::Time now, Credentials* credentials) {
  Credentials read;
  ASSIGN_OR_RETURN(read.authority, ReadFile(files, AuthorityFile(folder), kLargestPemFile));
  ASSIGN_OR_RETURN(read.certificate, ReadFile(files, CertificateFile(folder), kLargestPemFile));
  ASSIGN_OR_RETURN(const bool hidden, files.IsPrivate(KeyFile(folder)));
  if (!hidden) {
    return absl::FailedPreconditionError(
        absl::StrCat(KeyFile(folder),
                     ": others may read this key; make it its owner's alone (chmod 600), or get a "
                     "new identity if somebody may have read it"));
  }
  ASSIGN_OR_RETURN(read.key, ReadFile(files, KeyFile(folder), kLargestPemFile));
  absl::StatusOr<CertificateInfo> info = CheckCredentials(read, now);
  if (!info.ok()) return Annotate(info.status(), folder);
  if (credentials != nullptr) *credentials = std::move(read);
  return info;
}

absl::Status SaveCredentials(Files& files, const std::string& folder,
                             const Credentials& credentials) {
  RETURN_IF_ERROR(files.MakeDirectories(folder));
  RETURN_IF_ERROR(files.Remove(CertificateFile(folder)));
  RETURN_IF_ERROR(WriteSecretDurably(files, KeyFile(folder), BytesOf(credentials.key)));
  RETURN_IF_ERROR(WriteFileDurably(files, AuthorityFile(folder), BytesOf(credentials.authority)));
  return SaveCertificate(files, folder, credentials.certificate);
}

absl::Status SaveCertificate(Files& files, const std::string& folder, const std::string& pem) {
  return WriteFileDurably(files, CertificateFile(folder), BytesOf(pem));
}

absl::Status EnsureCredentials(Files& files, Authority& authority, const std::string& folder,
                               Role role, const std::string& id, absl::Time now) {
  const bool first = !files.Exists(KeyFile(folder));  // before it is looked for
  Credentials credentials;
  const absl::StatusOr<CertificateInfo> info = LoadCredentials(files, folder, now, &credentials);
  if (absl::IsFailedPrecondition(info.status())) return info.status();
  const bool stands = info.ok() && credentials.authority == authority.certificate() &&
                      info->identity.role == role && info->identity.id == id &&
                      !RenewalDue(*info, now);
  if (stands) return absl::OkStatus();
  ASSIGN_OR_RETURN(const Credentials fresh, MakeCredentials(authority, role, id, now));
  RETURN_IF_ERROR(NoteIssued(files, authority, fresh.certificate));
  if (first) {
    const auto fill = [&](const std::string& staging) {
      return SaveCredentials(files, staging, fresh);
    };
    // The serial is as good as any random number, and at hand.
    ASSIGN_OR_RETURN(const CertificateInfo made, ParseCertificate(fresh.certificate));
    const uint64_t drawn = std::stoull(made.identity.serial.substr(0, 15), nullptr, 16);
    if (PlaceFolder(files, folder, CertificateFile(folder), drawn, fill).ok()) {
      return absl::OkStatus();
    }
  }
  return SaveCredentials(files, folder, fresh);  // the folder holds something else
}

absl::StatusOr<SigningKey> LoadSigningKey(Files& files, const std::string& path) {
  ASSIGN_OR_RETURN(const bool hidden, files.IsPrivate(path));
  if (!hidden) {
    return absl::FailedPreconditionError(absl::StrCat(
        path, ": others may read this signing key; make it its owner's alone (chmod 600)"));
  }
  ASSIGN_OR_RETURN(const std::string pem, ReadFile(files, path, kLargestKeyFile));
  absl::StatusOr<SigningKey> key = SigningKey::FromPem(pem);
  if (!key.ok()) return Annotate(key.status(), path);
  return key;
}

absl::StatusOr<SigningKey> EnsureSigningKey(Files& files, const std::string& path) {
  if (files.Exists(path)) return LoadSigningKey(files, path);
  ASSIGN_OR_RETURN(SigningKey key, SigningKey::Generate());
  ASSIGN_OR_RETURN(const std::string pem, key.ToPem());
  RETURN_IF_ERROR(files.MakeDirectories(DirectoryOf(path)));
  RETURN_IF_ERROR(WriteSecretDurably(files, path, BytesOf(pem)));
  return key;
}

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
