// A peer daemon whose own folder has rotted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "daemon/config/config.h"
#include "daemon/peer/peer.h"
#include "daemon/replica/state/layout.h"
#include "daemon/replica/state/update_log.h"
#include "tests/sim/sim_world.h"
#include "tests/unit/daemon/peer/told_history.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

class SpoiledLogTest : public ::testing::Test {
 protected:
  SpoiledLogTest() : told_(files_, 3) {}

  // A peer started on a folder with that one bit flipped ends at once and names the record's
  // beginning; what it has found is left as it was.
  void ExpectRefused(const std::string& path, uint64_t record, uint64_t flipped) {
    ASSERT_TRUE(world_.process("p").disk().FlipBit(path, flipped, 3));
    const std::map<std::string, std::string> before = FilesBelow(files_, "/r");
    Config config;
    config.peer.id = "p";
    config.peer.dir = "/r";
    config.peer.listen = "p:1";
    config.coordinator.address = "coordinator:1";
    NoWorker trainer(env_.executor);
    Peer peer(env_, config, trainer, 1, [](absl::Status status) { FAIL() << status; });
    const absl::Status status = peer.Start();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(absl::StrCat(path, ": offset ", record)));
    std::map<std::string, std::string> after = FilesBelow(files_, "/r");
    EXPECT_EQ(after.erase("/r/signing_key.pem"), 1u) << "made at a first start";
    EXPECT_EQ(after, before);
  }

  SimWorld world_{1};
  Env env_ = world_.AddProcess("p").env();
  Files& files_ = env_.files;
  const ToldHistory told_;
};

TEST_F(SpoiledLogTest, AFlippedBitInTheHeadersIsNotRepairedAway) {
  // Broken: entries that were committed would be cut off as a torn tail, or trained upon.
  const absl::StatusOr<LogReader> log = LogReader::Open(files_, "/r", 1);
  ASSERT_TRUE(log.ok()) << log.status();
  const uint64_t second = log->BytesBefore(2);
  ExpectRefused(HeadersPath("/r"), second, second + 100);
}

TEST_F(SpoiledLogTest, AFlippedBitInTheGenesisIsNoEmptyFolder) {
  // Broken: a folder whose version 0 cannot be read would be joined into anew.
  ExpectRefused(GenesisPath("/r"), 0, 100);
}

}  // namespace
}  // namespace atolld
