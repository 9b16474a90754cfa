#include "daemon/exchange/inputs.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/sim/sim_ends.h"
#include "tests/unit/daemon/exchange/swarm.h"

namespace atolld {
namespace {

// A server of inputs, and callers with certificates.
struct Served {
  Served() : world(1) {
    const Env env = world.AddProcess("self").env();
    inputs = std::make_unique<InputsServer>(
        env.executor, [](const v1::InputsRequest&) -> absl::StatusOr<std::vector<Frame>> {
          return std::vector<Frame>{Frame{"part", SharedBytes()}};
        });
    listener = env.transport
                   .Listen("self:1",
                           [this](const std::string&, std::unique_ptr<Call> call) {
                             inputs->Accept(std::move(call));
                           })
                   .value();
  }

  // A call that asks nothing.
  std::unique_ptr<Reader> Dial(const std::string& caller) {
    if (added.insert(caller).second) {
      world.AddProcess(caller);
      world.network().SetIdentity(caller, {"sim", Role::kPeer, caller, ""});
    }
    auto call = std::make_unique<Reader>();
    call->Start(world.process(caller).env().transport.Dial("self:1", kInputsMethod,
                                                           absl::InfiniteDuration()));
    Run();
    return call;
  }
  bool Answers(Reader& call) {
    call.call->Write(Pack(v1::InputsRequest()));
    Run();
    return call.frames.size() == 1 && call.closed.size() == 1 && call.closed[0].ok();
  }
  static bool Refused(const Reader& call) {
    return call.closed.size() == 1 && absl::IsResourceExhausted(call.closed[0]);
  }
  void Run() { world.RunFor(absl::Milliseconds(200)); }

  SimWorld world;
  std::set<std::string> added;
  std::unique_ptr<InputsServer> inputs;
  std::unique_ptr<Listener> listener;
};

// Would break: one member that asks nothing would keep all auditors from finding out what was
// averaged here.
TEST(InputsServer, OneCallerLeavesRoomForOthers) {
  Served s;
  const auto first = s.Dial("x");
  auto second = s.Dial("x");
  EXPECT_TRUE(Served::Refused(*s.Dial("x")));
  EXPECT_TRUE(s.Answers(*s.Dial("auditor")));
  EXPECT_TRUE(first->closed.empty());
  // What is over counts no more.
  second->call.reset();
  s.Run();
  EXPECT_TRUE(s.Answers(*s.Dial("x")));
}

// Would break: whoever can dial could make a peer hold answers without end.
TEST(InputsServer, FewAreServedAtOnceAndTheSilentAreLetGo) {
  Served s;
  std::vector<std::unique_ptr<Reader>> silent;
  for (int i = 0; i < 8; ++i) silent.push_back(s.Dial(absl::StrCat("x", i)));
  EXPECT_TRUE(Served::Refused(*s.Dial("auditor")));
  s.world.RunFor(absl::Minutes(2));
  EXPECT_TRUE(s.Answers(*s.Dial("auditor")));
}

}  // namespace
}  // namespace atolld
