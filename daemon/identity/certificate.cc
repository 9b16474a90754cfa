#include "daemon/identity/certificate.h"

#include <openssl/asn1.h>
#include <openssl/bn.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/pem.h>

#include <ctime>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"
#include "daemon/identity/openssl.h"

namespace atolld {
namespace {

// Without it OpenSSL would ask at the terminal.
int NoPassword(char* /*buffer*/, int /*size*/, int /*writes*/, void* /*data*/) { return -1; }

std::shared_ptr<EVP_PKEY> Shared(EVP_PKEY* key) {
  return std::shared_ptr<EVP_PKEY>(key, EVP_PKEY_free);
}

std::string SerialOf(X509* certificate) {
  BIGNUM* const number = ASN1_INTEGER_to_BN(X509_get0_serialNumber(certificate), nullptr);
  if (number == nullptr) return "";
  char* const text = BN_bn2hex(number);
  std::string serial = text == nullptr ? "" : absl::AsciiStrToLower(text);
  OPENSSL_free(text);
  BN_free(number);
  return serial;
}

absl::StatusOr<absl::Time> TimeOf(const ASN1_TIME* time) {
  std::tm parts = {};
  if (time == nullptr || ASN1_TIME_to_tm(time, &parts) != 1) {
    return absl::InvalidArgumentError("the certificate's times cannot be read");
  }
  return absl::FromTM(parts, absl::UTCTimeZone());
}

// Returns the only URI among its alternative names.
absl::StatusOr<std::string> UriOf(X509* certificate) {
  const SslNames names(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  std::string uri;
  for (int i = 0; i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type != GEN_URI) continue;
    if (!uri.empty()) return absl::InvalidArgumentError("the certificate names two identities");
    const ASN1_IA5STRING* const text = name->d.uniformResourceIdentifier;
    uri.assign(reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
               static_cast<size_t>(ASN1_STRING_length(text)));
  }
  if (uri.empty()) return absl::InvalidArgumentError("the certificate names no identity");
  return uri;
}

std::string Day(absl::Time time) {
  return absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", time, absl::UTCTimeZone());
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
  if (key == nullptr) return absl::InvalidArgumentError("it is not a private key in PEM");
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

absl::StatusOr<CertificateInfo> ParseCertificate(absl::string_view pem) {
  ASSIGN_OR_RETURN(const SslCertificate certificate, ReadPemCertificate(pem));
  CertificateInfo info;
  ASSIGN_OR_RETURN(const std::string uri, UriOf(certificate.get()));
  ASSIGN_OR_RETURN(info.identity, ParseIdentityUri(uri));
  info.identity.serial = SerialOf(certificate.get());
  ASSIGN_OR_RETURN(info.not_before, TimeOf(X509_get0_notBefore(certificate.get())));
  ASSIGN_OR_RETURN(info.not_after, TimeOf(X509_get0_notAfter(certificate.get())));
  EVP_PKEY* const key = X509_get0_pubkey(certificate.get());
  if (key == nullptr) return absl::InvalidArgumentError("the certificate's key cannot be read");
  ASSIGN_OR_RETURN(info.key_digest, DigestOfKey(key));
  info.identity.key = info.key_digest;
  return info;
}

absl::Status CheckValidAt(const CertificateInfo& certificate, absl::Time now) {
  const char* const what = now > certificate.not_after    ? "has expired"
                           : now < certificate.not_before ? "is not yet valid"
                                                          : nullptr;
  if (what == nullptr) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat("the certificate of ", Describe(certificate.identity), " ", what,
                   ": it is valid from ", Day(certificate.not_before), " to ",
                   Day(certificate.not_after), ", and this machine's clock says ", Day(now)));
}

bool RenewalDue(const CertificateInfo& certificate, absl::Time now) {
  return certificate.not_after - now < (certificate.not_after - certificate.not_before) / 3;
}

absl::Status CheckSignedBy(absl::string_view pem, absl::string_view authority) {
  ASSIGN_OR_RETURN(const SslCertificate certificate, ReadPemCertificate(pem));
  ASSIGN_OR_RETURN(const SslCertificate issuer, ReadPemCertificate(authority));
  EVP_PKEY* const key = X509_get0_pubkey(issuer.get());
  const bool signed_by_it = key != nullptr && X509_verify(certificate.get(), key) == 1;
  ERR_clear_error();
  if (signed_by_it) return absl::OkStatus();
  return absl::InvalidArgumentError("the certificate was not signed by this authority");
}

std::string ServerName(Role role) {
  switch (role) {
    case Role::kCoordinator:
      return "coordinator.atoll.internal";
    case Role::kPeer:
    case Role::kAggregator:
      return "peer.atoll.internal";
    case Role::kJoin:
    case Role::kAdmin:
      return "";
  }
  return "";
}

}  // namespace atolld
