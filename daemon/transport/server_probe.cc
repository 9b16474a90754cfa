#include "daemon/transport/server_probe.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "compression/base/status_macros.h"
#include "daemon/env/posix_files.h"
#include "daemon/env/quiet_pipe.h"
#include "daemon/identity/certificate.h"
#include "daemon/identity/openssl.h"
#include "daemon/transport/connection_failure.h"
#include "daemon/transport/sockets.h"

namespace atolld {
namespace {

using Kind = ConnectionFailure;

// gRPC's servers accept nothing else.
constexpr unsigned char kHttp2[] = {2, 'h', '2'};

using SslContext = std::unique_ptr<SSL_CTX, FreedBy<SSL_CTX_free>>;
using SslSession = std::unique_ptr<SSL, FreedBy<SSL_free>>;
using SslPrivateKey = std::unique_ptr<EVP_PKEY, FreedBy<EVP_PKEY_free>>;

// Returns the context with this side's credentials; null if OpenSSL does not accept them.
SslContext ContextOf(const Credentials& credentials) {
  SslContext context(SSL_CTX_new(TLS_client_method()));
  const absl::StatusOr<SslCertificate> authority = ReadPemCertificate(credentials.authority);
  const absl::StatusOr<SslCertificate> own = ReadPemCertificate(credentials.certificate);
  const SslPrivateKey key(
      PEM_read_bio_PrivateKey(SslReader(credentials.key).get(), nullptr, nullptr, nullptr));
  if (context == nullptr || !authority.ok() || !own.ok() || key == nullptr ||
      X509_STORE_add_cert(SSL_CTX_get_cert_store(context.get()), authority->get()) != 1 ||
      SSL_CTX_use_certificate(context.get(), own->get()) != 1 ||
      SSL_CTX_use_PrivateKey(context.get(), key.get()) != 1 ||
      SSL_CTX_set_alpn_protos(context.get(), kHttp2, sizeof kHttp2) != 0) {
    return nullptr;
  }
  // The handshake goes on whatever is shown: what it was is read afterwards.
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_NONE, nullptr);
  return context;
}

std::string PemOf(X509* certificate) {
  const SslMemory memory(BIO_new(BIO_s_mem()));
  if (memory == nullptr || PEM_write_bio_X509(memory.get(), certificate) != 1) return "";
  return SslText(memory);
}

// One connection in TLS.
class Handshake {
 public:
  Handshake(const ProbedServer& server, SSL* session, absl::Time end, absl::Duration patience)
      : server_(server), session_(session), end_(end), patience_(patience) {}

  absl::Status Run() {
    RETURN_IF_ERROR(Until([this] { return SSL_connect(session_); }));
    RETURN_IF_ERROR(CheckShown());
    // A server that does not take this side's certificate says so after the handshake; one that
    // does begins with HTTP/2's settings.
    char first = 0;
    return Until([this, &first] { return SSL_read(session_, &first, 1); });
  }

 private:
  template <typename Step>
  absl::Status Until(const Step& step) {
    while (true) {
      ERR_clear_error();
      const int result = step();
      if (result > 0) return absl::OkStatus();
      const int wants = SSL_get_error(session_, result);
      const bool reads = wants == SSL_ERROR_WANT_READ;
      if (!reads && wants != SSL_ERROR_WANT_WRITE) return Broken();
      if (!AwaitSocket(SSL_get_fd(session_), reads ? POLLIN : POLLOUT, end_)) {
        return ConnectionStalled(patience_);
      }
    }
  }

  // What the other end has said, or that it has hung up.
  absl::Status Broken() {
    const unsigned long error = ERR_peek_error();
    const char* const reason = error == 0 ? nullptr : ERR_reason_error_string(error);
    const absl::string_view words = reason == nullptr ? "" : reason;
    ERR_clear_error();
    if (absl::StrContains(words, "wrong version") || absl::StrContains(words, "http request")) {
      return ConnectionError(Kind::kWrongProtocol, "what answers there speaks no TLS");
    }
    const bool hung_up = error == 0 || absl::StrContains(words, "unexpected eof");
    if (hung_up && !SSL_is_init_finished(session_)) {
      // A process that is killed in between does this; the one that is started next may answer.
      return ConnectionError(Kind::kUnreachable, "what answers there hung up during the handshake");
    }
    if (!absl::StrContains(words, "alert") && !SSL_is_init_finished(session_)) {
      return ConnectionError(Kind::kWrongProtocol,
                             "what answers there does not answer a TLS handshake as Atoll does");
    }
    const absl::StatusOr<CertificateInfo> own = ParseCertificate(server_.credentials->certificate);
    if (own.ok()) {
      const absl::Status valid = CheckValidAt(*own, absl::Now());
      if (!valid.ok()) return ConnectionError(Kind::kWrongCertificate, valid.message());
    }
    return ConnectionError(
        Kind::kWrongCertificate,
        absl::StrCat("what answers there does not take this side's certificate",
                     words.empty() ? "" : " (", words, words.empty() ? "" : ")"));
  }

  absl::Status CheckShown() const {
    const SslCertificate shown(SSL_get1_peer_certificate(session_));
    if (shown == nullptr) {
      return ConnectionError(Kind::kWrongCertificate, "what answers there shows no certificate");
    }
    const absl::StatusOr<CertificateInfo> info = ParseCertificate(PemOf(shown.get()));
    if (!info.ok()) {
      return ConnectionError(
          Kind::kWrongProtocol,
          absl::StrCat("what answers there is not of Atoll: ", info.status().message()));
    }
    const long verified = SSL_get_verify_result(session_);
    if (verified == X509_V_ERR_CERT_HAS_EXPIRED || verified == X509_V_ERR_CERT_NOT_YET_VALID) {
      const absl::Status valid = CheckValidAt(*info, absl::Now());
      return ConnectionError(Kind::kWrongCertificate, valid.ok()
                                                          ? X509_verify_cert_error_string(verified)
                                                          : valid.message());
    }
    if (verified != X509_V_OK) return OtherRun(info->identity);
    return CheckIdentity(shown.get(), info->identity);
  }

  absl::Status OtherRun(const Identity& shown) const {
    const absl::StatusOr<CertificateInfo> own = ParseCertificate(server_.credentials->certificate);
    const std::string wanted = own.ok() ? own->identity.cluster : "another";
    return ConnectionError(
        Kind::kWrongRun,
        wanted == shown.cluster
            ? absl::StrCat(Describe(shown), " answers there, of a run ", wanted,
                           " with another authority: one that was begun anew?")
            : absl::StrCat(Describe(shown), " of run ", shown.cluster,
                           " answers there, and this side's certificate is of run ", wanted));
  }

  absl::Status CheckIdentity(X509* certificate, const Identity& shown) const {
    const std::string name = ServerName(server_.role);
    if (X509_check_host(certificate, name.data(), name.size(), 0, nullptr) != 1) {
      return ConnectionError(
          Kind::kWrongCertificate,
          absl::StrCat(server_.role == Role::kCoordinator ? "the coordinator" : "a peer",
                       " should be there, and it is ", Describe(shown)));
    }
    if (server_.peer.empty() || shown.id == server_.peer) return absl::OkStatus();
    return ConnectionError(
        Kind::kWrongCertificate,
        absl::StrCat("peer ", server_.peer, " should be there, and it is ", Describe(shown)));
  }

  const ProbedServer& server_;
  SSL* const session_;
  const absl::Time end_;
  const absl::Duration patience_;
};

// Makes the handshake on a connection that is made.
absl::Status ProbeHandshake(const ProbedServer& server, const Socket& made,
                            absl::Duration patience) {
  const SslContext context = ContextOf(*server.credentials);
  const SslSession session(context == nullptr ? nullptr : SSL_new(context.get()));
  if (session == nullptr || SSL_set_fd(session.get(), made.get()) != 1) {
    ERR_clear_error();
    return ConnectionError(Kind::kWrongCertificate, "this side's cannot be read");
  }
  const QuietPipe quiet;
  return Handshake(server, session.get(), absl::Now() + patience, patience).Run();
}

}  // namespace

absl::StatusOr<absl::Duration> ProbeServer(const ProbedServer& server, absl::Duration patience) {
  if (absl::StartsWith(server.address, "unix:")) return absl::ZeroDuration();
  const absl::Time end = absl::Now() + patience;
  ASSIGN_OR_RETURN(std::vector<std::string> left, FindAddresses(server.address, end));
  absl::Status why;  // that an address has given
  while (!left.empty()) {
    const absl::Time begun = absl::Now();
    const absl::StatusOr<TcpConnection> made = ConnectToFirst(left, end);
    if (!made.ok()) return why.ok() ? made.status() : why;
    const absl::Duration took = absl::Now() - begun;
    if (!server.credentials) return took;
    // Each address that may be left gets its part of the time.
    const absl::Duration share = (end - absl::Now()) / static_cast<int64_t>(left.size());
    why = ProbeHandshake(server, made->socket, share);
    if (why.ok()) return took;
    if (!absl::IsUnavailable(why)) return why;
    left.erase(std::find(left.begin(), left.end(), made->address));
  }
  return why;
}

absl::Status ProbeServerWith(ProbedServer server, const std::string& folder,
                             absl::Duration patience) {
  if (!folder.empty()) {
    PosixFiles files;
    Credentials credentials;
    const absl::StatusOr<CertificateInfo> loaded =
        LoadCredentials(files, folder, absl::Now(), &credentials);
    if (!loaded.ok()) {
      return ConnectionError(Kind::kWrongCertificate, loaded.status().message());
    }
    server.credentials = std::move(credentials);
  }
  return ProbeServer(server, patience).status();
}

absl::Status Looks::Take(const std::string& address, absl::FunctionRef<absl::Status()> look) {
  constexpr absl::Duration kSlow = absl::Milliseconds(500);
  constexpr absl::Duration kKept = absl::Minutes(1);
  constexpr size_t kMostKept = 1024;
  const absl::Time begun = absl::Now();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = slow_.find(address);
    if (found != slow_.end() && begun < found->second.at + kKept) return found->second.status;
    if (looking_) return absl::OkStatus();
    looking_ = true;
  }
  absl::Status status = look();
  const absl::Time ended = absl::Now();
  const std::lock_guard<std::mutex> lock(mutex_);
  looking_ = false;
  if (slow_.size() >= kMostKept) slow_.clear();
  slow_.erase(address);
  if (ended - begun >= kSlow) slow_[address] = {ended, status};
  return status;
}

}  // namespace atolld
