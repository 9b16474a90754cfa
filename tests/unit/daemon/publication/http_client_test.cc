// If these fail, a hostile web server can hold up, fill up or mislead whoever verifies a run.
#include "daemon/publication/http_client.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/env/quiet_pipe.h"
#include "daemon/publication/site.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

// Gives each connection the same bytes, `times` over, after a request that has `until`, and keeps
// the last request.
class CannedServer {
 public:
  CannedServer(std::string answer, int times = 1, std::string until = "\r\n\r\n")
      : answer_(std::move(answer)), times_(times), until_(std::move(until)) {
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address);
    listen(listener_, 8);
    socklen_t size = sizeof address;
    getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { Serve(); });
  }
  ~CannedServer() {
    shutdown(listener_, SHUT_RDWR);
    thread_.join();
    close(listener_);
  }
  std::string url(const std::string& path) const {
    return absl::StrCat("http://127.0.0.1:", port_, path);
  }
  std::string request() const { return request_; }  // after the client has got its answer

 private:
  void Serve() {
    while (true) {
      const int client = accept(listener_, nullptr, nullptr);
      if (client < 0) return;
      std::string request;
      char piece[1024];
      while (!absl::StrContains(request, until_)) {
        const ssize_t got = recv(client, piece, sizeof piece, 0);
        if (got <= 0) break;
        request.append(piece, static_cast<size_t>(got));
      }
      request_ = request;
      for (int i = 0; i < times_; ++i) {
        if (send(client, answer_.data(), answer_.size(), MSG_NOSIGNAL) <= 0) break;
      }
      close(client);
    }
  }

  const std::string answer_;
  const int times_;
  const std::string until_;
  int listener_ = -1;
  int port_ = 0;
  std::string request_;
  std::thread thread_;
};

HttpClient::Options Patient() {
  HttpClient::Options options;
  options.now = [] {
    return absl::FromChrono(std::chrono::system_clock::time_point(
        std::chrono::duration_cast<std::chrono::system_clock::duration>(
            std::chrono::steady_clock::now().time_since_epoch())));
  };
  options.patience = absl::Seconds(10);
  return options;
}

// Reads the first `count` bytes of a file of 10 bytes.
absl::Status ReadFrom(const CannedServer& server, std::string* text, uint64_t count = 10) {
  const std::unique_ptr<Site> site = *OpenWebSite(server.url("/a/"), Patient());
  text->clear();
  return site->Read("state", {10, 0, count}, [text](absl::Span<const uint8_t> bytes) {
    text->append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return absl::OkStatus();
  });
}

TEST(HttpClientTest, ReadsUrls) {
  // Broken: what a person pastes would lead to another server or another file.
  const Url plain = *ParseUrl("http://a.example/runs/books?x=1#top");
  EXPECT_EQ(plain.Text(), "http://a.example/runs/books?x=1");
  EXPECT_EQ(plain.port, "80");
  EXPECT_EQ(ParseUrl("https://a.example")->Text(), "https://a.example/");
  const Url address = *ParseUrl("https://[::1]:8443/a");
  EXPECT_EQ(address.host, "::1");
  EXPECT_EQ(address.port, "8443");
  EXPECT_EQ(address.Text(), "https://[::1]:8443/a");
  for (const char* const wrong :
       {"ftp://a/b", "a.example", "http://", "http://u:p@a/", "http://a:0/", "http://a:99999/",
        "http://a/b c", "http://a/\r\nHost: b"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseUrl(wrong).status())) << wrong;
  }
}

TEST(HttpClientTest, ReadsWholeFilesAndParts) {
  // Broken: no site could be read from a server.
  std::string text;
  const CannedServer whole("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123456789");
  ASSERT_TRUE(ReadFrom(whole, &text).ok());
  EXPECT_EQ(text, "0123456789");
  EXPECT_THAT(whole.request(), HasSubstr("GET /a/state HTTP/1.1\r\n"));
  const CannedServer part(
      "HTTP/1.1 206 Partial\r\nContent-Range: bytes 0-3/10\r\nContent-Length: 4\r\n\r\n0123");
  ASSERT_TRUE(ReadFrom(part, &text, 4).ok());
  EXPECT_EQ(text, "0123");
  EXPECT_THAT(part.request(), HasSubstr("Range: bytes=0-3\r\n"));
  const CannedServer unmeasured(
      "HTTP/1.1 206 Partial\r\nContent-Range: bytes 0-3/*\r\nContent-Length: 4\r\n\r\n0123");
  ASSERT_TRUE(ReadFrom(unmeasured, &text, 4).ok());
  const CannedServer odd(
      "HTTP/1.1 200 OK\r\nContent-Range: none\r\nContent-Length: 10\r\n\r\n0123456789");
  ASSERT_TRUE(ReadFrom(odd, &text).ok());
  const CannedServer chunks(
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: "
      "chunked\r\n\r\n4\r\n0123\r\n6;x=y\r\n456789\r\n0\r\n\r\n");
  ASSERT_TRUE(ReadFrom(chunks, &text).ok());
  EXPECT_EQ(text, "0123456789");
  const CannedServer closed("HTTP/1.0 200 OK\n\n0123456789");
  ASSERT_TRUE(ReadFrom(closed, &text).ok());
  const CannedServer no_parts("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123456789");
  EXPECT_TRUE(absl::IsUnimplemented(ReadFrom(no_parts, &text, 4)));
}

TEST(HttpClientTest, EndsWithHostileServersInOneLine) {
  // Broken: an answer without an end would fill memory or disk, or a wrong one would be believed.
  const struct {
    std::string answer;
    int times;
    const char* why;
  } cases[] = {
      {"HTTP/1.0 200 OK\r\n\r\n" + std::string(100000, 'x'), 1, "more than the 10 bytes"},
      {"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n", 1, "it has 11 bytes, run.json says 10"},
      {"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n012", 1, "broke off"},
      {"HTTP/1.1 200 OK\r\n\r\n012", 1, "sent 3 bytes of the 10"},
      {"HTTP/1.1 200 OK\r\nX: y", 1, "broke off before its answer"},
      {"X-Endless: yes\r\n", 10000000, "its head does not end"},
      {std::string(4096, 'H'), 10000000, "its head does not end"},
      {"220 smtp\r\n\r\n", 1, "first line"},
      {"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n", 1, "Content-Length"},
      {"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n", 1, "compressed"},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffffff\r\n", 1, "chunk"},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffff\r\n" + std::string(99, 'x'), 1,
       "more than the 10 bytes"},
      {"HTTP/1.1 302 Found\r\nLocation: /a/state\r\n\r\n", 1, "redirects more than 5 times"},
      {"HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\n\r\n", 1, "redirects to no address"},
      {"HTTP/1.1 500 Oops\r\n\r\n", 1, "status 500"},
      {"HTTP/1.1 206 P\r\nContent-Range: bytes 5-9/10\r\n\r\n01234", 1, "status 206"},
  };
  for (const auto& one : cases) {
    const CannedServer server(one.answer, one.times);
    std::string text;
    const absl::Status status = ReadFrom(server, &text);
    EXPECT_FALSE(status.ok()) << one.why;
    EXPECT_THAT(std::string(status.message()), HasSubstr(one.why));
    EXPECT_THAT(std::string(status.message()), HasSubstr("http://127.0.0.1:"));
    EXPECT_LE(text.size(), 10u);
  }
  const CannedServer none("HTTP/1.1 404 Not Found\r\n\r\n");
  std::string text;
  EXPECT_TRUE(absl::IsNotFound(ReadFrom(none, &text)));
}

TEST(HttpClientTest, OutlivesAServerThatHangsUpOnTls) {
  // Broken: OpenSSL's write to a closed connection would end the process with SIGPIPE.
  // A record with a message that no handshake has: the client answers it with an alert.
  const CannedServer server(std::string("\x16\x03\x03\x00\x04\x63\x00\x00\x00", 9), 1, "");
  const std::string url = "https" + server.url("/").substr(4);
  for (int i = 0; i < 20; ++i) {
    const std::unique_ptr<Site> site = *OpenWebSite(url, Patient());
    EXPECT_FALSE(site->ReadShort("run.json", 100).ok());
  }
  const QuietPipe quiet;
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  close(ends[1]);
  EXPECT_LT(write(ends[0], "x", 1), 0);
  close(ends[0]);
}

TEST(HttpClientTest, GivesUpOnASilentServer) {
  // Broken: whoever verifies would wait for ever.
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(listen(listener, 8), 0);
  socklen_t size = sizeof address;
  getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size);
  HttpClient::Options options = Patient();
  options.patience = absl::Milliseconds(50);
  const std::unique_ptr<Site> site =
      *OpenWebSite(absl::StrCat("http://127.0.0.1:", ntohs(address.sin_port), "/"), options);
  EXPECT_TRUE(absl::IsDeadlineExceeded(site->ReadShort("run.json", 100).status()));
  close(listener);
}

}  // namespace
}  // namespace atolld
