#include "daemon/web/http_connection.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace atolld {
namespace {

absl::Status Unfit(absl::string_view key, const std::string& path) {
  const uint64_t code = ERR_peek_last_error();
  const char* reason = ERR_reason_error_string(code);
  ERR_clear_error();
  return absl::InvalidArgumentError(
      absl::StrCat("[http] ", key, ": ", path, ": ", reason == nullptr ? "unreadable" : reason));
}

// One handshake serves one answer: no session is ever resumed, so none is kept.
void KeepNothing(SSL_CTX* context) {
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(context, 0);
  SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_NO_TICKET);
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
}

}  // namespace

absl::StatusOr<TlsContext> MakeHttpTls(const std::string& certificate, const std::string& key) {
  ERR_clear_error();
  TlsContext context(SSL_CTX_new(TLS_server_method()));
  if (context == nullptr) return Unfit("certificate", certificate);
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  KeepNothing(context.get());
  if (SSL_CTX_use_certificate_chain_file(context.get(), certificate.c_str()) != 1) {
    return Unfit("certificate", certificate);
  }
  if (SSL_CTX_use_PrivateKey_file(context.get(), key.c_str(), SSL_FILETYPE_PEM) != 1 ||
      SSL_CTX_check_private_key(context.get()) != 1) {
    return Unfit("key", key);
  }
  return context;
}

HttpConnection::HttpConnection(int fd, SSL_CTX* tls, const Limits& limits,
                               std::function<absl::Time()> now)
    : fd_(fd),
      limits_(limits),
      now_(std::move(now)),
      request_deadline_(now_() + limits.request_time),
      tls_(tls == nullptr ? nullptr : SSL_new(tls), SSL_free) {
  fcntl(fd_, F_SETFD, FD_CLOEXEC);
  fcntl(fd_, F_SETFL, fcntl(fd_, F_GETFL) | O_NONBLOCK);
  const int on = 1;  // an answer's end does not wait for the reader's acknowledgement
  setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (tls != nullptr && (tls_ == nullptr || SSL_set_fd(tls_.get(), fd_) != 1)) failed_ = true;
}

HttpConnection::~HttpConnection() {
  if (tls_ != nullptr && !failed_) SSL_shutdown(tls_.get());
  tls_.reset();
  // Bytes that were never read would turn the close into a reset, which may overtake the answer.
  shutdown(fd_, SHUT_WR);
  char rest[4096];
  const absl::Time deadline = std::min(request_deadline_, now_() + absl::Seconds(1));
  while (!failed_ && Wait(POLLIN, deadline) && recv(fd_, rest, sizeof rest, 0) > 0) {
  }
  close(fd_);
}

bool HttpConnection::Wait(int64_t events, absl::Time deadline) const {
  while (true) {
    const absl::Duration left = deadline - now_();
    if (left <= absl::ZeroDuration()) return false;
    pollfd polled = {fd_, static_cast<int16_t>(events), 0};
    const int64_t milliseconds = std::clamp<int64_t>(absl::ToInt64Milliseconds(left) + 1, 1, 60000);
    const int ready = poll(&polled, 1, static_cast<int>(milliseconds));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
  }
}

bool HttpConnection::WaitAsTlsWants(int result, absl::Time deadline) {
  switch (SSL_get_error(tls_.get(), result)) {
    case SSL_ERROR_WANT_READ:
      return Wait(POLLIN, deadline);
    case SSL_ERROR_WANT_WRITE:
      return Wait(POLLOUT, deadline);
    default:
      return false;
  }
}

bool HttpConnection::Open() {
  if (tls_ == nullptr) return !failed_;
  while (!failed_) {
    ERR_clear_error();
    const int result = SSL_accept(tls_.get());
    if (result == 1) return true;
    failed_ = !WaitAsTlsWants(result, request_deadline_);
  }
  return false;
}

ssize_t HttpConnection::Read(char* out, size_t size) {
  const size_t left = limits_.request_bytes - std::min(read_, limits_.request_bytes);
  const size_t wanted = std::min<size_t>({size, left, std::numeric_limits<int>::max()});
  if (wanted == 0) return -1;
  while (!failed_) {
    ERR_clear_error();
    const ssize_t got = tls_ == nullptr ? recv(fd_, out, wanted, 0)
                                        : SSL_read(tls_.get(), out, static_cast<int>(wanted));
    if (got > 0) {
      read_ += static_cast<size_t>(got);
      return got;
    }
    if (tls_ == nullptr) {
      if (got == 0) return 0;
      failed_ = (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) ||
                !Wait(POLLIN, request_deadline_);
    } else {
      failed_ = !WaitAsTlsWants(static_cast<int>(got), request_deadline_);
    }
  }
  return -1;
}

bool HttpConnection::Write(const char* bytes, size_t size) {
  const absl::Duration own =
      absl::Seconds(static_cast<double>(size) / limits_.least_bytes_per_second);
  const absl::Time deadline = now_() + limits_.write_time + own;
  size_t written = 0;
  while (!failed_ && written < size) {
    const size_t piece = std::min<size_t>(size - written, std::numeric_limits<int>::max());
    ERR_clear_error();
    const ssize_t put = tls_ == nullptr
                            ? send(fd_, bytes + written, piece, MSG_NOSIGNAL)
                            : SSL_write(tls_.get(), bytes + written, static_cast<int>(piece));
    if (put > 0) {
      written += static_cast<size_t>(put);
    } else if (tls_ == nullptr) {
      failed_ =
          (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) || !Wait(POLLOUT, deadline);
    } else {
      failed_ = !WaitAsTlsWants(static_cast<int>(put), deadline);
    }
  }
  return !failed_;
}

bool HttpConnection::Gone() const {
  if (failed_) return true;
  pollfd polled = {fd_, POLLRDHUP, 0};
  return poll(&polled, 1, 0) > 0;
}

void HttpConnection::Interrupt() { shutdown(fd_, SHUT_RDWR); }

}  // namespace atolld
