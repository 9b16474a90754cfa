#include "daemon/publication/file_hash.h"

#include <openssl/evp.h>

#include "compression/base/check.h"

namespace atolld {

FileHash::FileHash() : context_(EVP_MD_CTX_new()) {
  CHECK(context_ != nullptr);
  CHECK(EVP_DigestInit_ex(context_, EVP_sha256(), nullptr) == 1);
}

FileHash::~FileHash() { EVP_MD_CTX_free(context_); }

void FileHash::Add(absl::Span<const uint8_t> bytes) {
  CHECK(EVP_DigestUpdate(context_, bytes.data(), bytes.size()) == 1);
}

Digest FileHash::Finish() {
  Digest digest;
  unsigned int size = 0;
  CHECK(EVP_DigestFinal_ex(context_, digest.data(), &size) == 1);
  CHECK(size == digest.size());
  return digest;
}

}  // namespace atolld
