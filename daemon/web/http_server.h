// HttpServer: the port for browsers and Prometheus. It shows, and takes no order: GET and HEAD
// alone.
//
// Each connection carries one request, on a thread of a bounded pool; while all are busy, new
// connections wait in the kernel. A stream of events keeps its thread for as long as its reader is
// there, so fewer streams than threads are let in, and pages are served beside any number of them.
// What a slow reader can hold is in http_connection.h, who may read in http_access.h. On loopback a
// Host header with another name than loopback's is refused. Bodies are made on the pool's threads,
// several at a time. All methods: any thread.
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
  std::string path;                               // decoded, without the query
  std::map<std::string, std::string> parameters;  // of the query, decoded
  std::string last_event_id;                      // of a browser that comes back to a stream
};

// One reader's way through a stream of events. One thread.
class HttpEvents {
 public:
  virtual ~HttpEvents() = default;
  // What to send next, in the form of text/event-stream, as soon as there is something; empty:
  // nothing has come within `patience`. None: the stream is over.
  virtual std::optional<std::string> Next(absl::Duration patience) = 0;
};

class HttpServer {
 public:
  struct Access {
    std::string certificate, key;  // files in PEM; both empty: plain text
    std::string token;             // to be shown with each request; empty: none is asked for
  };
  struct Options {
    // "host:port", tried in turn until one is free. Port 0: the system chooses.
    std::vector<std::string> addresses;
    Access access;
    std::function<absl::Time()> now;  // monotonic, any thread
    size_t threads = 32;
    size_t streams = 16;  // of events, at a time; fewer than threads
    HttpConnection::Limits limits;
  };
  using Body = std::function<std::string(const HttpRequest&)>;
  using EventSource = std::function<std::unique_ptr<HttpEvents>(const HttpRequest&)>;

  // FAILED_PRECONDITION: no address is free. INVALID_ARGUMENT: certificate and key do not fit; an
  // address is not on loopback, and certificate or token is missing.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(Options options);

  ~HttpServer();  // ends all connections; returns within a moment

  // Serves `path` ("/metrics"); one that ends in "/*" serves all below it. `body` may run until the
  // server is destroyed.
  void AddPage(const std::string& path, const std::string& content_type, Body body);
  void AddEvents(const std::string& path, EventSource source);

  // New connections get this certificate, read again from its file, and requests show this token.
  // Whoever was let in by another token is cut off. Errors as Start, and FAILED_PRECONDITION: TLS
  // would begin or end, which changes the address; nothing has changed then. Blocking.
  absl::Status SetAccess(const Access& access);

  std::string address() const;  // "127.0.0.1:7080", with the port that it listens on
  std::string url() const;      // "http://127.0.0.1:7080/"

 private:
  struct State;
  explicit HttpServer(std::unique_ptr<State> state);

  const std::unique_ptr<State> state_;
};

}  // namespace atolld
