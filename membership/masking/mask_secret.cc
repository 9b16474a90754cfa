#include "membership/masking/mask_secret.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>

#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"
#include "compression/base/bytes.h"
#include "compression/base/check.h"
#include "membership/history/digest.h"

namespace atolld {
namespace {

struct FreeKdf {
  void operator()(EVP_KDF* kdf) const { EVP_KDF_free(kdf); }
};
struct FreeKdfContext {
  void operator()(EVP_KDF_CTX* context) const { EVP_KDF_CTX_free(context); }
};

// OpenSSL's parameters are not const, although it only reads this one.
OSSL_PARAM OctetsParam(const char* name, absl::string_view bytes) {
  return OSSL_PARAM_construct_octet_string(name, const_cast<char*>(bytes.data()), bytes.size());
}

}  // namespace

MaskSecret::~MaskSecret() { OPENSSL_cleanse(bytes_.data(), bytes_.size()); }

absl::StatusOr<MaskSecret> MaskSecret::FromBytes(absl::string_view bytes) {
  if (bytes.size() != kMaskSecretBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a mask's secret has ", kMaskSecretBytes, " bytes, not ", bytes.size()));
  }
  MaskSecret secret;
  std::memcpy(secret.bytes_.data(), bytes.data(), bytes.size());
  return secret;
}

MaskSecret MaskSecret::Derive(absl::string_view label, absl::string_view context) const {
  // Labels contain no zero byte, so no two pairs of label and context make the same text.
  const std::string info = absl::StrCat("atoll.mask.", label, absl::string_view("\0", 1), context);
  const std::unique_ptr<EVP_KDF, FreeKdf> kdf(EVP_KDF_fetch(nullptr, "HKDF", nullptr));
  const std::unique_ptr<EVP_KDF_CTX, FreeKdfContext> kdf_context(EVP_KDF_CTX_new(kdf.get()));
  char digest[] = "SHA256";
  const OSSL_PARAM params[] = {OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
                               OctetsParam(OSSL_KDF_PARAM_KEY, view()),
                               OctetsParam(OSSL_KDF_PARAM_INFO, info), OSSL_PARAM_construct_end()};
  MaskSecret derived;
  CHECK(kdf_context != nullptr);
  CHECK(EVP_KDF_derive(kdf_context.get(), derived.bytes_.data(), derived.bytes_.size(), params) ==
        1);
  return derived;
}

bool SameSecret(const MaskSecret& a, const MaskSecret& b) {
  return CRYPTO_memcmp(a.data(), b.data(), kMaskSecretBytes) == 0;
}

std::string CommitmentTo(const MaskSecret& secret) {
  const std::string text =
      absl::StrCat("atoll.mask.commitment", absl::string_view("\0", 1), secret.view());
  return ToBytes(Sha256(BytesOf(text)));
}

}  // namespace atolld
