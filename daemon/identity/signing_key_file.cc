#include "daemon/identity/signing_key_file.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"

namespace atolld {
namespace {

constexpr size_t kLargestKeyFile = 4096;

}  // namespace

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
  RETURN_IF_ERROR(files.MakeDirectories(path.substr(0, path.rfind('/'))));
  RETURN_IF_ERROR(WriteSecretDurably(files, path, BytesOf(pem)));
  return key;
}

}  // namespace atolld
