#include "daemon/coordinator/standby_door.h"

#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/sim/sim_world.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

// Would break: a peer that comes to a coordinator which does not lead waits there, or gives up.
TEST(StandbyDoor, TurnsEveryCallAwayAndNamesTheLeader) {
  SimWorld world(1);
  std::string leader;
  StandbyDoor door(world.AddProcess("standby").env(), [&] { return leader; });
  ASSERT_TRUE(door.Listen("standby:1").ok());
  SimProcess& peer = world.AddProcess("peer");
  const auto ask = [&] {
    absl::Status answer;
    const std::unique_ptr<Call> call =
        peer.env().transport.Dial("standby:1", "/atolld.v1.Membership/Session", absl::Seconds(5));
    call->Start({nullptr, nullptr, [&](const absl::Status& status) { answer = status; }});
    call->Read();
    world.RunFor(absl::Seconds(1));
    return answer;
  };
  absl::Status answer = ask();
  EXPECT_TRUE(absl::IsUnavailable(answer)) << answer;
  EXPECT_THAT(std::string(answer.message()), HasSubstr("none is known yet"));
  leader = "other:1";
  answer = ask();
  EXPECT_TRUE(absl::IsUnavailable(answer)) << answer;
  EXPECT_THAT(std::string(answer.message()), HasSubstr("other:1 leads"));
}

}  // namespace
}  // namespace atolld
