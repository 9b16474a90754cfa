// Would break: one that floods is let have all that there is, or one that does not is held up.
#include "daemon/coordinator/throttle.h"

#include <string>

#include "daemon/coordinator/session_limits.h"
#include "gmock/gmock.h"

namespace atolld {
namespace {

const absl::Time kStart = absl::FromUnixSeconds(1000);

TEST(Throttle, AllowsABurstAndThenTheRate) {
  Throttle throttle(10, 5);
  int allowed = 0;
  for (int i = 0; i < 20; ++i) allowed += throttle.Allow(kStart) ? 1 : 0;
  EXPECT_EQ(5, allowed);
  // A hundred asks a second for ten seconds.
  for (int i = 1; i <= 1000; ++i) {
    allowed += throttle.Allow(kStart + i * absl::Milliseconds(10)) ? 1 : 0;
  }
  EXPECT_NEAR(5 + 100, allowed, 1);
  EXPECT_FALSE(throttle.Full(kStart + absl::Seconds(10)));
  EXPECT_TRUE(throttle.Full(kStart + absl::Seconds(11)));
}

TEST(Throttle, WhoIsPatientIsToldHowLong) {
  Throttle throttle(10, 2);
  EXPECT_EQ(absl::ZeroDuration(), throttle.Charge(kStart));
  EXPECT_EQ(absl::ZeroDuration(), throttle.Charge(kStart));
  EXPECT_EQ(absl::Milliseconds(100), throttle.Charge(kStart));
  EXPECT_EQ(absl::Milliseconds(100), throttle.Charge(kStart + absl::Milliseconds(100)));
  // A clock that goes back gives nothing.
  EXPECT_EQ(absl::Milliseconds(200), throttle.Charge(kStart));
}

TEST(CallerThrottle, EachHasItsOwnAndTheQuietAreForgotten) {
  CallerThrottle throttle(1, 2);
  EXPECT_TRUE(throttle.Allow(kStart, "a"));
  EXPECT_TRUE(throttle.Allow(kStart, "a"));
  EXPECT_FALSE(throttle.Allow(kStart, "a"));
  EXPECT_TRUE(throttle.Allow(kStart, "b"));
  for (int i = 0; i < 100; ++i) throttle.Allow(kStart, "name-" + std::to_string(i));
  EXPECT_EQ(102u, throttle.remembered());
  EXPECT_TRUE(throttle.Allow(kStart + absl::Seconds(5), "a"));
  EXPECT_EQ(1u, throttle.remembered());
}

TEST(SessionLimits, OnePeerBeginsSoManyAndTheOthersStill) {
  SessionLimits limits(60);
  const Identity flooder{"r1", Role::kPeer, "p1", "1"};
  const Identity other{"r1", Role::kPeer, "p2", "2"};
  size_t begun = 0;
  absl::Status refused;
  for (int i = 0; i < 6000; ++i) {  // a hundred a second for a minute
    const absl::Status status = limits.Check(kStart + i * absl::Milliseconds(10), flooder, 1);
    begun += status.ok() ? 1 : 0;
    if (!status.ok()) refused = status;
  }
  EXPECT_NEAR(30 + 60, static_cast<double>(begun), 1);
  EXPECT_TRUE(absl::IsResourceExhausted(refused));
  EXPECT_THAT(std::string(refused.message()),
              ::testing::HasSubstr("peer p1 begins more sessions than [limits]"));
  EXPECT_TRUE(limits.Check(kStart + absl::Minutes(1), other, 1).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(limits.Check(kStart, other, 8192)));
  EXPECT_TRUE(limits.Check(kStart, std::nullopt, 1).ok()) << "in plain text nobody is known";
}

}  // namespace
}  // namespace atolld
