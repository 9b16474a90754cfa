#include "daemon/identity/private_key.h"

#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/pem.h>

#include "compression/base/status_macros.h"
#include "daemon/identity/openssl.h"

namespace atolld {
namespace {

// Without it OpenSSL would ask at the terminal.
int NoPassword(char* /*buffer*/, int /*size*/, int /*writes*/, void* /*data*/) { return -1; }

std::shared_ptr<EVP_PKEY> Shared(EVP_PKEY* key) {
  return std::shared_ptr<EVP_PKEY>(key, EVP_PKEY_free);
}

}  // namespace

absl::StatusOr<PrivateKey> PrivateKey::Generate() {
  EVP_PKEY* const key = EVP_EC_gen("P-256");
  if (key == nullptr) return SslError("making a key");
  return PrivateKey(Shared(key));
}

absl::StatusOr<PrivateKey> PrivateKey::FromPem(absl::string_view pem) {
  const SslMemory reader = SslReader(pem);
  EVP_PKEY* const key = PEM_read_bio_PrivateKey(reader.get(), nullptr, NoPassword, nullptr);
  ERR_clear_error();
  if (key == nullptr) return absl::InvalidArgumentError("it is no private key in PEM");
  return PrivateKey(Shared(key));
}

absl::StatusOr<std::string> PrivateKey::ToPem() const {
  const SslMemory memory(BIO_new(BIO_s_mem()));
  if (PEM_write_bio_PKCS8PrivateKey(memory.get(), get(), nullptr, nullptr, 0, nullptr, nullptr) !=
      1) {
    return SslError("writing a key");
  }
  return SslText(memory);
}

absl::StatusOr<std::string> PrivateKey::SigningRequest() const {
  const SslRequest request(X509_REQ_new());
  if (request == nullptr || X509_REQ_set_version(request.get(), X509_REQ_VERSION_1) != 1 ||
      X509_REQ_set_pubkey(request.get(), get()) != 1 ||
      X509_REQ_sign(request.get(), get(), EVP_sha256()) == 0) {
    return SslError("signing a request");
  }
  unsigned char* bytes = nullptr;
  const int size = i2d_X509_REQ(request.get(), &bytes);
  if (size <= 0) return SslError("writing a request");
  std::string der(reinterpret_cast<const char*>(bytes), static_cast<size_t>(size));
  OPENSSL_free(bytes);
  return der;
}

absl::StatusOr<std::string> PrivateKey::Digest() const { return DigestOfKey(get()); }

}  // namespace atolld
