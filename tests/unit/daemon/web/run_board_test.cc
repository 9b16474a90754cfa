// If these fail, the dashboard shows another run than the coordinator has, loses or repeats what
// happened while its line was broken, or sends a browser more than it can draw.
#include "daemon/web/run_board.h"

#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace atolld {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;
using Json = nlohmann::ordered_json;

constexpr absl::Duration kNoPatience = absl::ZeroDuration();

struct Told {
  std::string id;
  std::string event;
  Json data;
};

class RunBoardTest : public ::testing::Test {
 protected:
  static v1::RunStatus News(std::vector<uint64_t> rounds, std::vector<std::string> events = {}) {
    v1::RunStatus news;
    news.mutable_spec()->set_run_id("run-1");
    news.set_phase("training");
    for (const uint64_t version : rounds) {
      v1::RoundRecord* round = news.add_rounds();
      round->set_version(version);
      round->set_tokens(100);
      news.set_version(version);
    }
    for (const std::string& event : events) news.add_events(event);
    return news;
  }

  // The next event; after `wait` on the test's clock. The beats before it are left out.
  Told Next(HttpEvents& events, absl::Duration wait = absl::Seconds(10)) {
    now_ += wait;
    Told told;
    for (const absl::string_view line : absl::StrSplit(events.Next(kNoPatience).value(), '\n')) {
      const std::pair<absl::string_view, absl::string_view> parts =
          absl::StrSplit(line, absl::MaxSplits(": ", 1));
      if (parts.first == "id") told.id = std::string(parts.second);
      if (parts.first == "event") told.event = std::string(parts.second);
      if (parts.first == "data") told.data = Json::parse(parts.second, nullptr, false);
    }
    return told;
  }

  static std::vector<uint64_t> VersionsOf(const Json& rounds) {
    std::vector<uint64_t> versions;
    for (const Json& round : rounds) versions.push_back(round["version"].get<uint64_t>());
    return versions;
  }

  absl::Time now_ = absl::UnixEpoch();
  RunBoard board_{7, [this] { return now_; }};
};

TEST_F(RunBoardTest, ShowsWhatItWasTold) {
  EXPECT_EQ("{}\n", board_.RunJson());
  board_.Take(News({1, 2}, {"peer-1 joined"}));
  v1::RunStatus news = News({3});
  v1::EvaluationRecord* evaluation = news.add_evaluations();
  evaluation->set_version(2);
  evaluation->set_loss(1.5);
  news.set_reason("fewer than \"2\" <peers>\n");
  board_.Take(news);
  const Json run = Json::parse(board_.RunJson());
  EXPECT_EQ("run-1", run["run_id"]);
  EXPECT_EQ("fewer than \"2\" <peers>\n", run["reason"]);
  EXPECT_THAT(VersionsOf(run["rounds"]), ElementsAre(1, 2, 3));
  EXPECT_EQ(1.5, run["evaluations"][0]["loss"]);
  EXPECT_EQ("peer-1 joined", run["events"][0]);
  EXPECT_THAT(VersionsOf(Json::parse(board_.RoundsJson(2))), ElementsAre(2, 3));
  EXPECT_THAT(VersionsOf(Json::parse(board_.RoundsJson(4))), IsEmpty());
}

// Prometheus would be told of an older round, or of none since the last status had none.
TEST_F(RunBoardTest, HasTheNewestOfEach) {
  EXPECT_EQ("", board_.Newest().spec().run_id());
  v1::RunStatus news = News({1, 2}, {"first"});
  news.add_evaluations()->set_version(1);
  board_.Take(news);
  news = News({});
  news.set_version(2);
  news.set_tokens(200);
  board_.Take(news);
  const v1::RunStatus newest = board_.Newest();
  EXPECT_EQ(200u, newest.tokens());
  ASSERT_EQ(1, newest.rounds_size());
  EXPECT_EQ(2u, newest.rounds(0).version());
  ASSERT_EQ(1, newest.evaluations_size());
  EXPECT_EQ(1u, newest.evaluations(0).version());
}

TEST_F(RunBoardTest, TellsAReaderAllAndThenWhatIsNew) {
  board_.Take(News({1, 2}, {"first"}));
  const auto reader = board_.Follow("");
  const std::string begin = reader->Next(kNoPatience).value();
  EXPECT_THAT(begin, StartsWith("retry: 1000\n\nid: "));
  EXPECT_THAT(begin, HasSubstr("\"events\":[\"first\"]"));
  EXPECT_TRUE(absl::EndsWith(begin, "}\n\n"));
  board_.Take(News({3}, {"second"}));
  board_.Take(News({4}));
  const Told next = Next(*reader);
  EXPECT_EQ("run", next.event);
  EXPECT_THAT(VersionsOf(next.data["rounds"]), ElementsAre(3, 4));
  EXPECT_EQ(Json::array({"second"}), next.data["events"]);
}

TEST_F(RunBoardTest, GoesOnWhereABrokenLineEnded) {
  board_.Take(News({1, 2}, {"first"}));
  const Told told = Next(*board_.Follow(""));
  board_.Take(News({3}, {"second"}));
  const Told later = Next(*board_.Follow(told.id));
  EXPECT_THAT(VersionsOf(later.data["rounds"]), ElementsAre(3));
  EXPECT_EQ(Json::array({"second"}), later.data["events"]);
  // Who has everything is told the state at once all the same.
  const Told same = Next(*board_.Follow(later.id));
  EXPECT_EQ(later.id, same.id);
  EXPECT_THAT(same.data["rounds"], IsEmpty());
  EXPECT_EQ("training", same.data["phase"]);
}

TEST_F(RunBoardTest, TellsAllAgainAfterARestart) {
  RunBoard before(6, [this] { return now_; });
  before.Take(News({1, 2}, {"first"}));
  const Told told = Next(*before.Follow(""));
  board_.Take(News({1, 2, 3}));
  for (const std::string& id : {told.id, std::string("nonsense"), std::string("7-1-1-1"),
                                std::string("0000000000000007-x-1-1")}) {
    EXPECT_THAT(VersionsOf(Next(*board_.Follow(id)).data["rounds"]), ElementsAre(1, 2, 3)) << id;
  }
}

TEST_F(RunBoardTest, SaysThatItLivesAndHowOldItsFiguresAre) {
  board_.Take(News({1}));
  const auto reader = board_.Follow("");
  EXPECT_EQ("run", Next(*reader).event);
  EXPECT_EQ("", Next(*reader, absl::Milliseconds(900)).event);
  const Told beat = Next(*reader, absl::Milliseconds(200));
  EXPECT_EQ("beat", beat.event);
  EXPECT_DOUBLE_EQ(11.1, beat.data.get<double>());  // since the status came
  EXPECT_EQ("", Next(*reader, absl::Milliseconds(900)).event);
}

TEST_F(RunBoardTest, DoesNotFloodAReader) {
  board_.Take(News({1}));
  const auto reader = board_.Follow("");
  EXPECT_EQ("run", Next(*reader).event);
  board_.Take(News({2}));
  EXPECT_EQ("", Next(*reader, absl::Milliseconds(100)).event);
  board_.Take(News({3}));
  EXPECT_THAT(VersionsOf(Next(*reader, absl::Milliseconds(200)).data["rounds"]), ElementsAre(2, 3));
}

TEST_F(RunBoardTest, ThinsOutALongHistory) {
  std::vector<uint64_t> versions;
  for (uint64_t version = 1; version <= 30000; ++version) versions.push_back(version);
  board_.Take(News(versions));
  const std::vector<uint64_t> told = VersionsOf(Next(*board_.Follow("")).data["rounds"]);
  EXPECT_LE(told.size(), 4001u);
  EXPECT_GE(told.size(), 3500u);
  EXPECT_EQ(30000u, told.back());
  EXPECT_EQ(28001u, told[told.size() - 2000]);  // all of the newest
  EXPECT_THAT(Json::parse(board_.RoundsJson(5)), SizeIs(RunBoard::kRoundsAPage));
}

TEST_F(RunBoardTest, KeepsTheNewestEvents) {
  for (int i = 0; i < 300; ++i) board_.Take(News({}, {absl::StrCat("event ", i)}));
  const Told told = Next(*board_.Follow(""));
  ASSERT_THAT(told.data["events"], SizeIs(200));
  EXPECT_EQ("event 100", told.data["events"][0]);
  EXPECT_EQ("event 299", told.data["events"][199]);
}

TEST_F(RunBoardTest, WakesAReaderThatWaits) {
  const auto reader = board_.Follow("");
  EXPECT_EQ("beat", Next(*reader).event);
  std::thread teller([this] { board_.Take(News({1})); });
  const std::string news = reader->Next(absl::Seconds(60)).value();
  teller.join();
  EXPECT_THAT(news, HasSubstr("event: run"));
}

}  // namespace
}  // namespace atolld
