// HttpConnection: one accepted connection of the HTTP port, in plain text or with TLS. Each read
// and write has a time limit.
//
// The whole request, including the TLS handshake, must arrive within a fixed time and a fixed
// number of bytes, and the client must read the answer at a minimum rate. A slow client therefore
// loses its own connection and occupies a thread for only a few seconds. Used by one thread, except
// for Interrupt.
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

// Makes the TLS context of a server with this certificate and this key, which are files in PEM. The
// authority's certificate may follow the server's in the first file. Fails with INVALID_ARGUMENT if
// a file is wrong; the message names it.
absl::StatusOr<TlsContext> MakeHttpTls(const std::string& certificate, const std::string& key);

class HttpConnection {
 public:
  struct Limits {
    absl::Duration request_time = absl::Seconds(5);
    size_t request_bytes = size_t{16} << 10;
    // The time limit for writing an answer, to which the time for its size is added.
    absl::Duration write_time = absl::Seconds(10);
    double least_bytes_per_second = 16 << 10;
  };

  // Takes ownership of `fd`. `tls` must outlive this object; null means plain text. `now` is a
  // monotonic clock that may be called from any thread.
  HttpConnection(int fd, SSL_CTX* tls, const Limits& limits, std::function<absl::Time()> now);
  ~HttpConnection();  // Closes the connection.
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;

  bool Open();  // Makes the TLS handshake. Call it first.

  // Returns the number of bytes read, at least 1; 0 at the end of the input; -1 if reading failed,
  // or if the request took too long or is too long.
  ssize_t Read(char* out, size_t size);

  // Writes all bytes. Returns false if that failed or the client does not read them in time.
  bool Write(const char* bytes, size_t size);

  bool Gone() const;  // Returns true if the client has closed the connection or it has failed.

  void Interrupt();  // Makes the call under way and all later calls fail. Thread-safe.

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
