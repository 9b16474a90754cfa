#include "membership/masking/share_seal.h"

#include <openssl/err.h>
#include <openssl/evp.h>

#include <memory>

#include "compression/base/bytes.h"
#include "compression/base/check.h"

namespace atolld {
namespace {

struct FreeSealCipher {
  void operator()(EVP_CIPHER_CTX* context) const { EVP_CIPHER_CTX_free(context); }
};
using SealCipher = std::unique_ptr<EVP_CIPHER_CTX, FreeSealCipher>;

constexpr uint8_t kNoNonce[12] = {};  // the nonce length of the mode

unsigned char* Writable(std::string* text) {
  return reinterpret_cast<unsigned char*>(text->data());
}

}  // namespace

std::string SealText(const MaskSecret& key, absl::string_view text) {
  const SealCipher cipher(EVP_CIPHER_CTX_new());
  std::string sealed(text.size() + kSealTagBytes, '\0');
  int written = 0;
  int rest = 0;
  CHECK(cipher != nullptr);
  CHECK(EVP_EncryptInit_ex(cipher.get(), EVP_aes_256_gcm(), nullptr, key.data(), kNoNonce) == 1);
  CHECK(EVP_EncryptUpdate(cipher.get(), Writable(&sealed), &written, BytesOf(text).data(),
                          static_cast<int>(text.size())) == 1);
  CHECK(EVP_EncryptFinal_ex(cipher.get(), Writable(&sealed) + written, &rest) == 1);
  CHECK(EVP_CIPHER_CTX_ctrl(cipher.get(), EVP_CTRL_GCM_GET_TAG, kSealTagBytes,
                            Writable(&sealed) + text.size()) == 1);
  return sealed;
}

absl::StatusOr<std::string> OpenSealed(const MaskSecret& key, absl::string_view sealed) {
  constexpr char kBroken[] = "what was sealed for this party does not open: it was changed";
  if (sealed.size() < kSealTagBytes) return absl::InvalidArgumentError(kBroken);
  const absl::string_view body = sealed.substr(0, sealed.size() - kSealTagBytes);
  std::string tag(sealed.substr(body.size()));
  std::string text(body.size(), '\0');
  const SealCipher cipher(EVP_CIPHER_CTX_new());
  int written = 0;
  int rest = 0;
  CHECK(cipher != nullptr);
  CHECK(EVP_DecryptInit_ex(cipher.get(), EVP_aes_256_gcm(), nullptr, key.data(), kNoNonce) == 1);
  const bool opened =
      EVP_DecryptUpdate(cipher.get(), Writable(&text), &written, BytesOf(body).data(),
                        static_cast<int>(body.size())) == 1 &&
      EVP_CIPHER_CTX_ctrl(cipher.get(), EVP_CTRL_GCM_SET_TAG, kSealTagBytes, tag.data()) == 1 &&
      EVP_DecryptFinal_ex(cipher.get(), Writable(&text) + written, &rest) == 1;
  ERR_clear_error();
  if (!opened) return absl::InvalidArgumentError(kBroken);
  return text;
}

}  // namespace atolld
