#include "worker/base/sha256.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <cstdlib>

namespace atolld {
namespace {

constexpr size_t kBytes = 32;

EVP_MD_CTX* Of(void* context) { return static_cast<EVP_MD_CTX*>(context); }

// OpenSSL fails here only where there is no memory.
void Require(bool done) {
  if (!done) std::abort();
}

}  // namespace

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  Require(context_ != nullptr && EVP_DigestInit_ex(Of(context_), EVP_sha256(), nullptr) == 1);
}

Sha256::~Sha256() { EVP_MD_CTX_free(Of(context_)); }

Sha256& Sha256::Add(absl::Span<const uint8_t> bytes) {
  Require(EVP_DigestUpdate(Of(context_), bytes.data(), bytes.size()) == 1);
  return *this;
}

Sha256& Sha256::Add(const std::string& text) {
  return Add(absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(text.data()), text.size()));
}

std::string Sha256::Finish() {
  std::string digest(kBytes, '\0');
  Require(EVP_DigestFinal_ex(Of(context_), reinterpret_cast<uint8_t*>(digest.data()), nullptr) ==
          1);
  return digest;
}

std::string Sha256FromHex(const std::string& hex) {
  std::string bytes(hex.size() / 2, '\0');
  size_t length = 0;
  OPENSSL_hexstr2buf_ex(reinterpret_cast<uint8_t*>(bytes.data()), bytes.size(), &length,
                        hex.c_str(), /*sep=*/'\0');
  return bytes;
}

std::string Sha256Of(absl::Span<const uint8_t> bytes) { return Sha256().Add(bytes).Finish(); }

}  // namespace atolld
