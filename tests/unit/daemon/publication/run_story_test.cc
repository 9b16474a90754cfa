#include "daemon/publication/run_story.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace atolld {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

v1::EntryHeader HeaderOf(uint64_t version, const std::vector<std::string>& peers) {
  v1::EntryHeader header;
  header.set_version(version);
  for (const std::string& peer : peers) {
    v1::Contributor* const one = header.add_contributors();
    one->set_peer(peer);
    one->set_weight_bits(0x3f800000);  // 1
    one->set_tokens(10);
  }
  return header;
}

TEST(RunStoryTest, SaysWhoWasLeftOutOfRounds) {
  // Broken: a peer that came late would look as if it had been left out.
  RunStory story(1, 4);
  story.Add(HeaderOf(1, {"a", "b"}));
  story.Add(HeaderOf(2, {"a"}));
  story.Add(HeaderOf(3, {"a", "b", "c"}));
  story.Add(HeaderOf(4, {"a", "c"}));
  SiteIndex index;
  index.version = 4;
  index.name = "</script><b>";
  CoordinatorWord told;
  told.losses.push_back({0, 0, std::nullopt, 2.5});
  told.losses.push_back({4, 1, 1.5, std::nullopt});
  const std::string text = story.Text(v1::Genesis(), index, told);
  const auto json = nlohmann::json::parse(text);
  const auto& peers = json["peers"];
  ASSERT_EQ(peers.size(), 3u);
  EXPECT_EQ(peers[0]["left_out"], 0);
  EXPECT_EQ(peers[1]["left_out"], 1);
  EXPECT_EQ(peers[2]["left_out"], 0);
  EXPECT_EQ(peers[1]["bins"], (std::vector<int>{1, 0, 1, 0}));
  EXPECT_DOUBLE_EQ(peers[2]["share"].get<double>(), (1.0 / 3 + 0.5) / 4);
  EXPECT_EQ(json["tokens"], 80);
  EXPECT_EQ(json["losses"].size(), 2u);
  v1::Genesis private_run;
  private_run.mutable_spec()->mutable_data()->set_private_(true);
  EXPECT_TRUE(nlohmann::json::parse(story.Text(private_run, index, told))["losses"].empty());
  const std::string page = PageOf(text);
  EXPECT_THAT(page, Not(HasSubstr("</script><b>")));
  EXPECT_THAT(page, HasSubstr("\\u003c/script>"));
  EXPECT_THAT(page, Not(HasSubstr("@STORY@")));
}

TEST(RunStoryTest, StaysShortHoweverLongTheRun) {
  // Broken: the page of a long run would have a point and a column for every round.
  RunStory story(1, 100000);
  CoordinatorWord told;
  for (uint64_t version = 1; version <= 100000; ++version) {
    story.Add(HeaderOf(version, {"a"}));
    told.losses.push_back({version, 0, 1.0, std::nullopt});
  }
  const auto json = nlohmann::json::parse(story.Text(v1::Genesis(), SiteIndex(), told));
  EXPECT_EQ(json["peers"][0]["bins"].size(), RunStory::kMostBins);
  EXPECT_LE(json["losses"].size(), RunStory::kMostPoints + 1);
}

}  // namespace
}  // namespace atolld
