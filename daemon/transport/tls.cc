#include "daemon/transport/tls.h"

#include <grpc/grpc_security_constants.h>
#include <grpcpp/security/auth_context.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_certificate_verifier.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "daemon/identity/certificate.h"
#include "daemon/identity/credentials.h"
#include "daemon/transport/grpc_values.h"

namespace atolld {
namespace {

// Reading three small files costs little; a renewal has a month.
constexpr unsigned kLookAgainSeconds = 5;

// The number of remembered certificates: more than connections at a time.
constexpr size_t kMostRead = 1024;

namespace tls = grpc::experimental;

// Accepts a handshake only with this peer. gRPC checks separately that the authority signed the
// certificate and that it has the role's name.
class PeerVerifier final : public tls::ExternalCertificateVerifier {
 public:
  PeerVerifier(std::string peer, std::shared_ptr<RefusedKeys> refused)
      : peer_(std::move(peer)), refused_(std::move(refused)) {}

  bool Verify(tls::TlsCustomVerificationCheckRequest* request, std::function<void(grpc::Status)>,
              grpc::Status* status) override {
    absl::Status checked = Check(request->uri_names());
    if (checked.ok())
      checked = CheckKey(std::string(request->peer_cert().data(), request->peer_cert().size()));
    *status = ToGrpc(checked);
    return true;
  }
  void Cancel(tls::TlsCustomVerificationCheckRequest*) override {}

 private:
  absl::Status Check(const std::vector<grpc::string_ref>& uris) const {
    if (uris.size() != 1)
      return absl::UnauthenticatedError("the process that answers names no identity");
    const absl::StatusOr<Identity> shown =
        ParseIdentityUri(absl::string_view(uris[0].data(), uris[0].size()));
    if (!shown.ok()) return absl::UnauthenticatedError(shown.status().message());
    const bool serves = shown->role == Role::kPeer || shown->role == Role::kAggregator;
    if (serves && shown->id == peer_) return absl::OkStatus();
    return absl::UnauthenticatedError(
        absl::StrCat("peer ", peer_, " should be there, and it is ", Describe(*shown)));
  }

  absl::Status CheckKey(const std::string& pem) const {
    const absl::StatusOr<CertificateInfo> info = ParseCertificate(pem);
    if (!info.ok()) return absl::UnauthenticatedError(info.status().message());
    if (!refused_->Has(info->key_digest)) return absl::OkStatus();
    return absl::UnauthenticatedError(
        absl::StrCat("the process that answers for peer ", peer_, " has a key that was revoked"));
  }

  const std::string peer_;
  const std::shared_ptr<RefusedKeys> refused_;
};

std::shared_ptr<grpc::ChannelCredentials> ChannelWith(
    const std::shared_ptr<tls::CertificateProviderInterface>& provider,
    std::shared_ptr<tls::CertificateVerifier> verifier) {
  tls::TlsChannelCredentialsOptions dialling;
  dialling.set_certificate_provider(provider);
  dialling.watch_root_certs();
  dialling.watch_identity_key_cert_pairs();
  dialling.set_certificate_verifier(std::move(verifier));
  return tls::TlsCredentials(dialling);
}

}  // namespace

TlsCredentials MakeTlsCredentials(const std::string& folder) {
  const auto provider = std::make_shared<tls::FileWatcherCertificateProvider>(
      KeyFile(folder), CertificateFile(folder), AuthorityFile(folder), kLookAgainSeconds);
  tls::TlsServerCredentialsOptions listening(provider);
  listening.watch_root_certs();
  listening.watch_identity_key_cert_pairs();
  listening.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  const auto refused = std::make_shared<RefusedKeys>();
  const auto channel_to = [provider, refused](const std::string& peer) {
    return ChannelWith(provider, PeerVerifier::Create<PeerVerifier>(peer, refused));
  };
  return {folder, ChannelWith(provider, std::make_shared<tls::HostNameCertificateVerifier>()),
          channel_to, tls::TlsServerCredentials(listening), refused};
}

void RefusedKeys::Set(std::set<std::string> keys) {
  const std::lock_guard<std::mutex> lock(mutex_);
  keys_ = std::move(keys);
}

bool RefusedKeys::Has(const std::string& key) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return keys_.count(key) != 0;
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
