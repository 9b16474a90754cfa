#include "atoll/v1/admin.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/daemon/coordinator/asker.h"

namespace atolld {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

// Would break: `atoll run show`.
TEST(Admin, ShowsTheWholeRun) {
  AdminWorld f;
  ASSERT_TRUE(f.RunToVersion(3));
  f.world.RunFor(absl::Seconds(1));
  Asker<v1::RunStatus> asker(f.env(), f.config.coordinator.address, "ShowRun",
                             v1::ShowRunRequest());
  f.world.RunFor(absl::Milliseconds(100));
  ASSERT_TRUE(asker.status.has_value());
  EXPECT_TRUE(asker.status->ok()) << *asker.status;
  ASSERT_EQ(asker.answers.size(), 1u);
  const v1::RunStatus& status = asker.answers[0];
  EXPECT_EQ(status.version(), 3u);
  EXPECT_EQ(status.phase(), "training");
  EXPECT_EQ(status.reason(), "");
  EXPECT_EQ(status.parameters(), 3u * 4096);
  EXPECT_EQ(status.rounds_size(), 3);
  EXPECT_EQ(status.evaluations_size(), 2);
  EXPECT_EQ(status.tokens(), 600u);
  ASSERT_EQ(status.peers_size(), 2);
  EXPECT_EQ(status.peers(0).rounds_contributed(), 3u);
  EXPECT_EQ(status.peers(0).member().state(), "live");
  EXPECT_EQ(status.peers(0).progress().phase(), "training");
  EXPECT_EQ(status.rounds(1).train_loss(), 2);
  EXPECT_GT(status.elapsed_seconds(), 6);
  EXPECT_THAT(status.events(), Contains(HasSubstr("version 0 was made by")));
  EXPECT_THAT(status.events(), Not(Contains(HasSubstr("committed by"))));  // rounds() says it
}

// Would break: the live view misses a round, shows one twice, or floods its reader.
TEST(Admin, AWatcherGetsEverythingOnceUntilTheSeal) {
  AdminWorld f;
  ASSERT_TRUE(f.RunToVersion(2));
  v1::WatchRunRequest request;
  request.set_interval_milliseconds(1000);
  Asker<v1::RunStatus> asker(f.env(), f.config.coordinator.address, "WatchRun", request);
  ASSERT_TRUE(f.world.RunUntil([&] { return f.sealed; }, absl::Minutes(1)));
  f.world.RunFor(absl::Seconds(2));
  std::vector<uint64_t> versions;
  std::vector<std::string> events;
  size_t evaluations = 0;
  for (const v1::RunStatus& status : asker.answers) {
    for (const auto& round : status.rounds()) versions.push_back(round.version());
    for (const auto& event : status.events()) events.push_back(event);
    evaluations += static_cast<size_t>(status.evaluations_size());
  }
  EXPECT_EQ(versions, (std::vector<uint64_t>{1, 2, 3, 4, 5}));
  EXPECT_EQ(evaluations, 4u);
  EXPECT_EQ(std::count(events.begin(), events.end(), "the run is sealed at version 5"), 1);
  EXPECT_LE(asker.answers.size(), 20u);
  EXPECT_EQ(asker.answers.back().phase(), "sealed");
  EXPECT_EQ(asker.answers.back().seal().version(), 5u);
  ASSERT_TRUE(asker.status.has_value());  // it comes to its end, then the coordinator may
  EXPECT_TRUE(asker.status->ok()) << *asker.status;
}

// Would break: the coordinator ends with its process before a watcher on a slow link has been sent
// the seal, and the watcher waits for it for ever.
TEST(Admin, TheEndWaitsForItsWatchersButNotForOneThatIsCutOff) {
  for (const bool cut_off : {false, true}) {
    AdminWorld f;
    SimLinkSettings slow;
    slow.bytes_per_second = 3000;
    f.world.network().SetLink("coordinator", "operator", slow);
    ASSERT_TRUE(f.RunToVersion(2));
    Asker<v1::RunStatus> asker(f.env(), f.config.coordinator.address, "WatchRun",
                               v1::WatchRunRequest());
    f.world.RunFor(absl::Seconds(4));
    ASSERT_FALSE(asker.answers.empty());
    if (cut_off) f.world.network().BlackHole("coordinator", "operator");
    ASSERT_TRUE(f.world.RunUntil([&] { return f.sealed; }, absl::Minutes(1)));
    f.world.RunFor(absl::Milliseconds(10));  // what has gone out arrives without the process
    f.world.Kill("coordinator");
    f.world.RunFor(absl::Seconds(2));
    EXPECT_EQ(asker.answers.back().has_seal(), !cut_off);
  }
}

// Would break: `atoll log list`.
TEST(Admin, ListsHeaders) {
  AdminWorld f;
  ASSERT_TRUE(f.RunToVersion(4));
  v1::ListHeadersRequest request;
  request.set_first_version(2);
  request.set_limit(2);
  Asker<v1::ListHeadersResponse> asker(f.env(), f.config.coordinator.address, "ListHeaders",
                                       request);
  f.world.RunFor(absl::Seconds(1));
  ASSERT_EQ(asker.answers.size(), 1u);
  ASSERT_EQ(asker.answers[0].headers_size(), 2);
  EXPECT_EQ(asker.answers[0].headers(1).SerializeAsString(),
            f.disk->run.headers[2].SerializeAsString());
}

}  // namespace
}  // namespace atolld
