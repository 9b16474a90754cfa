// If these fail, a page from elsewhere can read the dashboard on loopback through the browser, or
// somebody without the token reads it over the network.
#include "daemon/web/http_access.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "daemon/env/posix_files.h"

namespace atolld {
namespace {

TEST(HttpAccess, KnowsTheNamesOfLoopback) {
  for (const char* host : {"localhost", "LOCALHOST:7080", "atoll.localhost:80", "127.0.0.1",
                           "127.0.0.1:7080", "127.255.0.9:1", "[::1]", "[::1]:7080"}) {
    EXPECT_TRUE(IsLoopbackHost(host)) << host;
  }
  for (const char* host :
       {"", "evil.example", "127.0.0.1.evil.example", "localhost.evil.example:7080", "128.0.0.1",
        "127.0.0.256", "127.1", "127.0.0.1:80:80", "127.0.0.1:port", "[::2]", "[::1]evil", "[::1",
        "notlocalhost", "localhost:", "10.0.0.1:7080"}) {
    EXPECT_FALSE(IsLoopbackHost(host)) << host;
  }
}

TEST(HttpAccess, TakesTheTokenAsBearerOrPassword) {
  const std::string token = "0123456789abcdef";
  const auto basic = [](const std::string& text) {
    return absl::StrCat("Basic ", absl::Base64Escape(text));
  };
  EXPECT_TRUE(ShowsToken(absl::StrCat("Bearer ", token), token));
  EXPECT_TRUE(ShowsToken(absl::StrCat("bearer  ", token), token));
  EXPECT_TRUE(ShowsToken(basic("anybody:" + token), token));
  EXPECT_TRUE(ShowsToken(basic(":" + token), token));
  EXPECT_TRUE(ShowsToken(basic(":\xc2\xa0" + token + "\xe2\x80\x8b"), token)) << "it was pasted";
  EXPECT_FALSE(ShowsToken("", token));
  EXPECT_FALSE(ShowsToken(token, token));
  EXPECT_FALSE(ShowsToken("Bearer", token));
  EXPECT_FALSE(ShowsToken("Bearer 0123456789abcdeg", token));
  EXPECT_FALSE(ShowsToken("Bearer 0123456789abcde", token));
  EXPECT_FALSE(ShowsToken(basic(token), token));
  EXPECT_FALSE(ShowsToken(basic(token + ":anybody"), token));
  EXPECT_FALSE(ShowsToken("Basic ***", token));
}

TEST(HttpAccess, WantsAPrivateFileOfOneLine) {
  PosixFiles files;
  const std::string path = testing::TempDir() + "http_access_token";
  const auto read = [&](const std::string& text, bool is_private) {
    std::ofstream(path) << text;
    std::filesystem::permissions(
        path, is_private ? std::filesystem::perms::owner_read | std::filesystem::perms::owner_write
                         : std::filesystem::perms(0644));
    absl::StatusOr<std::string> token = ReadHttpToken(files, path);
    std::filesystem::remove(path);
    return token.ok() ? *token : std::string(token.status().message());
  };
  EXPECT_EQ(read("0123456789abcdef\n", true), "0123456789abcdef");
  EXPECT_EQ(read("0123456789abcdef", true), "0123456789abcdef");
  EXPECT_EQ(read("\xef\xbb\xbf"
                 "0123456789abcdef\r\n",
                 true),
            "0123456789abcdef");
  std::string notepad = "\xff\xfe";
  for (const char c : absl::string_view("0123456789abcdef\r\n")) notepad += {c, '\0'};
  EXPECT_EQ(read(notepad, true), "0123456789abcdef");
  EXPECT_NE(read("0123456789abcdef\n", false).find("can be read by others"), std::string::npos);
  for (const char* text :
       {"", "\n", "short\n", "0123456789abcdef\nmore\n", "0123456789 abcdef\n"}) {
    EXPECT_NE(read(text, true).find("must hold one line"), std::string::npos) << text;
  }
  EXPECT_NE(ReadHttpToken(files, path + "-none").status().message().find("token_file"),
            std::string::npos);
}

// Broken: a library parses headers that nobody needs, before anybody is asked for a token.
TEST(RequestHead, KeepsWhatThePortLooksAtAndNothingElse) {
  const std::string head =
      "GET /a?b=c HTTP/1.1\r\nHOST: localhost\r\nRange: bytes=0-1\r\nhost : x\r\n"
      "Authorization: Bearer t\r\nX: y\nRange: bytes=0-1\r\nLast-Event-ID: 7\nRange: bytes=1-\r\n"
      "\r\n";
  EXPECT_EQ(EndOfRequestHead(head + "more"), head.size());
  EXPECT_EQ(EndOfRequestHead(head.substr(0, head.size() - 1)), std::string::npos);
  EXPECT_EQ(PlainRequestHead(head),
            "GET /a?b=c HTTP/1.1\r\nHOST: localhost\r\nAuthorization: Bearer t\r\n"
            "Last-Event-ID: 7\r\n\r\n");
  EXPECT_EQ(PlainRequestHead("GET / HTTP/1.1\nRange: bytes=0-\r\n\r\n"), "GET / HTTP/1.1\r\n\r\n");
}

}  // namespace
}  // namespace atolld
