// The faults of the simulated network.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/sim/sim_ends.h"
#include "tests/sim/sim_world.h"

namespace atolld {
namespace {

SimSettings Keepalive(absl::Duration keepalive) {
  SimSettings settings;
  settings.network.keepalive = keepalive;
  return settings;
}

void Send(Reader& reader, const std::string& text) { reader.call->Write({text, SharedBytes()}); }

using Texts = std::vector<std::string>;

// Would break: a one-way cut would be like an ordinary cut, of which both sides hear at once.
TEST(SimNetwork, AOneWayCutHoldsOneDirectionAndLosesNothing) {
  Pair pair(1);
  pair.world.RunFor(absl::Milliseconds(10));
  pair.world.network().CutOneWay("a", "b");
  Send(pair.client, "1");
  Send(pair.client, "2");
  Send(pair.server, "back");
  pair.world.RunFor(absl::Minutes(10));
  EXPECT_EQ(pair.client.frames, Texts{"back"});
  EXPECT_TRUE(pair.server.frames.empty());
  EXPECT_TRUE(pair.client.closed.empty() && pair.server.closed.empty());
  pair.world.network().HealOneWay("a", "b");
  Send(pair.client, "3");
  pair.world.RunFor(absl::Milliseconds(10));
  EXPECT_EQ(pair.server.frames, (Texts{"1", "2", "3"}));
}

// Would break: nothing would prove that code survives a peer that neither answers nor goes away.
TEST(SimNetwork, ABlackHoleHangsCallsAndDialsUntilItHeals) {
  Pair pair(2);
  pair.world.RunFor(absl::Milliseconds(10));
  Reader accepted;
  auto second = pair.world.process("b").env().transport.Listen(
      "b:2",
      [&](const std::string&, std::unique_ptr<Call> call) { accepted.Start(std::move(call)); });
  pair.world.network().BlackHole("b", "a");
  Reader late;
  Reader limited;
  Transport& transport = pair.world.process("a").env().transport;
  late.Start(transport.Dial("b:2", "/late", absl::InfiniteDuration()));
  Send(pair.client, "x");
  limited.Start(transport.Dial("b:2", "/limited", absl::Seconds(3)));
  pair.world.RunFor(absl::Minutes(1));
  EXPECT_TRUE(late.closed.empty() && pair.client.closed.empty() && pair.server.frames.empty());
  ASSERT_EQ(limited.closed.size(), 1u);
  EXPECT_TRUE(absl::IsDeadlineExceeded(limited.closed[0]));
  Send(late, "late");
  pair.world.network().HealBlackHole("a", "b");
  pair.world.RunFor(absl::Milliseconds(10));
  EXPECT_EQ(pair.server.frames, Texts{"x"});
  EXPECT_EQ(accepted.frames, Texts{"late"}) << "the dial goes through in the end";
}

// Would break: a silent link would keep a call for ever, which no gRPC with keepalive does; or
// break one that was silent for less.
TEST(SimNetwork, TheKeepaliveBreaksASilentCallAtBothEnds) {
  Pair pair(3, Keepalive(absl::Seconds(15)));
  pair.world.RunFor(absl::Milliseconds(10));
  pair.world.network().Clog("a", "b", absl::Seconds(14));
  pair.world.RunFor(absl::Minutes(1));
  EXPECT_TRUE(pair.client.closed.empty() && pair.server.closed.empty());
  pair.world.network().CutOneWay("b", "a");  // the probe arrives, its answer does not
  pair.world.RunFor(absl::Milliseconds(14900));
  EXPECT_TRUE(pair.client.closed.empty() && pair.server.closed.empty());
  pair.world.RunFor(absl::Milliseconds(200));
  ASSERT_EQ(pair.client.closed.size(), 1u);
  ASSERT_EQ(pair.server.closed.size(), 1u);
  EXPECT_TRUE(absl::IsUnavailable(pair.client.closed[0]));
  EXPECT_TRUE(absl::IsUnavailable(pair.server.closed[0]));

  Reader accepted;
  auto second = pair.world.process("b").env().transport.Listen(
      "b:2",
      [&](const std::string&, std::unique_ptr<Call> call) { accepted.Start(std::move(call)); });
  Reader again;
  again.Start(pair.world.process("b").env().transport.Dial("b:2", "/m", absl::Seconds(99)));
  Reader across;
  across.Start(pair.world.process("a").env().transport.Dial("b:1", "/m", absl::Seconds(99)));
  pair.world.RunFor(absl::Milliseconds(14900));
  EXPECT_TRUE(across.closed.empty());
  pair.world.RunFor(absl::Milliseconds(200));
  ASSERT_EQ(across.closed.size(), 1u) << "a dial over a silent link must end too";
  EXPECT_TRUE(again.closed.empty()) << "a process reaches itself over no link";
}

// Would break: of two processes that cannot both hear each other one could still dial.
TEST(SimNetwork, ADialHangsWhereEitherWayIsCut) {
  for (const bool there : {true, false}) {
    Pair pair(12);
    if (there) {
      pair.world.network().CutOneWay("a", "b");
    } else {
      pair.world.network().CutOneWay("b", "a");
    }
    Send(pair.client, "x");
    pair.world.RunFor(absl::Minutes(1));
    EXPECT_TRUE(pair.server.frames.empty() && pair.client.closed.empty());
    pair.world.network().HealAll();
    pair.world.RunFor(absl::Milliseconds(10));
    EXPECT_EQ(pair.server.frames, Texts{"x"});
  }
}

// Would break: behind a firewall a peer would be dead, or could be dialled.
TEST(SimNetwork, AHiddenProcessDialsAndCannotBeDialled) {
  Pair pair(13, Keepalive(absl::Seconds(3)));
  pair.world.RunFor(absl::Milliseconds(10));
  Reader accepted;
  auto second = pair.world.process("a").env().transport.Listen(
      "a:1",
      [&](const std::string&, std::unique_ptr<Call> call) { accepted.Start(std::move(call)); });
  pair.world.network().Hide("b");
  Reader back;
  back.Start(pair.world.process("b").env().transport.Dial("a:1", "/m", absl::Hours(1)));
  Send(back, "out");
  Send(pair.client, "in");
  Send(pair.server, "answer");
  Reader late;
  late.Start(pair.world.process("a").env().transport.Dial("b:1", "/m", absl::Hours(1)));
  pair.world.RunFor(absl::Milliseconds(2900));
  EXPECT_EQ(accepted.frames, Texts{"out"});
  EXPECT_TRUE(pair.server.frames.empty() && pair.server.closed.empty() && late.closed.empty());
  EXPECT_EQ(pair.client.frames, Texts{"answer"});
  pair.world.RunFor(absl::Milliseconds(200));
  EXPECT_EQ(pair.server.closed.size(), 1u) << "the keepalive finds it";
  EXPECT_EQ(late.closed.size(), 1u) << "and a dial ends";
  EXPECT_TRUE(back.closed.empty());
  pair.world.network().Show("b");
  pair.server = Reader();
  pair.client = Reader();
  pair.client.Start(pair.world.process("a").env().transport.Dial("b:1", "/m", absl::Hours(1)));
  Send(pair.client, "again");
  pair.world.RunFor(absl::Milliseconds(10));
  EXPECT_EQ(pair.server.frames, Texts{"again"});
}

// Would break: no test would show that a line may carry small packets for ever and nothing else.
TEST(SimNetwork, SmallPacketsPassAlone) {
  Pair pair(14, Keepalive(absl::Seconds(3)));
  pair.world.RunFor(absl::Milliseconds(10));
  pair.world.network().PassSmallAlone("b", "a");
  for (int i = 0; i < 60; ++i) {
    Send(pair.client, "small");
    Send(pair.server, "back");
    pair.world.RunFor(absl::Seconds(1));
  }
  EXPECT_EQ(pair.server.frames.size(), 60u);
  EXPECT_EQ(pair.client.frames.size(), 60u);
  Send(pair.client, std::string(kSimSmallFrame, 'x'));
  Send(pair.client, "behind");
  Send(pair.server, "back");
  pair.world.RunFor(absl::Milliseconds(2900));
  EXPECT_EQ(pair.server.frames.size(), 60u) << "nothing passes what is stuck";
  EXPECT_EQ(pair.client.frames.size(), 61u) << "the other way is free";
  EXPECT_TRUE(pair.client.closed.empty() && pair.server.closed.empty());
  pair.world.network().PassAll("a", "b");
  pair.world.RunFor(absl::Milliseconds(10));
  EXPECT_EQ(pair.server.frames.size(), 62u) << "it was sent again";
  pair.world.network().PassSmallAlone("a", "b");
  Send(pair.server, std::string(kSimSmallFrame, 'y'));
  pair.world.RunFor(absl::Milliseconds(3100));
  ASSERT_EQ(pair.client.closed.size(), 1u);
  EXPECT_TRUE(absl::IsUnavailable(pair.client.closed[0]));
  EXPECT_EQ(pair.server.closed.size(), 1u);
}

// Would break: the death of a machine behind a black hole would be known at once, as after a reset.
TEST(SimNetwork, ADeathBehindABlackHoleIsSeenByTheKeepaliveAlone) {
  Pair pair(4, Keepalive(absl::Seconds(3)));
  pair.world.RunFor(absl::Milliseconds(10));
  pair.world.network().BlackHole("a", "b");
  pair.world.Kill("b");
  pair.world.RunFor(absl::Seconds(2));
  EXPECT_TRUE(pair.client.closed.empty());
  pair.world.RunFor(absl::Seconds(2));
  ASSERT_EQ(pair.client.closed.size(), 1u);
  EXPECT_TRUE(absl::IsUnavailable(pair.client.closed[0]));
}

// Would break: frames of one call could overtake each other, as in no stream; or those of two calls
// could not, which hides every race.
TEST(SimNetwork, JitterAndLossReorderCallsButNeverFrames) {
  SimSettings settings;
  settings.network.link.jitter = absl::Milliseconds(5);
  Pair pair(5, settings);
  pair.world.network().SetLoss("a", "b", 0.2);
  std::vector<std::unique_ptr<Call>> accepted;
  std::vector<std::pair<std::string, std::string>> seen;
  auto listening = pair.world.process("b").env().transport.Listen(
      "b:2", [&](const std::string& method, std::unique_ptr<Call> call) {
        accepted.push_back(std::move(call));
        Call* raw = accepted.back().get();
        raw->Start({[&seen, method, raw](Frame frame) {
                      seen.emplace_back(method, frame.message);
                      raw->Read();
                    },
                    nullptr, nullptr});
        raw->Read();
      });
  std::vector<std::unique_ptr<Call>> calls;
  for (const std::string method : {"/one", "/two"}) {
    calls.push_back(pair.world.process("a").env().transport.Dial("b:2", method, absl::Hours(1)));
    calls.back()->Start({nullptr, nullptr, nullptr});
  }
  for (int i = 10; i < 60; ++i) {
    for (auto& call : calls) call->Write({std::to_string(i), SharedBytes()});
    pair.world.RunFor(absl::Milliseconds(1));
  }
  pair.world.RunFor(absl::Minutes(2));
  ASSERT_EQ(seen.size(), 100u);
  Texts one;
  int switches = 0;
  for (size_t i = 0; i < seen.size(); ++i) {
    if (seen[i].first == "/one") one.push_back(seen[i].second);
    if (i % 2 == 0) switches += seen[i].second != seen[i + 1].second ? 1 : 0;
  }
  EXPECT_TRUE(std::is_sorted(one.begin(), one.end()));
  EXPECT_EQ(one.size(), 50u);
  EXPECT_GT(switches, 10) << "the two calls must have run apart";
}

// Would break: a lossy link would not be slower than a good one, or would lose something for good.
TEST(SimNetwork, ALostFrameComesAfterItsRetransmission) {
  Pair pair(6);
  pair.world.RunFor(absl::Milliseconds(10));
  pair.world.network().SetLoss("a", "b", 1);
  Send(pair.client, "x");
  pair.world.RunFor(absl::Milliseconds(200));
  EXPECT_TRUE(pair.server.frames.empty());
  pair.world.RunFor(absl::Milliseconds(802));
  EXPECT_EQ(pair.server.frames, Texts{"x"});
}

// Would break: a clog would be a cut.
TEST(SimNetwork, AClogEndsByItself) {
  Pair pair(7);
  pair.world.RunFor(absl::Milliseconds(10));
  pair.world.network().Clog("a", "b", absl::Seconds(5));
  pair.world.network().Clog("b", "a", absl::Seconds(2));  // makes it no shorter
  Send(pair.client, "x");
  Send(pair.server, "y");
  pair.world.RunFor(absl::Milliseconds(4990));
  EXPECT_TRUE(pair.server.frames.empty() && pair.client.frames.empty());
  pair.world.RunFor(absl::Milliseconds(20));
  EXPECT_EQ(pair.server.frames, Texts{"x"});
  EXPECT_EQ(pair.client.frames, Texts{"y"});
}

// Would break: what one large frame has taken of a link while it was slow keeps all that comes
// after it waiting, long after the link is fast again.
TEST(SimNetwork, ALinkThatIsFastAgainIsFree) {
  Pair pair(9);
  pair.world.RunFor(absl::Milliseconds(10));
  SimLinkSettings slow;
  slow.bytes_per_second = 10;
  pair.world.network().SetLinkOneWay("a", "b", slow);
  Reader accepted;
  auto second = pair.world.process("b").env().transport.Listen(
      "b:2",
      [&](const std::string&, std::unique_ptr<Call> call) { accepted.Start(std::move(call)); });
  Send(pair.client, std::string(1000, 'x'));  // 100 s
  pair.world.RunFor(absl::Seconds(1));
  pair.world.network().SetLinkOneWay("a", "b", {});
  Reader late;
  late.Start(
      pair.world.process("a").env().transport.Dial("b:2", "/late", absl::InfiniteDuration()));
  Send(late, "late");
  pair.world.RunFor(absl::Seconds(1));
  EXPECT_EQ(accepted.frames, Texts{"late"});
  EXPECT_TRUE(pair.server.frames.empty()) << "what is on its way keeps its time";
  pair.world.RunFor(absl::Minutes(2));
  EXPECT_EQ(pair.server.frames, Texts{std::string(1000, 'x')});
}

// Would break: no test would show that a request that arrives twice does its work once.
TEST(SimNetwork, RepeatsACallThatIsOver) {
  SimWorld world(8);
  Transport& transport = world.AddProcess("a").env().transport;
  std::vector<std::unique_ptr<Reader>> accepted;
  Texts methods;
  auto listening = world.AddProcess("b").env().transport.Listen(
      "b:1", [&](const std::string& method, std::unique_ptr<Call> call) {
        methods.push_back(method);
        accepted.push_back(std::make_unique<Reader>());
        accepted.back()->Start(std::move(call));
      });
  const auto ask = [&](const std::string& method, int frames) {
    Reader client;
    client.Start(transport.Dial("b:1", method, absl::InfiniteDuration()));
    for (int i = 0; i < frames; ++i) Send(client, std::to_string(i));
    client.call->Finish(absl::OkStatus());
    world.RunFor(absl::Milliseconds(50));
    client.call.reset();
    world.RunFor(absl::Seconds(5));
  };
  world.network().ReplayCalls(
      1, [](const std::string& method) { return method != "/never"; }, 3);
  ask("/never", 2);
  EXPECT_EQ(methods, Texts{"/never"});
  ask("/short", 2);
  ask("/long", 5);
  EXPECT_EQ(methods, (Texts{"/never", "/short", "/short", "/long", "/long"}));
  EXPECT_EQ(world.network().replayed_calls(), 2u);
  EXPECT_EQ(accepted[2]->frames, (Texts{"0", "1"}));
  ASSERT_EQ(accepted[2]->closed.size(), 1u);
  EXPECT_TRUE(accepted[2]->closed[0].ok()) << "its half-close is repeated too";
  EXPECT_EQ(accepted[3]->frames.size(), 5u);
  EXPECT_EQ(accepted[4]->frames, (Texts{"0", "1", "2"}));
  ASSERT_EQ(accepted[4]->closed.size(), 1u);
  EXPECT_TRUE(absl::IsUnavailable(accepted[4]->closed[0])) << "half a call must break";
  world.network().HealAll();
  ask("/healed", 1);
  EXPECT_EQ(methods.back(), "/healed");
  EXPECT_EQ(methods.size(), 6u);
}

bool Reaches(SimWorld& world, const std::string& from, const std::string& to) {
  Reader client;
  client.Start(world.process(from).env().transport.Dial(to + ":1", "/m", absl::Seconds(1)));
  Send(client, "ping");
  return world.RunUntil([&] { return !client.frames.empty() || !client.closed.empty(); },
                        absl::Seconds(2)) &&
         !client.frames.empty();
}

// Would break: a partition would leak, above all through processes that join while it lasts; or a
// healed core could not talk.
TEST(SimNetwork, APartitionSeparatesAlsoThoseWhoComeLaterUntilItHeals) {
  SimWorld world(9);
  std::vector<std::unique_ptr<Listener>> listeners;
  std::vector<std::unique_ptr<Reader>> accepted;
  const auto add = [&](const std::string& name) {
    listeners.push_back(*world.AddProcess(name).env().transport.Listen(
        name + ":1", [&](const std::string&, std::unique_ptr<Call> call) {
          accepted.push_back(std::make_unique<Reader>());
          accepted.back()->echo = true;
          accepted.back()->Start(std::move(call));
        }));
  };
  for (const char* name : {"a", "b", "c", "d"}) add(name);
  Reader through;
  through.Start(world.process("a").env().transport.Dial("c:1", "/m", absl::InfiniteDuration()));
  ASSERT_TRUE(Reaches(world, "a", "c"));
  EXPECT_TRUE(through.closed.empty());
  world.network().Partition({"a", "b"});
  world.RunFor(absl::Milliseconds(10));
  ASSERT_EQ(through.closed.size(), 1u);
  add("e");
  EXPECT_TRUE(Reaches(world, "a", "b"));
  EXPECT_TRUE(Reaches(world, "c", "d"));
  EXPECT_TRUE(Reaches(world, "e", "d"));
  EXPECT_FALSE(Reaches(world, "a", "c"));
  EXPECT_FALSE(Reaches(world, "d", "b"));
  EXPECT_FALSE(Reaches(world, "e", "a"));
  world.network().BlackHole("a", "b");
  world.network().HealAmong({"a", "b", "c"});
  EXPECT_TRUE(Reaches(world, "a", "c"));
  EXPECT_TRUE(Reaches(world, "b", "a"));
  EXPECT_FALSE(Reaches(world, "a", "d"));
  world.network().HealAll();
  EXPECT_TRUE(Reaches(world, "a", "d"));
  EXPECT_TRUE(Reaches(world, "e", "b"));
}

// Would break: a peer at one hundredth of the bandwidth would have that for each of its links, and
// delay no other peer.
TEST(SimNetwork, APeersRateIsSharedByAllItsLinks) {
  Pair pair(10);
  SimProcess& c = pair.world.AddProcess("c");
  Reader third;
  auto listening = c.env().transport.Listen(
      "c:1", [&](const std::string&, std::unique_ptr<Call> call) { third.Start(std::move(call)); });
  Reader second;
  second.Start(pair.world.process("a").env().transport.Dial("c:1", "/m", absl::Hours(1)));
  pair.world.RunFor(absl::Milliseconds(10));
  pair.world.network().SetPeerRate("a", 1e6);
  const std::string big(100000, 'x');
  Send(pair.client, big);
  Send(second, big);
  pair.world.RunFor(absl::Milliseconds(105));
  EXPECT_EQ(pair.server.frames.size() + third.frames.size(), 1u);
  pair.world.RunFor(absl::Milliseconds(100));
  EXPECT_EQ(pair.server.frames.size() + third.frames.size(), 2u);
  Send(pair.server, big);  // down has a rate of its own
  pair.world.RunFor(absl::Milliseconds(95));
  EXPECT_TRUE(pair.client.frames.empty());
  pair.world.RunFor(absl::Milliseconds(10));
  EXPECT_EQ(pair.client.frames.size(), 1u);
}

// Would break: two runs of one seed that send different bytes would look alike until much later.
TEST(SimNetwork, TheDigestCoversWhatIsDelivered) {
  const auto run = [](const std::string& text) {
    Pair pair(11);
    Send(pair.client, text);
    pair.world.RunFor(absl::Seconds(1));
    return pair.world.digest();
  };
  EXPECT_EQ(run("12"), run("21"));
  EXPECT_NE(run("12"), run("123"));
}

}  // namespace
}  // namespace atolld
