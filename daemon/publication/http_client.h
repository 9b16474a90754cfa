// HttpClient: fetches a file, or a part of one, from a web server by HTTP/1.1, with TLS for https.
//
// It is for servers that nobody vouches for. Law: one request ends within a time that depends only
// on the number of bytes asked for, and on how long the system looks for the server's name
// (getaddrinfo, with the limits of resolv.conf); the head of an answer is at most kLongestHead
// bytes; no more of a body is read than was asked for, whatever the server says of its length.
// Certificates are checked against those that the system trusts (OpenSSL's paths, or
// SSL_CERT_FILE). Each request has a connection of its own. The calls block. Used by one thread.
#pragma once

#include <openssl/ssl.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

namespace atolld {

// The parts of an http:// or https:// URL. Without a query, a fragment or a user's name.
struct Url {
  bool tls = false;
  std::string host;  // an IPv6 address without its brackets
  std::string port;
  std::string path;  // begins with "/"

  std::string Text() const;
  std::string Authority() const;  // for the Host header: "host" or "host:port"
};
// Fails with INVALID_ARGUMENT; the message says why.
absl::StatusOr<Url> ParseUrl(absl::string_view text);

class HttpClient {
 public:
  static constexpr size_t kLongestHead = size_t{64} << 10;
  static constexpr int kMostRedirects = 5;

  struct Options {
    std::function<absl::Time()> now;  // a monotonic clock
    // Within these a connection must stand, and the next bytes must arrive.
    absl::Duration patience = absl::Seconds(20);
    // The time for a whole request is four times `patience`, and one second for so many bytes.
    double least_bytes_per_second = 32 << 10;
    std::string user_agent = "atoll";
  };

  explicit HttpClient(Options options) : options_(std::move(options)) {}

  struct Range {
    uint64_t first = 0;
    uint64_t count = 0;
  };
  struct Answer {
    // The file's length, if the server says it.
    std::optional<uint64_t> whole;
    uint64_t received = 0;  // bytes of the body
    bool partial = false;   // true if the server has answered with the range
  };
  // Gets the body piece by piece. An error ends the request.
  using OnBody = std::function<absl::Status(absl::Span<const uint8_t> bytes)>;
  // Called when the answer's head has arrived, before its body. An error ends the request.
  using OnHead = std::function<absl::Status(const Answer& answer)>;

  // Gets the file at `url`, or the range of it. `bytes` is how many are expected at most, for the
  // time that the request may take. Follows redirects, but not from https to http. Fails with
  // NOT_FOUND for the status 404, with UNAVAILABLE if the server cannot be reached, breaks off or
  // answers with another status than 200 and 206, with DEADLINE_EXCEEDED if it is too slow, with
  // DATA_LOSS if its answer is not HTTP, and with the errors of the callbacks. An answer that ends
  // before the length that it names has broken off. The message begins with the URL.
  absl::StatusOr<Answer> Get(const std::string& url, const std::optional<Range>& range,
                             uint64_t bytes, const OnHead& on_head, const OnBody& on_body);

 private:
  absl::Status MakeTls();
  // Asks once. Returns the URL to which the server redirects, if it does. Errors do not name the
  // URL.
  absl::StatusOr<std::optional<std::string>> Ask(const std::string& url, absl::Time deadline,
                                                 const std::optional<Range>& range, Answer* answer,
                                                 const OnHead& on_head, const OnBody& on_body);

  const Options options_;
  std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)> tls_{nullptr, SSL_CTX_free};
};

}  // namespace atolld
