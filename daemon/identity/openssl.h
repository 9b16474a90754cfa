// Owning pointers to OpenSSL's objects, and conversion of its errors to statuses. Only for use in
// daemon/identity and daemon/transport.
#pragma once

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace atolld {

template <auto Free>
struct FreedBy {
  template <typename T>
  void operator()(T* object) const {
    Free(object);
  }
};
using SslCertificate = std::unique_ptr<X509, FreedBy<X509_free>>;
using SslRequest = std::unique_ptr<X509_REQ, FreedBy<X509_REQ_free>>;
using SslExtension = std::unique_ptr<X509_EXTENSION, FreedBy<X509_EXTENSION_free>>;
using SslNames = std::unique_ptr<GENERAL_NAMES, FreedBy<GENERAL_NAMES_free>>;
using SslMemory = std::unique_ptr<BIO, FreedBy<BIO_free_all>>;

// Returns INTERNAL with `what` and OpenSSL's own message, and empties OpenSSL's queue of errors.
absl::Status SslError(absl::string_view what);

SslMemory SslReader(absl::string_view text);  // The text must outlive the result.
std::string SslText(const SslMemory& memory);

// Reads one PEM certificate; fails with INVALID_ARGUMENT if the text is not one.
absl::StatusOr<SslCertificate> ReadPemCertificate(absl::string_view pem);

// Returns the SHA-256 of the key's SubjectPublicKeyInfo, in hexadecimal. It identifies a key pair.
absl::StatusOr<std::string> DigestOfKey(EVP_PKEY* key);

}  // namespace atolld
