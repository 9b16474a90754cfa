// Would break: an owner who asks about one peer is told of another, or cannot tell why it idles.
#include "daemon/cli/own_machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_join.h"
#include "tests/unit/daemon/env/temporary_directory.h"

namespace atolld {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr double kUnixNow = 1700000000;

std::string ScreenOf(const OwnMachine& machine) {
  return absl::StrJoin(MachineText(machine, absl::FromUnixSeconds(1700000000), absl::UTCTimeZone()),
                       "\n");
}

TEST(OwnMachineTest, ThePeerThatIsMeantIsFoundOrAskedFor) {
  TemporaryDirectory dir;
  const std::string peer = dir.File("peer-1");
  std::filesystem::create_directories(peer);
  EXPECT_FALSE(IsPeerFolder(peer));
  std::ofstream(peer + "/owner.state") << "";
  EXPECT_TRUE(IsPeerFolder(peer));
  EXPECT_EQ(*FindPeerFolder(peer, "/", {"/other"}), peer);
  EXPECT_EQ(*FindPeerFolder("", peer, {"/other"}), peer);
  EXPECT_EQ(*FindPeerFolder("", "/", {"/other"}), "/other");
  const auto error = [](const absl::StatusOr<std::string>& found) {
    EXPECT_TRUE(absl::IsInvalidArgument(found.status()));
    return std::string(found.status().message());
  };
  EXPECT_THAT(error(FindPeerFolder("", "/", {})), HasSubstr("name one, --dir DIR"));
  EXPECT_THAT(error(FindPeerFolder("", "/", {"/a", "/b"})), HasSubstr("--dir /a, --dir /b"));
  EXPECT_THAT(error(FindPeerFolder(dir.path(), "/", {"/a"})), HasSubstr("is not a peer's folder"));
}

TEST(OwnMachineTest, RunningPeersAreKnownByTheirSockets) {
  TemporaryDirectory dir;
  std::filesystem::create_directories(dir.File("proc/net"));
  std::ofstream(dir.File("proc/net/unix")) << "Num RefCount Protocol Flags Type St Inode Path\n"
                                           << "0: 2 0 10000 0001 01 1 /none/such/machine.sock\n"
                                           << "0: 2 0 10000 0001 01 2 /run/systemd/notify\n"
                                           << "0: 2 0 10000 0001 01 3\n";
  EXPECT_THAT(RunningPeers(dir.path()), IsEmpty());
}

TEST(OwnMachineTest, OneScreenSaysWhatItDoesAndWhyNot) {
  OwnMachine machine;
  machine.dir = "/r/peer-1";
  machine.running = true;
  v1::MachineStatus& status = machine.status;
  status.set_peer("peer-1");
  status.set_run_id("islands");
  status.set_coordinator("host:7070");
  status.set_connected(true);
  status.set_device("cpu");
  status.set_started_unix_seconds(kUnixNow - 3600);
  status.set_rounds(12);
  status.set_rounds_of_run(30);
  status.set_tokens(36864);
  status.set_train_seconds_today(190);
  status.mutable_progress()->set_phase("training");
  status.mutable_progress()->set_version(11);
  status.mutable_progress()->set_step(30);
  status.mutable_progress()->set_steps(100);
  v1::Limit* const limit = status.add_limits();
  limit->set_key("others_above");
  limit->set_value("25");
  limit->set_from("default");
  std::string text = ScreenOf(machine);
  EXPECT_THAT(text, HasSubstr("peer-1 on cpu, since 21:13:20"));
  EXPECT_THAT(text, HasSubstr("islands, version 11 of 30, coordinator host:7070"));
  EXPECT_THAT(text, HasSubstr("training round 12, step 30 of 100"));
  EXPECT_THAT(text, HasSubstr("12 rounds, 36,864 tokens; today 3:10 of training"));
  EXPECT_THAT(text, HasSubstr("none; `atoll limits set`"));
  EXPECT_THAT(text, Not(HasSubstr("idle")));

  limit->set_from("set");
  status.mutable_progress()->set_held_back("paused by its owner until 23:13");
  status.add_idle("paused by its owner until 23:13");
  status.add_idle("the run waits: 1 of 2 peers is here");
  status.set_idle_since_unix_seconds(kUnixNow - 48);
  status.set_paused(true);
  status.set_paused_until_unix_seconds(kUnixNow + 3600);
  text = ScreenOf(machine);
  EXPECT_THAT(text, HasSubstr("now       held back by its owner"));
  EXPECT_THAT(text, HasSubstr("idle      paused by its owner until 23:13\n"
                              "idle      the run waits: 1 of 2 peers is here\n"
                              "since     22:12:32, 48 s\n"
                              "order     pause until 23:13:20"));
  EXPECT_THAT(text, HasSubstr("limits    others_above = 25"));
  const nlohmann::ordered_json json = MachineJson(machine);
  EXPECT_EQ(json["idle"].size(), 2u);
  EXPECT_EQ(json["paused"], true);
  EXPECT_EQ(json["limits"][0]["value"], "25");
}

TEST(OwnMachineTest, APeerThatDoesNotRunIsShownFromItsFolder) {
  OwnerState state;
  state.order.kind = OwnerOrder::Kind::kPause;
  state.rounds = 3;
  OwnMachine machine;
  machine.dir = "/r/peer-1";
  machine.status = StatusOfFolder(state);
  EXPECT_THAT(
      MachineText(machine, absl::UnixEpoch(), absl::UTCTimeZone()),
      ElementsAre("peer      no daemon runs in /r/peer-1", "order     pause until `atoll resume`",
                  HasSubstr("gave      3 rounds, 0 tokens")));
  EXPECT_EQ(MachineJson(machine)["running"], false);
}

}  // namespace
}  // namespace atolld
