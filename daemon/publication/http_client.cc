#include "daemon/publication/http_client.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "compression/base/status_macros.h"
#include "daemon/env/posix_files.h"
#include "daemon/env/quiet_pipe.h"

namespace atolld {
namespace {

constexpr size_t kReadBytes = size_t{64} << 10;

absl::Status NoHttp(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("the server's answer is not HTTP: ", what));
}

// A connection to one server, in plain text or with TLS, with a deadline.
class HttpLine {
 public:
  HttpLine(const HttpClient::Options& options, absl::Time deadline)
      : options_(options), deadline_(deadline) {}

  absl::Status Open(const Url& url, SSL_CTX* tls) {
    RETURN_IF_ERROR(Connect(url));
    return tls == nullptr ? absl::OkStatus() : Shake(url, tls);
  }

  absl::Status Write(absl::string_view bytes) {
    while (!bytes.empty()) {
      ERR_clear_error();
      const ssize_t put = tls_ == nullptr
                              ? send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL)
                              : SSL_write(tls_.get(), bytes.data(), static_cast<int>(bytes.size()));
      if (put > 0) {
        bytes.remove_prefix(static_cast<size_t>(put));
        continue;
      }
      RETURN_IF_ERROR(WaitAfter(put, POLLOUT));
    }
    return absl::OkStatus();
  }

  // Returns the number of bytes read; 0 at the end.
  absl::StatusOr<size_t> Read(absl::Span<uint8_t> out) {
    while (true) {
      ERR_clear_error();
      const ssize_t got = tls_ == nullptr
                              ? recv(socket_.get(), out.data(), out.size(), 0)
                              : SSL_read(tls_.get(), out.data(), static_cast<int>(out.size()));
      if (got > 0) return static_cast<size_t>(got);
      if (got == 0 && tls_ == nullptr) return 0;
      if (tls_ != nullptr) {
        const int why = SSL_get_error(tls_.get(), static_cast<int>(got));
        if (why == SSL_ERROR_ZERO_RETURN) return 0;
      }
      RETURN_IF_ERROR(WaitAfter(got, POLLIN));
    }
  }

 private:
  struct FreeSsl {
    void operator()(SSL* ssl) const { SSL_free(ssl); }
  };

  absl::Status Wait(int events) {
    const absl::Time until = std::min(deadline_, options_.now() + options_.patience);
    while (true) {
      const absl::Duration left = until - options_.now();
      if (left <= absl::ZeroDuration()) {
        return absl::DeadlineExceededError("the server is too slow or does not answer");
      }
      pollfd polled = {socket_.get(), static_cast<int16_t>(events), 0};
      const int64_t milliseconds =
          std::clamp<int64_t>(absl::ToInt64Milliseconds(left) + 1, 1, 60000);
      const int ready = poll(&polled, 1, static_cast<int>(milliseconds));
      if (ready > 0) return absl::OkStatus();
      if (ready < 0 && errno != EINTR) {
        return absl::UnavailableError(absl::StrCat("poll: ", std::strerror(errno)));
      }
    }
  }

  // Waits until a call that has not succeeded can be made again.
  absl::Status WaitAfter(ssize_t result, int events) {
    if (tls_ == nullptr) {
      if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return Wait(events);
      return absl::UnavailableError(
          absl::StrCat("the connection is broken: ", std::strerror(errno)));
    }
    switch (SSL_get_error(tls_.get(), static_cast<int>(result))) {
      case SSL_ERROR_WANT_READ:
        return Wait(POLLIN);
      case SSL_ERROR_WANT_WRITE:
        return Wait(POLLOUT);
      default:
        return TlsFault("the connection is broken");
    }
  }

  absl::Status TlsFault(absl::string_view what) {
    const long verdict = SSL_get_verify_result(tls_.get());  // NOLINT(google-runtime-int)
    if (verdict != X509_V_OK) {
      return absl::UnavailableError(absl::StrCat("its certificate is not accepted: ",
                                                 X509_verify_cert_error_string(verdict)));
    }
    const char* reason = ERR_reason_error_string(ERR_peek_last_error());
    ERR_clear_error();
    return absl::UnavailableError(
        absl::StrCat(what, reason == nullptr ? "" : ": ", reason == nullptr ? "" : reason));
  }

  absl::Status Connect(const Url& url) {
    addrinfo hints = {};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* list = nullptr;
    const int error = getaddrinfo(url.host.c_str(), url.port.c_str(), &hints, &list);
    if (error != 0) {
      return absl::UnavailableError(
          absl::StrCat("no address of ", url.host, ": ", gai_strerror(error)));
    }
    const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(list, freeaddrinfo);
    absl::Status status;
    for (const addrinfo* one = list; one != nullptr; one = one->ai_next) {
      status = ConnectTo(*one);
      if (status.ok()) return status;
    }
    return status;
  }

  absl::Status ConnectTo(const addrinfo& address) {
    const int type = address.ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK;
    socket_ = Descriptor(socket(address.ai_family, type, address.ai_protocol));
    if (socket_.get() < 0) {
      return absl::UnavailableError(absl::StrCat("socket: ", std::strerror(errno)));
    }
    int error = 0;
    if (connect(socket_.get(), address.ai_addr, address.ai_addrlen) != 0) {
      if (errno != EINPROGRESS) {
        return absl::UnavailableError(absl::StrCat("it cannot be reached: ", std::strerror(errno)));
      }
      RETURN_IF_ERROR(Wait(POLLOUT));
      socklen_t size = sizeof error;
      getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    }
    if (error == 0) return absl::OkStatus();
    return absl::UnavailableError(absl::StrCat("it cannot be reached: ", std::strerror(error)));
  }

  absl::Status Shake(const Url& url, SSL_CTX* tls) {
    tls_.reset(SSL_new(tls));
    if (tls_ == nullptr || SSL_set_fd(tls_.get(), socket_.get()) != 1) {
      return absl::ResourceExhaustedError("no memory for TLS");
    }
    // An address is compared with the addresses in the certificate, a name with its names.
    if (X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(tls_.get()), url.host.c_str()) != 1) {
      SSL_set_hostflags(tls_.get(), X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
      SSL_set1_host(tls_.get(), url.host.c_str());
      SSL_set_tlsext_host_name(tls_.get(), url.host.c_str());
    }
    while (true) {
      ERR_clear_error();
      const int result = SSL_connect(tls_.get());
      if (result == 1) return absl::OkStatus();
      const int why = SSL_get_error(tls_.get(), result);
      if (why != SSL_ERROR_WANT_READ && why != SSL_ERROR_WANT_WRITE) {
        return TlsFault("the TLS handshake failed");
      }
      RETURN_IF_ERROR(Wait(why == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT));
    }
  }

  const HttpClient::Options& options_;
  const absl::Time deadline_;
  Descriptor socket_;
  std::unique_ptr<SSL, FreeSsl> tls_;
};

// -----------------------------------------------------------------------------------------------

struct HttpHead {
  int status = 0;
  std::optional<uint64_t> length;
  std::optional<uint64_t> whole;  // by Content-Range
  std::optional<uint64_t> first;  // by Content-Range
  bool chunked = false;
  std::string location;
};

absl::Status ParseContentRange(absl::string_view value, HttpHead* head) {
  // "bytes 0-99/1234", or "bytes 0-99/*" if the server does not know the length
  const size_t slash = value.find('/');
  const size_t dash = value.find('-');
  uint64_t first = 0;
  uint64_t whole = 0;
  if (!absl::ConsumePrefix(&value, "bytes ") || slash == value.npos || dash == value.npos ||
      dash > slash || !absl::SimpleAtoi(value.substr(0, dash - 6), &first)) {
    return NoHttp("its Content-Range cannot be read");
  }
  const absl::string_view length = value.substr(slash - 6 + 1);
  if (length != "*" && !absl::SimpleAtoi(length, &whole)) {
    return NoHttp("its Content-Range cannot be read");
  }
  head->first = first;
  if (length != "*") head->whole = whole;
  return absl::OkStatus();
}

absl::StatusOr<HttpHead> ParseHead(absl::string_view text) {
  HttpHead head;
  std::vector<absl::string_view> lines = absl::StrSplit(text, '\n');
  absl::string_view first = absl::StripAsciiWhitespace(lines.front());
  if (!absl::StartsWith(first, "HTTP/1.") || first.size() < 12 || first[8] != ' ' ||
      !absl::SimpleAtoi(first.substr(9, 3), &head.status)) {
    return NoHttp("its first line cannot be read");
  }
  for (size_t i = 1; i < lines.size(); ++i) {
    const size_t colon = lines[i].find(':');
    if (colon == absl::string_view::npos) continue;
    const std::string name = absl::AsciiStrToLower(lines[i].substr(0, colon));
    const absl::string_view value = absl::StripAsciiWhitespace(lines[i].substr(colon + 1));
    if (name == "content-length") {
      uint64_t length = 0;
      if (!absl::SimpleAtoi(value, &length) || (head.length && *head.length != length)) {
        return NoHttp("its Content-Length cannot be read");
      }
      head.length = length;
    } else if (name == "content-range" && head.status == 206) {
      RETURN_IF_ERROR(ParseContentRange(value, &head));
    } else if (name == "transfer-encoding") {
      if (!absl::EqualsIgnoreCase(value, "chunked")) return NoHttp("its encoding is unknown");
      head.chunked = true;
    } else if (name == "content-encoding") {
      if (!absl::EqualsIgnoreCase(value, "identity")) {
        return NoHttp("the file is compressed, which was not asked for");
      }
    } else if (name == "location") {
      head.location = std::string(value);
    }
  }
  return head;
}

// The answer's bytes after its head, without the framing of chunks.
class HttpBody {
 public:
  HttpBody(HttpLine& line, const HttpHead& head, std::string rest)
      : line_(line), chunked_(head.chunked), left_(head.length), buffer_(std::move(rest)) {}

  // Returns the next bytes; none at the end. They are valid until the next call.
  absl::StatusOr<absl::Span<const uint8_t>> Next() {
    Drop();
    if (chunked_ && chunk_ == 0) RETURN_IF_ERROR(NextChunk());
    const bool over = chunked_ ? ended_ : left_ == uint64_t{0};
    if (over) return absl::Span<const uint8_t>();
    if (buffer_.empty()) {
      ASSIGN_OR_RETURN(const bool more, Fill());
      if (!more && !chunked_ && !left_) return absl::Span<const uint8_t>();
      if (!more) return absl::UnavailableError("the server broke off within its answer");
    }
    uint64_t count = buffer_.size();
    if (chunked_) count = std::min(count, chunk_);
    if (!chunked_ && left_) count = std::min(count, *left_);
    given_ = static_cast<size_t>(count);
    if (chunked_) chunk_ -= count;
    if (!chunked_ && left_) *left_ -= count;
    return absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(buffer_.data()), given_);
  }

 private:
  void Drop() {
    buffer_.erase(0, given_);
    given_ = 0;
  }

  absl::StatusOr<bool> Fill() {
    uint8_t piece[kReadBytes];
    ASSIGN_OR_RETURN(const size_t got, line_.Read(absl::MakeSpan(piece)));
    buffer_.append(reinterpret_cast<const char*>(piece), got);
    return got > 0;
  }

  // Reads the line with the next chunk's length, and the line end of the chunk before it.
  absl::Status NextChunk() {
    if (ended_) return absl::OkStatus();
    constexpr size_t kLongestLine = 1024;
    while (true) {
      const size_t begin = absl::StartsWith(buffer_, "\r\n") ? 2 : 0;
      const size_t end = buffer_.find("\r\n", begin);
      if (end != std::string::npos) {
        const absl::string_view line = absl::string_view(buffer_).substr(begin, end - begin);
        const absl::string_view digits = line.substr(0, line.find(';'));
        if (digits.size() > 15 || !absl::SimpleHexAtoi(digits, &chunk_)) {
          return NoHttp("a chunk's length cannot be read");
        }
        ended_ = chunk_ == 0;
        buffer_.erase(0, end + 2);
        return absl::OkStatus();
      }
      if (buffer_.size() > kLongestLine) return NoHttp("a chunk's length cannot be read");
      ASSIGN_OR_RETURN(const bool more, Fill());
      if (!more) return absl::UnavailableError("the server broke off within its answer");
    }
  }

  HttpLine& line_;
  const bool chunked_;
  std::optional<uint64_t> left_;  // without chunks, if the server says it
  std::string buffer_;
  size_t given_ = 0;
  uint64_t chunk_ = 0;  // bytes left of this chunk
  bool ended_ = false;
};

absl::StatusOr<HttpHead> ReadHead(HttpLine& line, std::string* rest) {
  std::string text;
  size_t looked = 0;
  while (true) {
    const size_t plain = text.find("\n\n", looked);
    const size_t usual = text.find("\n\r\n", looked);
    const size_t end = std::min(plain, usual);
    if (end != std::string::npos) {
      *rest = text.substr(end + (usual < plain ? 3 : 2));
      return ParseHead(absl::string_view(text).substr(0, end));
    }
    if (text.size() >= HttpClient::kLongestHead) return NoHttp("its head does not end");
    looked = text.size() < 2 ? 0 : text.size() - 2;
    uint8_t piece[4096];
    ASSIGN_OR_RETURN(const size_t got, line.Read(absl::MakeSpan(piece)));
    if (got == 0) return absl::UnavailableError("the server broke off before its answer");
    text.append(reinterpret_cast<const char*>(piece), got);
  }
}

absl::StatusOr<Url> Redirected(const Url& from, const std::string& location) {
  if (absl::StartsWith(location, "/") && !absl::StartsWith(location, "//")) {
    Url url = from;
    url.path = location;
    return url;
  }
  absl::StatusOr<Url> url = ParseUrl(location);
  if (!url.ok()) return NoHttp("it redirects to no address that can be read");
  if (from.tls && !url->tls) return NoHttp("it redirects from https to http");
  return url;
}

bool IsRedirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

// Characters that would end the request's line, or begin another one, are not part of a URL.
bool IsUrlText(absl::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return static_cast<unsigned char>(c) > ' ' && static_cast<unsigned char>(c) < 127;
  });
}

}  // namespace

std::string Url::Authority() const {
  const bool address = host.find(':') != std::string::npos;
  const std::string name = address ? absl::StrCat("[", host, "]") : host;
  return port == (tls ? "443" : "80") ? name : absl::StrCat(name, ":", port);
}

std::string Url::Text() const {
  return absl::StrCat(tls ? "https://" : "http://", Authority(), path);
}

absl::StatusOr<Url> ParseUrl(absl::string_view text) {
  const auto wrong = [text](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat(text, ": ", what));
  };
  Url url;
  absl::string_view left = text;
  if (absl::ConsumePrefix(&left, "https://")) {
    url.tls = true;
  } else if (!absl::ConsumePrefix(&left, "http://")) {
    return wrong("a URL begins with http:// or https://");
  }
  if (!IsUrlText(left) || left.size() > 4096) {
    return wrong("a URL has up to 4096 printable characters, and no spaces");
  }
  left = left.substr(0, left.find('#'));
  const size_t slash = left.find_first_of("/?");
  absl::string_view authority = left.substr(0, slash);
  url.path = slash == absl::string_view::npos ? "/" : std::string(left.substr(slash));
  if (url.path.front() != '/') url.path.insert(0, "/");
  if (authority.find('@') != absl::string_view::npos) return wrong("it must not have a user");
  url.port = url.tls ? "443" : "80";
  const size_t bracket = authority.find(']');
  const size_t colon = authority.find(':', bracket == authority.npos ? 0 : bracket);
  if (colon != absl::string_view::npos) {
    int port = 0;
    const absl::string_view digits = authority.substr(colon + 1);
    if (!absl::SimpleAtoi(digits, &port) || port < 1 || port > 65535) {
      return wrong("its port must be from 1 to 65535");
    }
    url.port = absl::StrCat(port);
    authority = authority.substr(0, colon);
  }
  if (absl::ConsumePrefix(&authority, "[")) absl::ConsumeSuffix(&authority, "]");
  if (authority.empty()) return wrong("it names no server");
  url.host = std::string(authority);
  return url;
}

absl::Status HttpClient::MakeTls() {
  if (tls_ != nullptr) return absl::OkStatus();
  tls_.reset(SSL_CTX_new(TLS_client_method()));
  if (tls_ == nullptr) return absl::ResourceExhaustedError("no memory for TLS");
  SSL_CTX_set_min_proto_version(tls_.get(), TLS1_2_VERSION);
  SSL_CTX_set_verify(tls_.get(), SSL_VERIFY_PEER, nullptr);
  SSL_CTX_set_default_verify_paths(tls_.get());
  return absl::OkStatus();
}

absl::StatusOr<std::optional<std::string>> HttpClient::Ask(const std::string& url,
                                                           absl::Time deadline,
                                                           const std::optional<Range>& range,
                                                           Answer* answer, const OnHead& on_head,
                                                           const OnBody& on_body) {
  ASSIGN_OR_RETURN(const Url place, ParseUrl(url));
  const QuietPipe quiet;
  if (place.tls) RETURN_IF_ERROR(MakeTls());
  HttpLine line(options_, deadline);
  std::string request = absl::StrCat("GET ", place.path, " HTTP/1.1\r\nHost: ", place.Authority(),
                                     "\r\nUser-Agent: ", options_.user_agent,
                                     "\r\nAccept-Encoding: identity\r\nConnection: close\r\n");
  if (range) {
    absl::StrAppend(&request, "Range: bytes=", range->first, "-", range->first + range->count - 1,
                    "\r\n");
  }
  RETURN_IF_ERROR(line.Open(place, place.tls ? tls_.get() : nullptr));
  RETURN_IF_ERROR(line.Write(absl::StrCat(request, "\r\n")));
  std::string rest;
  ASSIGN_OR_RETURN(const HttpHead head, ReadHead(line, &rest));
  if (IsRedirect(head.status)) {
    ASSIGN_OR_RETURN(const Url next, Redirected(place, head.location));
    return next.Text();
  }
  if (head.status == 404 || head.status == 410) {
    return absl::NotFoundError("the server has no such file");
  }
  answer->partial = head.status == 206 && range && head.first == range->first;
  if (head.status != 200 && !answer->partial) {
    return absl::UnavailableError(absl::StrCat("the server answers with status ", head.status));
  }
  answer->whole = answer->partial ? head.whole : (head.chunked ? std::nullopt : head.length);
  RETURN_IF_ERROR(on_head(*answer));
  HttpBody body(line, head, std::move(rest));
  while (true) {
    ASSIGN_OR_RETURN(const absl::Span<const uint8_t> bytes, body.Next());
    if (bytes.empty()) return std::nullopt;
    answer->received += bytes.size();
    RETURN_IF_ERROR(on_body(bytes));
  }
}

absl::StatusOr<HttpClient::Answer> HttpClient::Get(const std::string& url,
                                                   const std::optional<Range>& range,
                                                   uint64_t bytes, const OnHead& on_head,
                                                   const OnBody& on_body) {
  const absl::Duration own =
      absl::Seconds(static_cast<double>(bytes) / options_.least_bytes_per_second);
  const absl::Time deadline = options_.now() + 4 * options_.patience + own;
  std::string place = url;
  for (int redirects = 0; redirects <= kMostRedirects; ++redirects) {
    Answer answer;
    absl::StatusOr<std::optional<std::string>> next =
        Ask(place, deadline, range, &answer, on_head, on_body);
    if (!next.ok()) return Annotate(next.status(), place);
    if (!next->has_value()) return answer;
    place = **std::move(next);
  }
  return absl::UnavailableError(
      absl::StrCat(url, ": the server redirects more than ", kMostRedirects, " times"));
}

}  // namespace atolld
