// HttpConnection: one accepted connection of the HTTP port, in plain text or with TLS, on which no
// read and no write can take longer than its share of time.
//
// The whole request, the TLS handshake included, must come within a fixed time and a fixed number
// of bytes; an answer must be taken at a least rate. So whoever is slow loses its own connection
// and holds up a thread for seconds at most. One thread, but for Interrupt.
#pragma once

#include <openssl/ssl.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace atolld {

struct FreeTlsContext {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};
using TlsContext = std::unique_ptr<SSL_CTX, FreeTlsContext>;

// For a server with this certificate (its authority's may follow it in the file) and this key, both
// in PEM. INVALID_ARGUMENT names the file that does not fit.
absl::StatusOr<TlsContext> MakeHttpTls(const std::string& certificate, const std::string& key);

class HttpConnection {
 public:
  struct Limits {
    absl::Duration request_time = absl::Seconds(5);
    size_t request_bytes = size_t{16} << 10;
    absl::Duration write_time = absl::Seconds(10);  // beside what its size takes
    double least_bytes_per_second = 16 << 10;
  };

  // Owns `fd`. `tls` (null: plain text) outlives it. `now`: a monotonic clock, any thread.
  HttpConnection(int fd, SSL_CTX* tls, const Limits& limits, std::function<absl::Time()> now);
  ~HttpConnection();  // closes
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;

  bool Open();  // the TLS handshake; before the rest

  // The number of bytes read, at least 1; 0 at the end; -1: failed, too late, or too many.
  ssize_t Read(char* out, size_t size);

  // Writes all of it. False: failed, or the reader does not take it.
  bool Write(const char* bytes, size_t size);

  bool Gone() const;  // the other end has closed, or the connection has failed

  void Interrupt();  // any thread: what waits, and what comes later, fails

  int fd() const { return fd_; }

 private:
  bool Wait(int64_t events, absl::Time deadline) const;
  bool WaitAsTlsWants(int result, absl::Time deadline);

  const int fd_;
  const Limits limits_;
  const std::function<absl::Time()> now_;
  const absl::Time request_deadline_;
  std::unique_ptr<SSL, void (*)(SSL*)> tls_;
  size_t read_ = 0;
  bool failed_ = false;
};

}  // namespace atolld
