#include "daemon/transport/tls.h"

#include <grpc/grpc_security_constants.h>
#include <grpcpp/security/auth_context.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_certificate_verifier.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <vector>

#include "daemon/identity/certificate.h"
#include "daemon/identity/credentials.h"

namespace atolld {
namespace {

// Three small files; a renewal has a month.
constexpr unsigned kLookAgainSeconds = 5;

// Certificates remembered: more than connections at a time.
constexpr size_t kMostRead = 1024;

}  // namespace

TlsCredentials MakeTlsCredentials(const std::string& folder) {
  namespace tls = grpc::experimental;
  const auto provider = std::make_shared<tls::FileWatcherCertificateProvider>(
      KeyFile(folder), CertificateFile(folder), AuthorityFile(folder), kLookAgainSeconds);
  tls::TlsChannelCredentialsOptions dialling;
  dialling.set_certificate_provider(provider);
  dialling.watch_root_certs();
  dialling.watch_identity_key_cert_pairs();
  dialling.set_certificate_verifier(std::make_shared<tls::HostNameCertificateVerifier>());
  tls::TlsServerCredentialsOptions listening(provider);
  listening.watch_root_certs();
  listening.watch_identity_key_cert_pairs();
  listening.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  return {tls::TlsCredentials(dialling), tls::TlsServerCredentials(listening)};
}

absl::StatusOr<Identity> IdentityReader::Read(const grpc::AuthContext& context) {
  const std::vector<grpc::string_ref> shown =
      context.FindPropertyValues(GRPC_X509_PEM_CERT_PROPERTY_NAME);
  if (shown.size() != 1) return absl::UnauthenticatedError("no certificate was shown");
  const std::string pem(shown[0].data(), shown[0].size());
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = read_.find(pem);
  if (found != read_.end()) return found->second;
  const absl::StatusOr<CertificateInfo> info = ParseCertificate(pem);
  if (!info.ok()) return absl::UnauthenticatedError(info.status().message());
  if (read_.size() >= kMostRead) read_.clear();
  return read_.emplace(pem, info->identity).first->second;
}

}  // namespace atolld
