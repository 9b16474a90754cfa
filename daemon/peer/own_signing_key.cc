#include "daemon/peer/own_signing_key.h"

#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"
#include "daemon/env/random_bytes.h"
#include "daemon/identity/signing_key_file.h"

namespace atolld {

absl::StatusOr<SigningKey> OwnSigningKey(Env env, const std::string& dir) {
  const std::string path = absl::StrCat(dir, "/signing_key.pem");
  absl::StatusOr<SigningKey> key = LoadSigningKey(env.files, path);
  if (!absl::IsNotFound(key.status())) return key;
  ASSIGN_OR_RETURN(SigningKey made, SigningKey::FromSeed(RandomBytes(env.executor)));
  ASSIGN_OR_RETURN(const std::string pem, made.ToPem());
  RETURN_IF_ERROR(WriteSecretDurably(env.files, path, BytesOf(pem)));
  return made;
}

}  // namespace atolld
