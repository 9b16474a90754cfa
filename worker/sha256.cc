#include "worker/sha256.h"

#include <openssl/evp.h>

namespace atolld {

struct Sha256::Context {
  EVP_MD_CTX* evp = EVP_MD_CTX_new();
  bool good = evp != nullptr && EVP_DigestInit_ex(evp, EVP_sha256(), nullptr) == 1;
};

Sha256::Sha256() : context_(new Context) {}
Sha256::~Sha256() { EVP_MD_CTX_free(context_->evp); }

void Sha256::Add(absl::Span<const uint8_t> bytes) {
  context_->good =
      context_->good && EVP_DigestUpdate(context_->evp, bytes.data(), bytes.size()) == 1;
}

void Sha256::Add(absl::string_view text) {
  Add(absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(text.data()), text.size()));
}

absl::StatusOr<std::string> Sha256::Finish() {
  std::string digest(32, '\0');
  if (!context_->good ||
      EVP_DigestFinal_ex(context_->evp, reinterpret_cast<unsigned char*>(digest.data()), nullptr) !=
          1) {
    return absl::InternalError("SHA-256 failed");
  }
  return digest;
}

}  // namespace atolld
