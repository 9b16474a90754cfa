#include "daemon/web/http_server.h"

#include <httplib.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "compression/base/check.h"
#include "compression/base/status_macros.h"
#include "daemon/env/network.h"
#include "daemon/web/http_access.h"

namespace atolld {
namespace {

// A stream checks this often whether its reader or the server has ended.
constexpr absl::Duration kStreamPatience = absl::Milliseconds(250);

// The stream from which httplib reads a request and to which it writes its answer. It gets the
// request's head in the form of PlainRequestHead, so that httplib's parsers do not see what this
// port has no use for. Later versions of httplib have more methods than Debian 12's; they are
// declared without `override`, so that both versions accept this class.
class ConnectionStream final : public httplib::Stream {
 public:
  explicit ConnectionStream(HttpConnection& connection) : connection_(connection) {}

  bool is_readable() const override { return true; }
  bool is_writable() const { return !connection_.Gone(); }
  bool wait_readable() const { return true; }
  bool wait_writable() const { return !connection_.Gone(); }
  time_t duration() const { return 0; }

  ssize_t read(char* out, size_t size) override {
    if (!head_) head_ = ReadHead();
    const size_t given = std::min(size, head_->size() - given_);
    std::copy_n(head_->data() + given_, given, out);
    given_ += given;
    return static_cast<ssize_t>(given);  // 0: no request has a body
  }
  ssize_t write(const char* bytes, size_t size) override {
    return connection_.Write(bytes, size) ? static_cast<ssize_t>(size) : -1;
  }
  void get_remote_ip_and_port(std::string& /*ip*/, int& /*port*/) const override {}
  void get_local_ip_and_port(std::string& /*ip*/, int& /*port*/) const override {}
  socket_t socket() const override { return connection_.fd(); }

 private:
  // Returns nothing if none came whole.
  std::string ReadHead() {
    std::string head;
    char bytes[1024];
    while (true) {
      const size_t end = EndOfRequestHead(head);
      if (end != std::string::npos) return PlainRequestHead(head.substr(0, end));
      const ssize_t got = connection_.Read(bytes, sizeof bytes);
      if (got <= 0) return "";
      head.append(bytes, static_cast<size_t>(got));
    }
  }

  HttpConnection& connection_;
  std::optional<std::string> head_;
  size_t given_ = 0;
};

// Has as many threads as connections have been open at once, up to a limit. At the limit, the
// thread that accepts waits, and with it the new connections.
class BoundedThreads final : public httplib::TaskQueue {
 public:
  explicit BoundedThreads(size_t most) : most_(most) {}

  using Answer =
      decltype(std::declval<httplib::TaskQueue&>().enqueue(std::declval<std::function<void()>>()));

  Answer enqueue(std::function<void()> work) override {
    Take(std::move(work));
    return Answer(true);
  }

  void shutdown() override {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ending_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

 private:
  void Take(std::function<void()> work) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return busy_ < most_ || ending_; });
    ++busy_;
    work_.push_back(std::move(work));
    if (busy_ > threads_.size()) AddThread();
    changed_.notify_all();
  }

  // Where the system refuses another thread, those that there are take the work in turn.
  void AddThread() {
    try {
      threads_.emplace_back([this] { Work(); });
    } catch (const std::system_error&) {
      if (threads_.empty()) throw;
    }
  }

  void Work() {
    std::unique_lock<std::mutex> lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return !work_.empty() || ending_; });
      if (work_.empty()) return;
      const std::function<void()> work = std::move(work_.front());
      work_.pop_front();
      lock.unlock();
      work();
      lock.lock();
      --busy_;
      changed_.notify_all();
    }
  }

  const size_t most_;
  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_; threads_ only grows, on the thread that accepts.
  std::deque<std::function<void()>> work_;
  std::vector<std::thread> threads_;
  size_t busy_ = 0;  // connections that are open or wait in work_
  bool ending_ = false;
};

struct HostAndPort {
  std::string host;
  int port = 0;
};

absl::StatusOr<HostAndPort> Split(const std::string& address) {
  HostAndPort split;
  const size_t colon = address.rfind(':');
  absl::string_view host = absl::string_view(address).substr(0, colon);
  if (colon == std::string::npos || !absl::SimpleAtoi(address.substr(colon + 1), &split.port) ||
      split.port < 0 || split.port > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat("[http] listen: '", address, "' is not host:port"));
  }
  if (absl::ConsumePrefix(&host, "[")) absl::ConsumeSuffix(&host, "]");
  split.host = host == "*" ? "0.0.0.0" : std::string(host);
  return split;
}

void SetText(httplib::Response& response, int status, const std::string& text) {
  response.status = status;
  response.set_content(text + "\n", "text/plain; charset=utf-8");
}

}  // namespace

// -----------------------------------------------------------------------------------------------

namespace {

struct HttpPage {
  std::string content_type;
  HttpServer::Body body;
  HttpServer::EventSource events;  // in place of a body
};

// The present rules of access.
struct HttpGate {
  TlsContext tls;  // null: plain text
  std::string token;
};

absl::StatusOr<std::shared_ptr<const HttpGate>> MakeGate(
    const HttpServer::Access& access, const std::vector<std::string>& addresses) {
  auto gate = std::make_shared<HttpGate>();
  gate->token = access.token;
  if (!access.certificate.empty()) {
    ASSIGN_OR_RETURN(gate->tls, MakeHttpTls(access.certificate, access.key));
  }
  for (const std::string& address : addresses) {
    if (IsLoopback(address) || (gate->tls != nullptr && !gate->token.empty())) continue;
    return absl::InvalidArgumentError(absl::StrCat("[http] listen: ", address,
                                                   " is not on loopback, so it needs certificate, "
                                                   "key and token_file"));
  }
  return gate;
}

// httplib parses requests and forms answers; this server has its own connections, threads and
// pages.
class PageServer : public httplib::Server {
 public:
  PageServer(HttpServer::Options options, std::shared_ptr<const HttpGate> gate)
      : options_(std::move(options)), has_tls_(gate->tls != nullptr), gate_(std::move(gate)) {
    CHECK(options_.streams < options_.threads);
    new_task_queue = [this] { return new BoundedThreads(options_.threads); };
    set_socket_options([](socket_t listener) {
      // SO_REUSEPORT would let two coordinators share a port.
      const int on = 1;
      setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    });
    httplib::Headers headers;
    for (const auto& [name, value] : SecurityHeaders()) headers.emplace(name, value);
    set_default_headers(std::move(headers));
    set_pre_routing_handler([this](const httplib::Request& request, httplib::Response& response) {
      Serve(request, response);
      return HandlerResponse::Handled;
    });
  }

  ~PageServer() override { Stop(); }

  // Binds, and listens on a thread of its own. FAILED_PRECONDITION: the address is not free.
  absl::Status Listen(const std::string& address) {
    ASSIGN_OR_RETURN(const HostAndPort at, Split(address));
    int port = at.port;
    if (port == 0) {
      port = bind_to_any_port(at.host);
    } else if (!bind_to_port(at.host, port)) {
      port = -1;
    }
    if (port < 0) {
      return absl::FailedPreconditionError(
          absl::StrCat("[http] listen: ", address, " is in use, or not this machine's"));
    }
    const bool v6 = absl::StrContains(at.host, ":");
    address_ = v6 ? absl::StrCat("[", at.host, "]:", port) : absl::StrCat(at.host, ":", port);
    on_loopback_ = IsLoopback(address_);
    thread_ = std::thread([this] {
      listen_after_bind();
      ended_ = true;
    });
    // Before it runs, stop() would do nothing.
    while (!is_running() && !ended_) std::this_thread::yield();
    return absl::OkStatus();
  }

  void Stop() {
    if (!thread_.joinable()) return;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      stopping_ = true;
      for (HttpConnection* connection : connections_) connection->Interrupt();
    }
    stop();
    thread_.join();
  }

  void Add(const std::string& path, HttpPage page) {
    const std::lock_guard<std::mutex> lock(mutex_);
    pages_[path] = std::move(page);
  }

  absl::Status SetAccess(const HttpServer::Access& access) {
    ASSIGN_OR_RETURN(std::shared_ptr<const HttpGate> gate, MakeGate(access, {address_}));
    if ((gate->tls != nullptr) != has_tls_) {
      return absl::FailedPreconditionError(
          absl::StrCat("[http] certificate: TLS ", has_tls_ ? "ends" : "begins",
                       " at the next start, since the address changes with it"));
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    if (gate->token != gate_->token) {
      for (HttpConnection* connection : connections_) connection->Interrupt();
    }
    gate_ = std::move(gate);
    return absl::OkStatus();
  }

  const std::string& address() const { return address_; }
  bool has_tls() const { return has_tls_; }

 private:
  using Setup = std::function<void(httplib::Request&)>;

  // Both of httplib's signatures: Debian 12's and Debian 13's.
  bool Process(bool (httplib::Server::*process)(httplib::Stream&, bool, bool&, const Setup&),
               httplib::Stream& stream, const Setup& setup) {
    bool closed = false;
    return (this->*process)(stream, true, closed, setup);
  }
  bool Process(bool (httplib::Server::*process)(httplib::Stream&, const std::string&, int,
                                                const std::string&, int, bool, bool&, const Setup&),
               httplib::Stream& stream, const Setup& setup) {
    bool closed = false;
    return (this->*process)(stream, "", 0, "", 0, true, closed, setup);
  }

  bool process_and_close_socket(socket_t socket) override {
    const std::shared_ptr<const HttpGate> gate = Gate();
    HttpConnection connection(socket, gate->tls.get(), options_.limits, options_.now);
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      connections_.insert(&connection);
      if (stopping_) connection.Interrupt();
    }
    const auto leave = absl::MakeCleanup([&] {
      const std::lock_guard<std::mutex> lock(mutex_);
      connections_.erase(&connection);
    });
    if (!connection.Open()) return false;
    ConnectionStream stream(connection);
    return Process(&PageServer::process_request, stream, nullptr);
  }

  void Serve(const httplib::Request& request, httplib::Response& response) {
    if (request.method != "GET" && request.method != "HEAD") {
      response.set_header("Allow", "GET, HEAD");
      return SetText(response, 405, "This port only shows: GET and HEAD");
    }
    if (request.get_header_value_count("Host") != 1) {
      return SetText(response, 400, "A request has one Host header");
    }
    if (on_loopback_ && !IsLoopbackHost(request.get_header_value("Host"))) {
      return SetText(response, 421, "This port answers to localhost and 127.0.0.1 alone");
    }
    const std::shared_ptr<const HttpGate> gate = Gate();
    if (!gate->token.empty() &&
        !ShowsToken(request.get_header_value("Authorization"), gate->token)) {
      response.set_header("WWW-Authenticate", "Basic realm=\"atoll\", charset=\"UTF-8\"");
      return SetText(response, 401, "This port wants the token in its [http] token_file");
    }
    const std::optional<HttpPage> page = Find(request.path);
    if (!page) return SetText(response, 404, "There is no such page");
    HttpRequest asked;
    asked.path = request.path;
    asked.parameters.insert(request.params.begin(), request.params.end());
    asked.last_event_id = request.get_header_value("Last-Event-ID");
    if (page->events) return Stream(page->events, asked, request.method == "HEAD", response);
    response.status = 200;
    response.set_content(page->body(asked), page->content_type);
  }

  std::shared_ptr<const HttpGate> Gate() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return gate_;
  }

  std::optional<HttpPage> Find(const std::string& path) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto exact = pages_.find(path);
    if (exact != pages_.end()) return exact->second;
    for (const auto& [name, page] : pages_) {
      if (absl::EndsWith(name, "/*") &&
          absl::StartsWith(path, absl::string_view(name).substr(0, name.size() - 1))) {
        return page;
      }
    }
    return std::nullopt;
  }

  void Stream(const HttpServer::EventSource& source, const HttpRequest& asked, bool head,
              httplib::Response& response) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (!head && streams_ == options_.streams) {
        response.set_header("Retry-After", "5");
        return SetText(response, 503, "Too many browsers are watching already");
      }
      if (!head) ++streams_;
    }
    response.status = 200;
    if (head) return response.set_content("", "text/event-stream");
    const std::shared_ptr<HttpEvents> events = source(asked);
    response.set_chunked_content_provider(
        "text/event-stream",
        [this, events](size_t, httplib::DataSink& sink) { return Pass(*events, sink); },
        [this](bool) {
          const std::lock_guard<std::mutex> lock(mutex_);
          --streams_;
        });
  }

  bool Pass(HttpEvents& events, httplib::DataSink& sink) {
    if (stopping_ || !sink.is_writable()) return false;
    const std::optional<std::string> news = events.Next(kStreamPatience);
    if (!news) {
      sink.done();
      return true;
    }
    return news->empty() || sink.write(news->data(), news->size());
  }

  const HttpServer::Options options_;
  const bool has_tls_;
  std::string address_;
  bool on_loopback_ = true;
  std::thread thread_;
  std::atomic<bool> ended_{false};  // of thread_
  std::atomic<bool> stopping_{false};
  std::mutex mutex_;
  // Guarded by mutex_.
  std::shared_ptr<const HttpGate> gate_;
  std::map<std::string, HttpPage> pages_;
  std::set<HttpConnection*> connections_;
  size_t streams_ = 0;
};

}  // namespace

struct HttpServer::State final : PageServer {
  using PageServer::PageServer;
};

HttpServer::HttpServer(std::unique_ptr<State> state) : state_(std::move(state)) {}

HttpServer::~HttpServer() = default;

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(Options options) {
  const std::vector<std::string> addresses = options.addresses;
  ASSIGN_OR_RETURN(std::shared_ptr<const HttpGate> gate, MakeGate(options.access, addresses));
  auto state = std::make_unique<State>(std::move(options), std::move(gate));
  absl::Status listening = absl::InvalidArgumentError("[http] listen: no address");
  for (const std::string& address : addresses) {
    listening = state->Listen(address);
    if (listening.ok()) return std::unique_ptr<HttpServer>(new HttpServer(std::move(state)));
  }
  return listening;
}

void HttpServer::AddPage(const std::string& path, const std::string& content_type, Body body) {
  state_->Add(path, {content_type, std::move(body), nullptr});
}

void HttpServer::AddEvents(const std::string& path, EventSource source) {
  state_->Add(path, {"", nullptr, std::move(source)});
}

absl::Status HttpServer::SetAccess(const Access& access) { return state_->SetAccess(access); }

std::string HttpServer::address() const { return state_->address(); }

std::string HttpServer::url() const {
  return absl::StrCat(state_->has_tls() ? "https://" : "http://", address(), "/");
}

}  // namespace atolld
