#include "daemon/coordinator/aggregator_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "daemon/env/posix_executor.h"
#include "daemon/env/posix_files.h"
#include "tests/sim/sim_world.h"
#include "tests/unit/daemon/env/temporary_directory.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

Config CoordinatorAt(const std::string& address) {
  Config config;
  config.coordinator.address = address;
  config.coordinator.dir = "/run/coordinator";
  return config;
}

// Would break: peers are told an address at which the coordinator's aggregator does not listen, or
// it takes the coordinator's own.
TEST(AggregatorProcess, IsDialledBesideItsCoordinator) {
  Config config = CoordinatorAt("10.0.0.1:7070");
  config.run.id = "r";
  config.log.format = "json";
  config.http.listen = "127.0.0.1:7080";
  const absl::StatusOr<Config> plain = AggregatorConfig(config);
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_EQ(plain->peer.role, kAggregatorRoleName);
  EXPECT_EQ(plain->peer.advertise, "10.0.0.1:7071");
  EXPECT_EQ(plain->peer.listen, "10.0.0.1:7071");
  EXPECT_EQ(plain->peer.dir, "/run/coordinator/aggregator");
  EXPECT_EQ(plain->coordinator.address, "10.0.0.1:7070");
  EXPECT_EQ(plain->log.format, "text");  // else an object would be the message of another one
  EXPECT_EQ(plain->http.listen, "auto");

  config.coordinator.listen = "0.0.0.0:7070";
  EXPECT_EQ(AggregatorConfig(config)->peer.listen, "0.0.0.0:7071");
  config.coordinator.aggregator_address = "home.example:9000";
  EXPECT_EQ(AggregatorConfig(config)->peer.advertise, "home.example:9000");
  EXPECT_EQ(AggregatorConfig(config)->peer.listen, "0.0.0.0:9000");
}

// Would break: an aggregator is started where nobody could dial it, and the run waits without a
// word of that.
TEST(AggregatorProcess, SaysWhatToSetWhereThereIsNoAddressBeside) {
  for (const char* address : {"unix:/tmp/socket", "127.0.0.1:65535"}) {
    const absl::Status status = AggregatorConfig(CoordinatorAt(address)).status();
    EXPECT_THAT(std::string(status.message()), HasSubstr("set [coordinator] aggregator_address"));
  }
}

// Would break: an aggregator that cannot listen is known to the coordinator's log alone, while the
// run waits for it.
TEST(AggregatorProcess, TellsWhyItDoesNotRun) {
  const TemporaryDirectory dir;
  PosixExecutor executor{PosixExecutor::Options()};
  PosixFiles files;
  SimWorld world(1);
  world.AddProcess("coordinator");
  const Env simulated = world.process("coordinator").env();
  const std::string program = dir.File("program");
  std::ofstream(program) << "#!/bin/sh\necho 'a line' >&2\n"
                            "echo 'atolld: [peer] listen: cannot listen on h:2: the address is in "
                            "use' >&2\n"
                            "exit 1\n";
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  Config config = CoordinatorAt("127.0.0.1:7070");
  config.coordinator.dir = dir.path();
  std::vector<std::string> told;
  AggregatorProcess aggregator(Env{executor, files, simulated.transport, simulated.log}, program,
                               config, nullptr,
                               [&](const std::string& why) { told.push_back(why); });
  aggregator.Start();
  ASSERT_TRUE(executor.RunUntil([&] { return !told.empty(); }, absl::Seconds(30)));
  EXPECT_EQ(told[0],
            "cannot listen on h:2: the address is in use; give it another with [coordinator] "
            "aggregator_address");
}

}  // namespace
}  // namespace atolld
