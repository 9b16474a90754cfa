// If these fail, the port takes orders or strangers, or one slow or greedy reader keeps others out.
#include "daemon/web/http_server.h"

#include <arpa/inet.h>
#include <httplib.h>
#include <netinet/in.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "daemon/env/posix_executor.h"
#include "daemon/env/posix_files.h"
#include "daemon/identity/credentials.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/daemon/env/temporary_directory.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

constexpr char kToken[] = "a-token-of-this-test";

class HttpServerTest : public ::testing::Test {
 protected:
  HttpServer::Options Defaults() {
    HttpServer::Options options;
    options.addresses = {"127.0.0.1:0"};
    options.now = [this] { return executor_.Now(); };
    return options;
  }

  std::unique_ptr<HttpServer> Start(HttpServer::Options options) {
    auto server = HttpServer::Start(std::move(options));
    EXPECT_TRUE(server.ok()) << server.status();
    if (!server.ok()) return nullptr;
    (*server)->AddPage("/figures", "text/plain; version=0.0.4", [](const HttpRequest& request) {
      const auto from = request.parameters.find("from");
      return absl::StrCat("figures", from == request.parameters.end() ? "" : from->second);
    });
    (*server)->AddPage("/below/*", "text/plain",
                       [](const HttpRequest& request) { return request.path; });
    return *std::move(server);
  }

  static int PortOf(const HttpServer& server) {
    int port = 0;
    EXPECT_TRUE(absl::SimpleAtoi(server.address().substr(server.address().rfind(':') + 1), &port));
    return port;
  }

  // A connection that is not httplib's, so that it can misbehave.
  static int Connect(const HttpServer& server) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<uint16_t>(PortOf(server)));
    EXPECT_EQ(0, connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address));
    return fd;
  }

  static void Say(int fd, const std::string& text) {
    EXPECT_EQ(static_cast<ssize_t>(text.size()), send(fd, text.data(), text.size(), MSG_NOSIGNAL));
  }

  // All that comes until the other end closes.
  static std::string ReadAll(int fd) {
    std::string all;
    char bytes[4096];
    for (ssize_t got = 0; (got = recv(fd, bytes, sizeof bytes, 0)) > 0;) {
      all.append(bytes, static_cast<size_t>(got));
    }
    return all;
  }

  static std::string Ask(const HttpServer& server, const std::string& request) {
    const int fd = Connect(server);
    Say(fd, request);
    std::string answer = ReadAll(fd);
    close(fd);
    return answer;
  }

  PosixExecutor executor_{PosixExecutor::Options{1, 0}};
};

TEST_F(HttpServerTest, ServesPagesWithSecurityHeaders) {
  const auto server = Start(Defaults());
  EXPECT_EQ(absl::StrCat("http://", server->address(), "/"), server->url());
  httplib::Client client("127.0.0.1", PortOf(*server));
  const auto page = client.Get("/figures?from=7%208");
  ASSERT_TRUE(page);
  EXPECT_EQ(200, page->status);
  EXPECT_EQ("figures7 8", page->body);
  EXPECT_EQ("text/plain; version=0.0.4", page->get_header_value("Content-Type"));
  EXPECT_EQ("no-store", page->get_header_value("Cache-Control"));
  EXPECT_EQ("nosniff", page->get_header_value("X-Content-Type-Options"));
  EXPECT_EQ("no-referrer", page->get_header_value("Referrer-Policy"));
  EXPECT_THAT(page->get_header_value("Content-Security-Policy"),
              StartsWith("default-src 'none'; script-src 'self';"));
  EXPECT_EQ("/below/a/b", client.Get("/below/a/b")->body);
  EXPECT_EQ(404, client.Get("/below")->status);
  EXPECT_EQ(404, client.Get("/none")->status);
  const auto head = client.Head("/figures");
  EXPECT_EQ(200, head->status);
  EXPECT_EQ("7", head->get_header_value("Content-Length"));
  EXPECT_THAT(head->body, IsEmpty());
}

TEST_F(HttpServerTest, TakesNoOrders) {
  const auto server = Start(Defaults());
  httplib::Client client("127.0.0.1", PortOf(*server));
  for (const auto& answer : {client.Post("/figures", "x", "text/plain"), client.Put("/figures"),
                             client.Delete("/figures"), client.Options("/figures")}) {
    ASSERT_TRUE(answer);
    EXPECT_EQ(405, answer->status);
    EXPECT_EQ("GET, HEAD", answer->get_header_value("Allow"));
  }
}

TEST_F(HttpServerTest, AnswersToLoopbacksNamesAlone) {
  const auto server = Start(Defaults());
  const auto with_host = [&](const std::string& lines) {
    return Ask(*server, absl::StrCat("GET /figures HTTP/1.1\r\n", lines, "\r\n"));
  };
  EXPECT_THAT(with_host("Host: localhost:99\r\n"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(with_host("Host: evil.example\r\n"), StartsWith("HTTP/1.1 421"));
  EXPECT_THAT(with_host("Host: localhost\r\nHost: evil.example\r\n"), StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(with_host(""), StartsWith("HTTP/1.1 400"));
}

TEST_F(HttpServerTest, WantsTheToken) {
  HttpServer::Options options = Defaults();
  options.access.token = kToken;
  const auto server = Start(options);
  httplib::Client client("127.0.0.1", PortOf(*server));
  const auto refused = client.Get("/figures");
  EXPECT_EQ(401, refused->status);
  EXPECT_THAT(refused->get_header_value("WWW-Authenticate"), StartsWith("Basic realm="));
  EXPECT_EQ(401, client.Get("/none")->status);  // a stranger does not learn what there is
  EXPECT_EQ(
      200,
      client.Get("/figures", httplib::Headers{{"Authorization", absl::StrCat("Bearer ", kToken)}})
          ->status);
  EXPECT_EQ(200,
            client
                .Get("/figures",
                     httplib::Headers{
                         {"Authorization",
                          absl::StrCat("Basic ", absl::Base64Escape(absl::StrCat("me:", kToken)))}})
                ->status);
}

TEST_F(HttpServerTest, RefusesAddressesOfOthersWithoutTlsAndToken) {
  HttpServer::Options options = Defaults();
  options.addresses = {"0.0.0.0:0"};
  options.access.token = kToken;
  const auto refused = HttpServer::Start(options);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.status().message(), HasSubstr("needs certificate, key and token_file"));
}

TEST_F(HttpServerTest, SpeaksTls) {
  const TemporaryDirectory directory;
  PosixFiles files;
  uint64_t drawn = 0;
  const auto authority = Authority::Make("run-1", executor_.WallTime(), [&] { return ++drawn; });
  ASSERT_TRUE(authority.ok());
  const std::string folder = directory.File("identity");
  ASSERT_TRUE(
      EnsureCredentials(files, **authority, folder, Role::kCoordinator, "c", executor_.WallTime())
          .ok());
  HttpServer::Options options = Defaults();
  options.access.certificate = folder + "/certificate.pem";
  options.access.key = folder + "/key.pem";
  options.access.token = kToken;
  options.addresses = {"0.0.0.0:0"};
  const auto server = Start(options);
  ASSERT_NE(server, nullptr);
  EXPECT_THAT(server->url(), StartsWith("https://0.0.0.0:"));
  httplib::SSLClient client("127.0.0.1", PortOf(*server));
  client.enable_server_certificate_verification(false);
  client.set_bearer_token_auth(kToken);
  const auto page = client.Get("/figures");
  ASSERT_TRUE(page) << httplib::to_string(page.error());
  EXPECT_EQ("figures", page->body);
  EXPECT_THAT(Ask(*server, "GET /figures HTTP/1.1\r\nHost: localhost\r\n\r\n"),
              ::testing::Not(HasSubstr("figures")));
  EXPECT_EQ("figures", client.Get("/figures")->body);  // who speaks no TLS did it no harm

  options.access.key = folder + "/authority.pem";
  EXPECT_THAT(HttpServer::Start(options).status().message(), HasSubstr("[http] key: "));
  options.access.certificate = folder + "/none.pem";
  EXPECT_THAT(HttpServer::Start(options).status().message(), HasSubstr("[http] certificate: "));
}

std::string DerOf(X509* certificate) {
  unsigned char* bytes = nullptr;
  const int length = i2d_X509(certificate, &bytes);
  std::string der(reinterpret_cast<const char*>(bytes), static_cast<size_t>(std::max(length, 0)));
  OPENSSL_free(bytes);
  X509_free(certificate);
  return der;
}

std::string CertificateIn(const std::string& path) {
  const std::unique_ptr<FILE, int (*)(FILE*)> file(fopen(path.c_str(), "r"), fclose);
  return DerOf(PEM_read_X509(file.get(), nullptr, nullptr, nullptr));
}

// The certificate that a new connection gets.
std::string CertificateShownTo(int fd) {
  const TlsContext context(SSL_CTX_new(TLS_client_method()));
  const std::unique_ptr<SSL, void (*)(SSL*)> tls(SSL_new(context.get()), SSL_free);
  SSL_set_fd(tls.get(), fd);
  const std::string der =
      SSL_connect(tls.get()) == 1 ? DerOf(SSL_get1_peer_certificate(tls.get())) : std::string();
  close(fd);
  return der;
}

TEST_F(HttpServerTest, TakesAnotherCertificateWhileItServes) {
  // Broken: a certificate that was renewed on the disk counts at the next start only.
  const TemporaryDirectory directory;
  PosixFiles files;
  uint64_t drawn = 0;
  std::vector<HttpServer::Access> accesses;
  for (const char* const name : {"first", "second"}) {
    const auto authority = Authority::Make(name, executor_.WallTime(), [&] { return ++drawn; });
    ASSERT_TRUE(authority.ok());
    const std::string folder = directory.File(name);
    ASSERT_TRUE(
        EnsureCredentials(files, **authority, folder, Role::kCoordinator, "c", executor_.WallTime())
            .ok());
    accesses.push_back({folder + "/certificate.pem", folder + "/key.pem", kToken});
  }
  HttpServer::Options options = Defaults();
  options.addresses = {"0.0.0.0:0"};
  options.access = accesses[0];
  const auto server = Start(options);
  ASSERT_NE(server, nullptr);
  EXPECT_EQ(CertificateIn(accesses[0].certificate), CertificateShownTo(Connect(*server)));
  EXPECT_TRUE(server->SetAccess(accesses[1]).ok());
  EXPECT_EQ(CertificateIn(accesses[1].certificate), CertificateShownTo(Connect(*server)));

  // Whatever is wrong with the new ones, the old ones go on.
  HttpServer::Access wrong = accesses[0];
  wrong.key = accesses[1].key;
  EXPECT_THAT(server->SetAccess(wrong).message(), HasSubstr("[http] key: "));
  wrong = accesses[0];
  wrong.token.clear();
  EXPECT_THAT(server->SetAccess(wrong).message(),
              HasSubstr("needs certificate, key and token_file"));
  EXPECT_EQ(CertificateIn(accesses[1].certificate), CertificateShownTo(Connect(*server)));
}

TEST_F(HttpServerTest, TakesAnotherTokenWhileItServes) {
  // Broken: a token that others have learned opens the port until the next start.
  const auto server = Start(Defaults());
  const auto status_for = [&](const std::string& token) {
    httplib::Client client("127.0.0.1", PortOf(*server));
    client.set_bearer_token_auth(token.c_str());
    return client.Get("/figures")->status;
  };
  EXPECT_EQ(200, status_for(kToken));
  EXPECT_TRUE(server->SetAccess({"", "", "another-token-of-this-test"}).ok());
  EXPECT_EQ(401, status_for(kToken));
  EXPECT_EQ(200, status_for("another-token-of-this-test"));
  // The address would be another one.
  const TemporaryDirectory directory;
  PosixFiles files;
  const auto authority = Authority::Make("run-1", executor_.WallTime(), [] { return 7; });
  ASSERT_TRUE(EnsureCredentials(files, **authority, directory.path(), Role::kCoordinator, "c",
                                executor_.WallTime())
                  .ok());
  const absl::Status begins =
      server->SetAccess({directory.File("certificate.pem"), directory.File("key.pem"), kToken});
  EXPECT_TRUE(absl::IsFailedPrecondition(begins)) << begins;
  EXPECT_EQ(200, status_for("another-token-of-this-test"));
}

TEST_F(HttpServerTest, TakesTheNextAddressWhereOneIsTaken) {
  const auto first = Start(Defaults());
  HttpServer::Options options = Defaults();
  options.addresses = {first->address()};
  EXPECT_THAT(HttpServer::Start(options).status().message(),
              HasSubstr(absl::StrCat(first->address(), " is in use")));
  options.addresses.push_back("127.0.0.1:0");
  const auto second = Start(options);
  ASSERT_NE(second, nullptr);
  EXPECT_NE(first->address(), second->address());
}

TEST_F(HttpServerTest, BoundsWhatARequestMayHave) {
  HttpServer::Options options = Defaults();
  options.limits.request_time = absl::Milliseconds(200);
  const auto server = Start(options);
  const std::string begin = "GET /figures HTTP/1.1\r\nHost: localhost\r\n";
  EXPECT_THAT(Ask(*server, begin + "\r\n"), StartsWith("HTTP/1.1 200"));
  // Many headers, one long line that never ends, a request that never comes: each ends soon.
  std::string many = begin;
  for (int i = 0; i < 2000; ++i) absl::StrAppend(&many, "X-", i, ": 0123456789\r\n");
  EXPECT_THAT(Ask(*server, many.substr(0, 16 << 10)), ::testing::Not(HasSubstr("200 OK")));
  EXPECT_THAT(Ask(*server, "GET /" + std::string(16000, 'a')), ::testing::Not(HasSubstr("200 OK")));
  EXPECT_THAT(Ask(*server, begin), ::testing::Not(HasSubstr("200 OK")));
  EXPECT_THAT(Ask(*server, std::string("\0\1\2 nonsense\r\n\r\n", 16)), StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(Ask(*server, begin + "\r\n"), StartsWith("HTTP/1.1 200"));
}

// Threads with little stack, as small machines and other C libraries give them.
class SmallStacks {
 public:
  SmallStacks() {
    pthread_getattr_default_np(&before_);
    pthread_attr_t small = before_;
    EXPECT_EQ(0, pthread_attr_setstacksize(&small, size_t{512} << 10));
    EXPECT_EQ(0, pthread_setattr_default_np(&small));
  }
  ~SmallStacks() { pthread_setattr_default_np(&before_); }

 private:
  pthread_attr_t before_;
};

// Broken: a header of some thousand bytes, from anybody who reaches the port, ends the daemon. The
// library parses ranges by a regular expression that takes stack for each of them.
TEST_F(HttpServerTest, NoHeaderReachesAParserThatRecurses) {
  const SmallStacks small;
  const auto server = Start(Defaults());
  std::string ranges = "bytes=1-2";
  while (ranges.size() < 8000) ranges += ",1-2";
  for (const std::string& header :
       {absl::StrCat("Range: ", ranges), absl::StrCat("X: a\nRange: ", ranges),
        absl::StrCat("rAnGe: ", ranges), "Accept-Encoding: gzip" + std::string(8000, ','),
        "Content-Type: multipart/form-data; boundary=" + std::string(8000, 'a')}) {
    const std::string answer = Ask(
        *server, absl::StrCat("GET /figures HTTP/1.1\r\nHost: localhost\r\n", header, "\r\n\r\n"));
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 200")) << header.substr(0, 40);
    EXPECT_THAT(answer, HasSubstr("figures"));
  }
}

TEST_F(HttpServerTest, AReaderThatDoesNotReadHoldsNobodyUp) {
  HttpServer::Options options = Defaults();
  options.threads = 3;
  options.streams = 2;
  options.limits.request_time = absl::Milliseconds(100);
  options.limits.write_time = absl::Milliseconds(100);
  options.limits.least_bytes_per_second = 1e9;
  const auto server = Start(options);
  server->AddPage("/large", "text/plain",
                  [](const HttpRequest&) { return std::string(size_t{64} << 20, 'x'); });
  std::vector<int> idle;
  for (int i = 0; i < 4; ++i) {  // more than there are threads
    idle.push_back(Connect(*server));
    Say(idle.back(), "GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n");
  }
  EXPECT_THAT(Ask(*server, "GET /figures HTTP/1.1\r\nHost: localhost\r\n\r\n"),
              HasSubstr("figures"));
  for (const int fd : idle) close(fd);
}

// Counts up to `end`, then waits for ever.
class Counter final : public HttpEvents {
 public:
  Counter(int begin, int end, std::atomic<int>* alive) : next_(begin), end_(end), alive_(alive) {
    ++*alive_;
  }
  ~Counter() override { --*alive_; }
  std::optional<std::string> Next(absl::Duration) override {
    if (next_ == end_) {
      std::this_thread::yield();
      return "";
    }
    const int number = next_++;
    return absl::StrCat("id: ", number, "\ndata: ", number, "\n\n");
  }

 private:
  int next_;
  const int end_;
  std::atomic<int>* const alive_;
};

class HttpStreamTest : public HttpServerTest {
 protected:
  std::unique_ptr<HttpServer> StartCounting(size_t streams) {
    HttpServer::Options options = Defaults();
    options.streams = streams;
    options.threads = streams + 2;
    auto server = Start(options);
    server->AddEvents("/events", [this](const HttpRequest& request) {
      int last = 0;
      if (!absl::SimpleAtoi(request.last_event_id, &last)) last = 0;
      return std::make_unique<Counter>(last + 1, 4, &alive_);
    });
    return server;
  }

  static std::string Request(const std::string& header = "") {
    return absl::StrCat("GET /events HTTP/1.1\r\nHost: localhost\r\n", header, "\r\n");
  }

  // Reads until the answer holds this.
  static std::string ReadUntil(int fd, const std::string& end) {
    std::string all;
    char bytes[4096];
    while (!absl::StrContains(all, end)) {
      const ssize_t got = recv(fd, bytes, sizeof bytes, 0);
      if (got <= 0) break;
      all.append(bytes, static_cast<size_t>(got));
    }
    return all;
  }

  void WaitForAlive(int count) {
    const absl::Time deadline = executor_.Now() + absl::Seconds(20);
    while (alive_ != count && executor_.Now() < deadline) std::this_thread::yield();
    EXPECT_EQ(count, alive_);
  }

  std::atomic<int> alive_{0};
};

TEST_F(HttpStreamTest, GoesOnWhereTheReaderWas) {
  const auto server = StartCounting(2);
  const int fd = Connect(*server);
  Say(fd, Request());
  const std::string all = ReadUntil(fd, "data: 3");
  EXPECT_THAT(all, HasSubstr("Content-Type: text/event-stream"));
  EXPECT_THAT(all, HasSubstr("data: 1"));
  const int later = Connect(*server);
  Say(later, Request("Last-Event-ID: 2\r\n"));
  EXPECT_THAT(ReadUntil(later, "data: 3"), ::testing::Not(HasSubstr("data: 2")));
  close(fd);
  close(later);
}

TEST_F(HttpStreamTest, AreBoundedAndMakeRoomWhenTheirReadersGo) {
  const auto server = StartCounting(2);
  std::vector<int> readers;
  for (int i = 0; i < 2; ++i) {
    readers.push_back(Connect(*server));
    Say(readers.back(), Request());
    ReadUntil(readers.back(), "data: 3");
  }
  EXPECT_THAT(Ask(*server, Request()), StartsWith("HTTP/1.1 503"));
  EXPECT_THAT(Ask(*server, "GET /figures HTTP/1.1\r\nHost: localhost\r\n\r\n"),
              HasSubstr("figures"));
  close(readers[0]);
  WaitForAlive(1);
  readers[0] = Connect(*server);
  Say(readers[0], Request());
  EXPECT_THAT(ReadUntil(readers[0], "data: 3"), HasSubstr("data: 1"));
  for (const int fd : readers) close(fd);
}

TEST_F(HttpStreamTest, EndWithTheTokenThatLetThemIn) {
  const auto server = StartCounting(2);
  const int fd = Connect(*server);
  Say(fd, Request());
  ReadUntil(fd, "data: 3");
  EXPECT_TRUE(server->SetAccess({"", "", kToken}).ok());
  ReadAll(fd);
  WaitForAlive(0);
  EXPECT_THAT(Ask(*server, Request()), StartsWith("HTTP/1.1 401"));
  close(fd);
}

TEST_F(HttpStreamTest, EndWithTheServer) {
  auto server = StartCounting(2);
  const int fd = Connect(*server);
  Say(fd, Request());
  ReadUntil(fd, "data: 3");
  const int silent = Connect(*server);  // it never asks for anything
  server.reset();
  EXPECT_EQ(0, alive_);
  EXPECT_EQ(0u, ReadAll(silent).size());
  close(fd);
  close(silent);
}

}  // namespace
}  // namespace atolld
