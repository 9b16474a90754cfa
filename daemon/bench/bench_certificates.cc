#include "daemon/bench/bench_certificates.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/status_macros.h"

namespace atolld {
namespace {

constexpr char kAuthority[] = "authority.pem";
constexpr char kCertificate[] = "certificate.pem";
constexpr char kKey[] = "key.pem";
constexpr long kDay = 24 * 60 * 60;
constexpr long kVersion3 = 2;  // as X.509 counts

template <auto Free>
struct Freed {
  template <typename T>
  void operator()(T* object) const {
    Free(object);
  }
};
using Key = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, Freed<X509_free>>;
using Extension = std::unique_ptr<X509_EXTENSION, Freed<X509_EXTENSION_free>>;
using Memory = std::unique_ptr<BIO, Freed<BIO_free_all>>;

absl::Status OpenSslError(absl::string_view what) {
  char reason[256];
  ERR_error_string_n(ERR_get_error(), reason, sizeof(reason));
  return absl::InternalError(absl::StrCat(what, ": ", reason));
}

absl::Status AddExtension(X509* certificate, X509* issuer, int kind, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const Extension extension(X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str()));
  if (extension == nullptr || X509_add_ext(certificate, extension.get(), -1) != 1) {
    return OpenSslError(absl::StrCat("certificate extension ", value));
  }
  return absl::OkStatus();
}

// Signed by `issuer` with `issuer_key`; by itself if there is no issuer.
absl::StatusOr<Certificate> MakeCertificate(EVP_PKEY* key, const char* name, long serial,
                                            X509* issuer, EVP_PKEY* issuer_key,
                                            const std::vector<std::pair<int, std::string>>& rest) {
  Certificate certificate(X509_new());
  X509* const x = certificate.get();
  X509_set_version(x, kVersion3);
  ASN1_INTEGER_set(X509_get_serialNumber(x), serial);
  X509_gmtime_adj(X509_getm_notBefore(x), -kDay);
  X509_gmtime_adj(X509_getm_notAfter(x), kDay);
  X509_set_pubkey(x, key);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(name), -1, -1, 0);
  X509* const by = issuer == nullptr ? x : issuer;
  X509_set_issuer_name(x, X509_get_subject_name(by));
  for (const auto& [kind, value] : rest) RETURN_IF_ERROR(AddExtension(x, by, kind, value));
  if (X509_sign(x, issuer_key, EVP_sha256()) == 0) return OpenSslError("signing a certificate");
  return certificate;
}

absl::Status WriteText(const std::string& path, const Memory& memory) {
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(memory.get(), &bytes);
  std::ofstream file(path, std::ios::binary);
  file.write(bytes, size);
  file.close();
  return file ? absl::OkStatus() : absl::UnknownError(absl::StrCat(path, ": cannot be written"));
}

absl::Status WriteCertificate(const std::string& path, X509* certificate) {
  const Memory memory(BIO_new(BIO_s_mem()));
  if (PEM_write_bio_X509(memory.get(), certificate) != 1) return OpenSslError(path);
  return WriteText(path, memory);
}

absl::StatusOr<std::string> ReadText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::NotFoundError(absl::StrCat(path, ": not there"));
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

absl::Status WriteBenchCertificates(const std::string& folder,
                                    const std::vector<std::string>& hosts) {
  const Key authority_key(EVP_EC_gen("P-256"));
  const Key key(EVP_EC_gen("P-256"));
  if (authority_key == nullptr || key == nullptr) return OpenSslError("making a key");
  ASSIGN_OR_RETURN(
      const Certificate authority,
      MakeCertificate(authority_key.get(), "Atoll benchmark authority", 1, nullptr,
                      authority_key.get(), {{NID_basic_constraints, "critical,CA:TRUE"}}));
  std::string names;
  for (const std::string& host : hosts) {
    absl::StrAppend(&names, names.empty() ? "" : ",", "IP:", host);
  }
  ASSIGN_OR_RETURN(
      const Certificate certificate,
      MakeCertificate(
          key.get(), "Atoll benchmark peer", 2, authority.get(), authority_key.get(),
          {{NID_subject_alt_name, names}, {NID_ext_key_usage, "serverAuth,clientAuth"}}));
  RETURN_IF_ERROR(WriteCertificate(absl::StrCat(folder, "/", kAuthority), authority.get()));
  RETURN_IF_ERROR(WriteCertificate(absl::StrCat(folder, "/", kCertificate), certificate.get()));
  const Memory memory(BIO_new(BIO_s_mem()));
  if (PEM_write_bio_PrivateKey(memory.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr) !=
      1) {
    return OpenSslError("writing a key");
  }
  return WriteText(absl::StrCat(folder, "/", kKey), memory);
}

absl::StatusOr<BenchCredentials> LoadBenchCredentials(const std::string& folder) {
  ASSIGN_OR_RETURN(const std::string authority, ReadText(absl::StrCat(folder, "/", kAuthority)));
  ASSIGN_OR_RETURN(const std::string certificate,
                   ReadText(absl::StrCat(folder, "/", kCertificate)));
  ASSIGN_OR_RETURN(const std::string key, ReadText(absl::StrCat(folder, "/", kKey)));
  BenchCredentials credentials;
  credentials.channel = grpc::SslCredentials({authority, key, certificate});
  grpc::SslServerCredentialsOptions server(
      GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  server.pem_root_certs = authority;
  server.pem_key_cert_pairs.push_back({key, certificate});
  credentials.server = grpc::SslServerCredentials(server);
  return credentials;
}

}  // namespace atolld
