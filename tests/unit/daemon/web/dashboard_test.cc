// If these fail, the page lacks a file, or loads something from elsewhere, or its figures are not
// where it asks for them.
#include "daemon/web/dashboard.h"

#include <httplib.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/env/posix_executor.h"
#include "daemon/web/page_files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(Dashboard, ServesThePageAndItsFigures) {
  PosixExecutor executor(PosixExecutor::Options{1, 0});
  const auto now = [&executor] { return executor.Now(); };
  RunBoard board(1, now);
  HttpServer::Options options;
  options.addresses = {"127.0.0.1:0"};
  options.now = now;
  const auto server = HttpServer::Start(std::move(options));
  ASSERT_TRUE(server.ok()) << server.status();
  ServeDashboard(**server, board);
  v1::RunStatus news;
  news.mutable_spec()->set_run_id("run-1");
  news.add_rounds()->set_version(1);
  board.Take(news);

  httplib::Client client((*server)->url().substr(0, (*server)->url().size() - 1));
  const auto page = client.Get("/");
  ASSERT_TRUE(page);
  EXPECT_THAT(page->body, StartsWith("<!doctype html>"));
  EXPECT_EQ("text/html; charset=utf-8", page->get_header_value("Content-Type"));
  EXPECT_EQ(page->body, client.Get("/peer/peer-1")->body);
  for (const PageFile& file : PageFiles()) {
    const auto got = client.Get(std::string(file.path));
    ASSERT_TRUE(got) << file.path;
    EXPECT_EQ(file.bytes, got->body) << file.path;
    EXPECT_FALSE(got->get_header_value("Content-Type").empty()) << file.path;
  }
  const auto listed = client.Get("/listed.js");
  ASSERT_TRUE(listed);
  EXPECT_THAT(listed->body, StartsWith("export const peerFigures =\n[{\"place\":"));
  EXPECT_EQ("text/javascript; charset=utf-8", listed->get_header_value("Content-Type"));
  EXPECT_THAT(client.Get("/api/run")->body, HasSubstr("\"run_id\":\"run-1\""));
  EXPECT_THAT(client.Get("/api/rounds?from=1")->body, StartsWith("[{\"version\":1,"));
  EXPECT_EQ("[]\n", client.Get("/api/rounds?from=2")->body);
  std::string events;
  client.Get("/api/events", [&events](const char* bytes, size_t size) {
    events.append(bytes, size);
    return !absl::StrContains(events, "event: run");  // false ends it
  });
  EXPECT_THAT(events, HasSubstr("event: run"));
}

TEST(Dashboard, LoadsNothingFromElsewhere) {
  for (const PageFile& file : PageFiles()) {
    if (file.path == "/icon.svg" || absl::StrContains(file.path, "dygraph")) continue;
    EXPECT_THAT(file.bytes, Not(HasSubstr("http://"))) << file.path;
    EXPECT_THAT(file.bytes, Not(HasSubstr("https://"))) << file.path;
    EXPECT_THAT(file.bytes, Not(HasSubstr("innerHTML"))) << file.path;
  }
}

}  // namespace
}  // namespace atolld
