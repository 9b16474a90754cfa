// HttpServer: the port for browsers and Prometheus. It only shows data, and answers only GET and
// HEAD.
//
// Each connection carries one request, which is served on a thread of a bounded pool. While all
// threads are busy, new connections wait in the kernel. A stream of events occupies its thread as
// long as its reader is connected; the number of streams is limited to less than the number of
// threads, so that pages can always be served. http_connection.h limits the time of slow readers,
// and http_access.h decides which requests are answered. Bodies are made on the pool's threads,
// several at a time. Thread-safe.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "daemon/web/http_connection.h"

namespace atolld {

struct HttpRequest {
  std::string path;                               // The path, decoded and without the query.
  std::map<std::string, std::string> parameters;  // The parameters of the query, decoded.
  std::string last_event_id;  // The header of a browser that reconnects to a stream of events.
};

// One reader's position in a stream of events. Used by one thread.
class HttpEvents {
 public:
  virtual ~HttpEvents() = default;
  // Returns the next text to send, in the format text/event-stream, as soon as there is one.
  // Returns an empty text if there is none within `patience`, and nullopt if the stream has ended.
  virtual std::optional<std::string> Next(absl::Duration patience) = 0;
};

class HttpServer {
 public:
  struct Access {
    std::string certificate, key;  // Files in PEM; if both are empty, the port uses plain text.
    std::string token;  // The token that each request must contain; if empty, no token is needed.
  };
  struct Options {
    // Addresses "host:port", of which the first free one is used. With port 0 the system chooses
    // the port.
    std::vector<std::string> addresses;
    Access access;
    std::function<absl::Time()> now;  // A monotonic clock that may be called from any thread.
    size_t threads = 32;
    size_t streams = 16;  // The most streams of events at a time; fewer than `threads`.
    HttpConnection::Limits limits;
  };
  using Body = std::function<std::string(const HttpRequest&)>;
  using EventSource = std::function<std::unique_ptr<HttpEvents>(const HttpRequest&)>;

  // Fails with FAILED_PRECONDITION if no address is free; with INVALID_ARGUMENT if the certificate
  // and the key do not match, or if an address is not on loopback and the certificate or the token
  // is missing.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(Options options);

  ~HttpServer();  // Ends all connections at once.

  // Serves a page at `path`, for example "/metrics". A path that ends in "/*" includes everything
  // below it. `body` may be called until the server is destroyed.
  void AddPage(const std::string& path, const std::string& content_type, Body body);
  void AddEvents(const std::string& path, EventSource source);

  // Uses this certificate, which is read again from its file, for new connections, and this token
  // for all requests. Readers that were admitted with another token are disconnected. Fails with
  // the errors of Start. Fails with FAILED_PRECONDITION, and changes nothing, if this would turn
  // TLS on or off, because the address would change. Blocks.
  absl::Status SetAccess(const Access& access);

  std::string address() const;  // For example "127.0.0.1:7080", with the port on which it listens.
  std::string url() const;      // For example "http://127.0.0.1:7080/".

 private:
  struct State;
  explicit HttpServer(std::unique_ptr<State> state);

  const std::unique_ptr<State> state_;
};

}  // namespace atolld
