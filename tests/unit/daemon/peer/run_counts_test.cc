// Would break: a run that was stopped and continued tells only what was sent and trained since.
#include "daemon/peer/run_counts.h"

#include <memory>
#include <string>

#include "compression/base/check.h"
#include "gtest/gtest.h"
#include "tests/sim/sim_world.h"

namespace atolld {
namespace {

constexpr char kCountsPath[] = "/peer/run-counts";

TEST(RunCountTest, TheFileSaysWhatWasCounted) {
  const RunCount count{"books-2", uint64_t{1} << 50, 3, 12.125};
  const auto read = ParseRunCount(FormatRunCount(count));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->run, count.run);
  EXPECT_EQ(read->sent_bytes, count.sent_bytes);
  EXPECT_EQ(read->received_bytes, count.received_bytes);
  EXPECT_EQ(read->train_seconds, count.train_seconds);
  for (const char* wrong : {"", "books", "books 1 2", " 1 2 3", "books -1 2 3", "books 1 2 nan",
                            "books 1 2 -3", "books 1 2 3 4"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseRunCount(wrong).status())) << wrong;
  }
}

// A daemon that has sent and trained what the test says since its start.
class RunCountsTest : public ::testing::Test {
 protected:
  RunCountsTest() : world_(1) {
    world_.AddProcess("p", [this](Env env) {
      CHECK_OK(env.files.MakeDirectories("/peer"));
      auto made = std::make_shared<RunCounts>(env, kCountsPath);
      made->Start();
      counts_ = made.get();
      return made;
    });
  }

  v1::PeerProgress Told(const std::string& run, uint64_t version, uint64_t bytes, double seconds) {
    v1::PeerProgress progress;
    progress.set_version(version);
    progress.set_exchange_bytes_sent(bytes);
    progress.set_exchange_bytes_received(2 * bytes);
    progress.set_train_seconds(seconds);
    counts_->Complete(run, &progress);
    world_.RunFor(absl::Seconds(1));
    return progress;
  }

  void Restart() {
    world_.Kill("p");
    world_.RunFor(absl::Seconds(1));
    world_.Restart("p");
    world_.RunFor(absl::Seconds(1));
  }

  SimWorld world_;
  RunCounts* counts_ = nullptr;
};

TEST_F(RunCountsTest, GoOnAtTheNextStart) {
  EXPECT_EQ(Told("books", 3, 1000, 8).exchange_bytes_sent(), 1000u);
  EXPECT_EQ(Told("books", 3, 1500, 9).exchange_bytes_sent(), 1500u);
  CHECK_OK(counts_->Save());
  Restart();
  EXPECT_EQ(Told("", 3, 0, 0).exchange_bytes_sent(), 1500u) << "its run is not known yet";
  const v1::PeerProgress told = Told("books", 3, 100, 0.5);
  EXPECT_EQ(told.exchange_bytes_sent(), 1600u);
  EXPECT_EQ(told.exchange_bytes_received(), 3200u);
  EXPECT_EQ(told.train_seconds(), 9.5);
  CHECK_OK(counts_->Save());
  Restart();
  EXPECT_EQ(Told("books", 3, 1, 0).exchange_bytes_sent(), 1601u);
}

TEST_F(RunCountsTest, ACrashLosesNoMoreThanTheVersionUnderWay) {
  Told("books", 3, 1000, 8);
  Told("books", 4, 2000, 16);
  Told("books", 4, 2300, 17);
  Restart();
  EXPECT_EQ(Told("books", 4, 0, 0).exchange_bytes_sent(), 2000u);
  world_.RunFor(RunCounts::kBetweenSaves);
  Told("books", 4, 50, 1);
  Restart();
  EXPECT_EQ(Told("books", 4, 0, 0).exchange_bytes_sent(), 2050u);
}

TEST_F(RunCountsTest, AnotherRunBeginsAnew) {
  Told("books", 3, 1000, 8);
  Restart();
  EXPECT_EQ(Told("letters", 0, 5, 0).exchange_bytes_sent(), 5u);
  CHECK_OK(counts_->Save());
  Restart();
  EXPECT_EQ(Told("books", 3, 5, 0).exchange_bytes_sent(), 5u);
}

TEST_F(RunCountsTest, AFileThatCannotBeReadIsSaidAndCountsForNothing) {
  Env env = world_.process("p").env();
  CHECK_OK(WriteFileDurably(env.files, kCountsPath, BytesOf(std::string("what is this?"))));
  Restart();
  EXPECT_EQ(Told("books", 1, 7, 1).exchange_bytes_sent(), 7u);
  EXPECT_EQ(world_.LogCount("is counted from now on"), 1u);
}

}  // namespace
}  // namespace atolld
