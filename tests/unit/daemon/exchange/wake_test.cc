#include "daemon/exchange/wake.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/sim/sim_ends.h"

namespace atolld {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(10);

struct WakeScene {
  WakeScene() : world(1) {
    world.AddProcess("a");
    Listen("b:1", [this](std::unique_ptr<Call> call) { waker->Accept(std::move(call)); });
    waker = std::make_unique<WakeCalls>(world.process("b").env(), kPatience);
  }
  void Listen(const std::string& address, std::function<void(std::unique_ptr<Call>)> take) {
    const std::string process = address.substr(0, 1);
    listeners.push_back(
        world.AddProcess(process)
            .env()
            .transport
            .Listen(address,
                    [this, take](const std::string& method, std::unique_ptr<Call> call) {
                      EXPECT_EQ(method, kWakeMethod);
                      take(std::move(call));
                    })
            .value());
  }
  std::unique_ptr<Reader> Dial() {
    auto caller = std::make_unique<Reader>();
    caller->Start(world.process("a").env().transport.Dial("b:1", kWakeMethod, kPatience * 3));
    world.RunFor(absl::Milliseconds(50));
    return caller;
  }
  bool Answers(Reader& caller) {
    caller.call->Write(Frame{"", SharedBytes(std::string(10, 'x'))});
    world.RunFor(absl::Milliseconds(200));
    return caller.frames.size() == 1 && caller.closed.size() == 1 && caller.closed[0].ok();
  }

  SimWorld world;
  std::unique_ptr<WakeCalls> waker;
  std::vector<std::unique_ptr<Listener>> listeners;
};

// Would break: a direction or a lane of a connection would sleep until the exchange; calls would
// pile up, one a round.
TEST(WakeCalls, PacketsGoBothWaysOnEveryLaneAndTheCallEnds) {
  WakeScene scene;
  std::vector<std::unique_ptr<Reader>> answering;
  std::vector<size_t> bytes;
  scene.Listen("c:1", [&](std::unique_ptr<Call> call) {
    answering.push_back(std::make_unique<Reader>());
    Reader& end = *answering.back();
    end.call = std::move(call);
    end.call->Start({[&](Frame frame) {
                       bytes.push_back(frame.payload.size());
                       end.call->Write(frame);
                       end.call->Read();
                     },
                     nullptr, [&](absl::Status status) { end.closed.push_back(status); }});
    end.call->Read();
  });
  WakeCalls from(scene.world.process("a").env(), kPatience);
  std::vector<absl::Status> heard;
  from.Wake("c:1", 3, kMostWakeBytes, [&](const absl::Status& status) { heard.push_back(status); });
  scene.world.RunFor(absl::Seconds(1));
  ASSERT_EQ(bytes.size(), 3);
  for (const size_t size : bytes) EXPECT_GT(size, 1500);  // more than one packet
  for (const auto& end : answering) {
    ASSERT_EQ(end->closed.size(), 1);  // half-closed by the waker, once it was answered
    EXPECT_TRUE(end->closed[0].ok()) << end->closed[0];
  }
  ASSERT_EQ(heard.size(), 1) << "once, for all lanes";
  EXPECT_TRUE(heard[0].ok()) << heard[0];
  EXPECT_TRUE(scene.Answers(*scene.Dial()));
}

// Would break: whoever can dial could make a peer hold calls without end, or a silent one would
// keep all others' connections asleep.
TEST(WakeCalls, FewAreTakenAtOnceAndTheSilentAreLetGo) {
  WakeScene scene;
  std::vector<std::unique_ptr<Reader>> silent;
  for (int i = 0; i < 64; ++i) silent.push_back(scene.Dial());
  const auto refused = scene.Dial();
  ASSERT_EQ(refused->closed.size(), 1);
  EXPECT_TRUE(absl::IsResourceExhausted(refused->closed[0])) << refused->closed[0];
  scene.world.RunFor(kPatience);
  EXPECT_TRUE(scene.Answers(*scene.Dial()));
}

// Would break: a partner that is gone, or a peer of an older version, would end the process.
TEST(WakeCalls, NobodyThereDoesNotMatter) {
  WakeScene scene;
  scene.Listen("c:1", [&](std::unique_ptr<Call> call) {
    call->Start({});
    call->Finish(absl::UnimplementedError("not served here"));
    scene.world.process("c").env().executor.RunAfter(
        absl::Seconds(1), [kept = std::shared_ptr<Call>(std::move(call))] {});
  });
  WakeCalls from(scene.world.process("a").env(), kPatience);
  std::map<std::string, absl::StatusCode> heard;
  const auto wake = [&](const std::string& address, uint32_t lanes) {
    from.Wake(address, lanes, kMostWakeBytes,
              [&heard, address](const absl::Status& status) { heard[address] = status.code(); });
  };
  wake("nobody:1", 2);
  wake("c:1", 1);
  scene.world.network().BlackHole("a", "b");
  wake("b:1", 1);
  scene.world.RunFor(kPatience * 2);
  EXPECT_EQ(heard["nobody:1"], absl::StatusCode::kUnavailable);
  EXPECT_EQ(heard["c:1"], absl::StatusCode::kUnimplemented);
  EXPECT_EQ(heard["b:1"], absl::StatusCode::kDeadlineExceeded) << "it hangs in silence";
  scene.world.network().HealBlackHole("a", "b");
  wake("b:1", 1);
  scene.world.RunFor(absl::Seconds(1));
  EXPECT_TRUE(scene.Answers(*scene.Dial()));
}

}  // namespace
}  // namespace atolld
