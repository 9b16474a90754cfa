#include "daemon/identity/openssl.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/sha.h>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace atolld {

absl::Status SslError(absl::string_view what) {
  char reason[256];
  ERR_error_string_n(ERR_get_error(), reason, sizeof reason);
  ERR_clear_error();
  return absl::InternalError(absl::StrCat(what, ": ", reason));
}

SslMemory SslReader(absl::string_view text) {
  return SslMemory(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

std::string SslText(const SslMemory& memory) {
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(memory.get(), &bytes);
  return std::string(bytes, static_cast<size_t>(size));
}

absl::StatusOr<SslCertificate> ReadPemCertificate(absl::string_view pem) {
  const SslMemory reader = SslReader(pem);
  SslCertificate certificate(PEM_read_bio_X509(reader.get(), nullptr, nullptr, nullptr));
  ERR_clear_error();
  if (certificate == nullptr) return absl::InvalidArgumentError("it is not a certificate in PEM");
  return certificate;
}

absl::StatusOr<std::string> DigestOfKey(EVP_PKEY* key) {
  unsigned char* bytes = nullptr;
  const int size = i2d_PUBKEY(key, &bytes);
  if (size <= 0) return SslError("writing a public key");
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(bytes, static_cast<size_t>(size), digest);
  OPENSSL_free(bytes);
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(digest), sizeof digest));
}

}  // namespace atolld
