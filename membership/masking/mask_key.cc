#include "membership/masking/mask_key.h"

#include <openssl/err.h>
#include <openssl/evp.h>

#include <memory>

#include "absl/strings/str_cat.h"
#include "compression/base/bytes.h"
#include "compression/base/check.h"

namespace atolld {
namespace {

struct FreeMaskKey {
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
struct FreeAgreement {
  void operator()(EVP_PKEY_CTX* context) const { EVP_PKEY_CTX_free(context); }
};
using OwnedMaskKey = std::unique_ptr<EVP_PKEY, FreeMaskKey>;

OwnedMaskKey PrivateHalf(const MaskSecret& secret) {
  OwnedMaskKey key(
      EVP_PKEY_new_raw_private_key(EVP_PKEY_X25519, nullptr, secret.data(), kMaskSecretBytes));
  CHECK(key != nullptr);  // any 32 bytes are a valid key
  return key;
}

}  // namespace

MaskKey::MaskKey(const MaskSecret& secret) : secret_(secret), public_key_(kMaskKeyBytes, '\0') {
  const OwnedMaskKey key = PrivateHalf(secret);
  size_t size = public_key_.size();
  CHECK(EVP_PKEY_get_raw_public_key(key.get(), reinterpret_cast<unsigned char*>(public_key_.data()),
                                    &size) == 1);
  CHECK(size == kMaskKeyBytes);
}

absl::StatusOr<MaskSecret> MaskKey::Agree(absl::string_view their_public_key,
                                          absl::string_view label,
                                          absl::string_view context) const {
  if (their_public_key.size() != kMaskKeyBytes) {
    return absl::InvalidArgumentError(absl::StrCat("a mask's public key has ", kMaskKeyBytes,
                                                   " bytes, not ", their_public_key.size()));
  }
  const OwnedMaskKey mine = PrivateHalf(secret_);
  const OwnedMaskKey theirs(EVP_PKEY_new_raw_public_key(
      EVP_PKEY_X25519, nullptr, BytesOf(their_public_key).data(), their_public_key.size()));
  const std::unique_ptr<EVP_PKEY_CTX, FreeAgreement> agreement(
      EVP_PKEY_CTX_new(mine.get(), nullptr));
  MaskSecret product;
  size_t size = kMaskSecretBytes;
  // OpenSSL refuses a product of zeros, as section 6.1 of the RFC advises.
  const bool agreed =
      theirs != nullptr && agreement != nullptr && EVP_PKEY_derive_init(agreement.get()) == 1 &&
      EVP_PKEY_derive_set_peer(agreement.get(), theirs.get()) == 1 &&
      EVP_PKEY_derive(agreement.get(), product.data(), &size) == 1 && size == kMaskSecretBytes;
  ERR_clear_error();
  if (!agreed) {
    return absl::InvalidArgumentError("no secret can be agreed on with this public key of a mask");
  }
  return product.Derive(label, context);
}

}  // namespace atolld
