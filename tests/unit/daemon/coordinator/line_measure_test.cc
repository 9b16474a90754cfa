// Would break: measuring a line takes the coordinator's own from the run, or somebody without the
// right to it has it measured.
#include "daemon/coordinator/line_measure.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compression/base/check.h"
#include "gmock/gmock.h"
#include "tests/sim/sim_world.h"
#include "tests/unit/daemon/coordinator/coordinator_world.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

constexpr char kMethod[] = "/atolld.v1.Membership/Measure";
constexpr char kAddress[] = "127.0.0.1:7070";
constexpr uint64_t kMessage = LineMeasure::kMostPayload;

// One that measures, as a client of membership.proto does.
struct Measurer {
  Measurer(Env env, uint64_t up, uint64_t down) {
    call = env.transport.Dial(kAddress, kMethod, absl::Minutes(1));
    call->Start({[this](const Frame& frame) {
                   v1::MeasureMessage message;
                   CHECK_OK(Unpack(frame, &message));
                   took = std::max(took, message.took_microseconds());
                   got += frame.payload.size();
                   longest = std::max(longest, frame.payload.size());
                   call->Read();
                 },
                 nullptr, [this](const absl::Status& closed) { status = closed; }});
    call->Read();
    v1::MeasureMessage first;
    first.set_up_bytes(up);
    first.set_down_bytes(down);
    call->Write(Pack(first));
  }
  void Send(uint64_t bytes) {
    call->Write(Pack(v1::MeasureMessage(), SharedBytes(std::string(bytes, 'x'))));
  }
  std::unique_ptr<Call> call;
  std::optional<absl::Status> status;
  uint64_t took = 0, got = 0;
  size_t longest = 0;
};

class LineMeasureTest : public ::testing::Test {
 protected:
  LineMeasureTest() : world_(1) {
    world_.AddProcess("coordinator", [this](Env env) {
      auto measure = std::make_shared<LineMeasure>(env.executor, [this](const Identity& caller) {
        ++asked_;
        return caller.id == "stranger" ? absl::PermissionDeniedError("who is that?")
                                       : absl::OkStatus();
      });
      listener_ = *env.transport.Listen(
          kAddress, [measure](const std::string& method, std::unique_ptr<Call> call) {
            CHECK(measure->Accept(method, &call));
          });
      return measure;
    });
    for (const char* name : {"a", "b", "stranger"}) {
      world_.AddProcess(name);
      world_.network().SetIdentity(name, {"r1", Role::kPeer, name, "1"});
    }
  }
  Env env(const std::string& name) { return world_.process(name).env(); }
  absl::Status EndOf(const Measurer& measurer) {
    CHECK(world_.RunUntil([&] { return measurer.status.has_value(); }, absl::Minutes(2)));
    return *measurer.status;
  }

  SimWorld world_;
  std::unique_ptr<Listener> listener_;
  int asked_ = 0;
};

TEST_F(LineMeasureTest, WhatIsSentIsCountedAndAsMuchAsIsAskedForComesBack) {
  Measurer one(env("a"), 3 * kMessage, 5 * kMessage + 17);
  for (int i = 0; i < 3; ++i) {
    one.Send(kMessage);
    world_.RunFor(absl::Milliseconds(500));
  }
  EXPECT_TRUE(EndOf(one).ok()) << *one.status;
  EXPECT_EQ(one.got, 5 * kMessage + 17);
  EXPECT_EQ(one.longest, kMessage);
  EXPECT_NEAR(static_cast<double>(one.took), 1e6, 1e4) << "from the first to the last";
  Measurer up(env("a"), kMessage, 0);
  up.Send(kMessage);
  EXPECT_TRUE(EndOf(up).ok()) << *up.status;
  EXPECT_EQ(up.got, 0u);
  Measurer down(env("b"), 0, 10);
  EXPECT_TRUE(EndOf(down).ok()) << *down.status;
  EXPECT_EQ(down.got, 10u);
}

TEST_F(LineMeasureTest, OneMeasuresAtATime) {
  Measurer first(env("a"), kMessage, 0);
  world_.RunFor(absl::Seconds(1));
  Measurer second(env("b"), kMessage, 0);
  EXPECT_TRUE(absl::IsResourceExhausted(EndOf(second))) << *second.status;
  EXPECT_THAT(std::string(second.status->message()), HasSubstr("another machine is measuring"));
  first.Send(kMessage);
  EXPECT_TRUE(EndOf(first).ok()) << *first.status;
  Measurer third(env("b"), kMessage, 0);
  third.Send(kMessage);
  EXPECT_TRUE(EndOf(third).ok()) << *third.status;
}

// Whatever its caller does, the measure is free again for the next one.
TEST_F(LineMeasureTest, ACallThatIsCutAnywhereOrStandsStillMakesRoom) {
  for (uint64_t sent = 0; sent <= 4; ++sent) {
    for (const bool half_closed : {false, true}) {
      {
        Measurer cut(env("a"), 3 * kMessage, LineMeasure::kMostBytes);
        for (uint64_t i = 0; i < sent && i < 3; ++i) cut.Send(kMessage);
        if (sent == 4) world_.RunFor(absl::Milliseconds(2));  // inside the answer
        if (half_closed) cut.call->Finish(absl::OkStatus());
        world_.RunFor(absl::Milliseconds(20));
      }
      world_.RunFor(absl::Seconds(10));
      Measurer next(env("b"), 0, 100);
      EXPECT_TRUE(EndOf(next).ok()) << *next.status << " after " << sent;
    }
  }
  Measurer still(env("a"), kMessage, 0);
  EXPECT_TRUE(absl::IsDeadlineExceeded(EndOf(still))) << *still.status;
  Measurer next(env("b"), 0, 100);
  EXPECT_TRUE(EndOf(next).ok()) << *next.status;
}

TEST_F(LineMeasureTest, NobodyGetsMoreThanIsAllowed) {
  const auto refused = [&](Measurer& one) {
    EXPECT_TRUE(absl::IsInvalidArgument(EndOf(one))) << *one.status;
  };
  Measurer much(env("a"), LineMeasure::kMostBytes + 1, 0);
  refused(much);
  Measurer asks_much(env("a"), 0, LineMeasure::kMostBytes + 1);
  refused(asks_much);
  Measurer long_message(env("a"), 2 * kMessage, 0);
  long_message.Send(kMessage + 1);
  refused(long_message);
  Measurer more(env("a"), 10, 0);
  more.Send(11);
  refused(more);
  Measurer stranger(env("stranger"), 10, 10);
  EXPECT_TRUE(absl::IsPermissionDenied(EndOf(stranger))) << *stranger.status;
  EXPECT_EQ(stranger.got, 0u);
  EXPECT_EQ(asked_, 5);
}

TEST_F(LineMeasureTest, WhoMeasuresOverAndOverIsRefusedAndOthersAreNot) {
  absl::Status refused;
  int served = 0;
  for (int i = 0; i < 30; ++i) {
    Measurer one(env("a"), 0, 10);
    const absl::Status status = EndOf(one);
    served += status.ok() ? 1 : 0;
    if (!status.ok()) refused = status;
  }
  EXPECT_GE(served, 10);
  EXPECT_LE(served, 20);
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("too often"));
  Measurer other(env("b"), 0, 10);
  EXPECT_TRUE(EndOf(other).ok()) << *other.status;
}

// The coordinator's own rule of who may: whoever could join, or has joined and was not put out.
TEST(LineMeasureRightsTest, ATokenThatIsNotKnownMeasuresNothing) {
  CoordinatorWorld w(1);
  w.AddCoordinator();
  w.world.AddProcess("late");
  w.world.network().SetIdentity("late", {"r1", Role::kJoin, "late", "77"});
  Measurer stranger(w.world.process("late").env(), 0, 10);
  ASSERT_TRUE(w.world.RunUntil([&] { return stranger.status.has_value(); }, absl::Minutes(1)));
  EXPECT_TRUE(absl::IsPermissionDenied(*stranger.status)) << *stranger.status;
  w.world.network().SetIdentity("late", {"r1", Role::kPeer, "late", "77"});
  Measurer member(w.world.process("late").env(), 0, 10);
  ASSERT_TRUE(w.world.RunUntil([&] { return member.status.has_value(); }, absl::Minutes(1)));
  EXPECT_TRUE(member.status->ok()) << *member.status;
}

}  // namespace
}  // namespace atolld
