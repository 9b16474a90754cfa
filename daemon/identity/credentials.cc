#include "daemon/identity/credentials.h"

#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"
#include "daemon/identity/secret_folder.h"

namespace atolld {

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

}  // namespace atolld
