#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/sim/sim_ends.h"
#include "tests/sim/sim_world.h"

namespace atolld {
namespace {

// Would break: every test that relies on ordered, lossless streams and on their ends.
TEST(SimTransport, CarriesFramesInOrderAndClosesBothEnds) {
  Pair pair(1);
  pair.server.echo = true;
  for (int i = 0; i < 50; ++i) pair.client.call->Write({std::to_string(i), SharedBytes()});
  pair.client.call->Finish(absl::OkStatus());
  EXPECT_TRUE(pair.server.frames.empty());  // nothing happens inside the calls
  ASSERT_TRUE(
      pair.world.RunUntil([&] { return pair.client.frames.size() == 50; }, absl::Seconds(1)));
  EXPECT_EQ(pair.client.frames, pair.server.frames);
  ASSERT_EQ(pair.server.closed, std::vector<absl::Status>{absl::OkStatus()});
  pair.server.call->Finish(absl::NotFoundError("done"));
  pair.world.RunFor(absl::Seconds(1));
  ASSERT_EQ(pair.client.closed, std::vector<absl::Status>{absl::NotFoundError("done")});
  EXPECT_EQ(pair.client.call->sent_bytes(), 50u * 5 + 10 + 2 * 40);
  EXPECT_EQ(pair.world.network().open_calls(), 0u);
}

// Would break: tests of back-pressure prove nothing if an unread stream takes everything.
TEST(SimTransport, HoldsBackTheSenderOfAReaderThatStops) {
  Pair pair(2);
  pair.server.keep_reading = false;
  int writable = 0;
  const std::string big(100 << 10, 'x');
  Reader sender;
  sender.call = pair.world.process("a").env().transport.Dial("b:1", "/m", absl::InfiniteDuration());
  pair.client.call.reset();
  sender.call->Start({nullptr, [&] { ++writable; }, nullptr});
  for (int i = 0; i < 10; ++i) sender.call->Write({big, SharedBytes()});
  pair.world.RunFor(absl::Seconds(1));
  EXPECT_EQ(pair.server.frames.size(), 1u);
  EXPECT_GE(sender.call->unsent_bytes(), 7u * big.size());  // one read, two in the window
  EXPECT_EQ(writable, 0);
  pair.server.keep_reading = true;
  pair.server.call->Read();
  pair.world.RunFor(absl::Seconds(1));
  EXPECT_EQ(pair.server.frames.size(), 10u);
  EXPECT_EQ(sender.call->unsent_bytes(), 0u);
  EXPECT_GE(writable, 1);
}

// Would break: tests of failures would wait for ever, or see them too early.
TEST(SimTransport, TellsOfCutsDeathsAndAbsence) {
  Pair cut(3);
  cut.world.RunFor(absl::Milliseconds(10));
  cut.world.CutLink("a", "b");
  EXPECT_TRUE(cut.client.closed.empty());
  cut.world.RunFor(absl::Milliseconds(10));
  ASSERT_EQ(cut.client.closed.size(), 1u);
  EXPECT_TRUE(absl::IsUnavailable(cut.client.closed[0]));
  ASSERT_EQ(cut.server.closed.size(), 1u);
  Reader again;
  again.Start(cut.world.process("a").env().transport.Dial("b:1", "/m", absl::InfiniteDuration()));
  cut.world.RunFor(absl::Milliseconds(10));
  ASSERT_EQ(again.closed.size(), 1u);

  Pair killed(4);
  killed.world.RunFor(absl::Milliseconds(10));
  killed.world.Kill("b");
  killed.world.RunFor(absl::Milliseconds(10));
  ASSERT_EQ(killed.client.closed.size(), 1u);
  EXPECT_TRUE(absl::IsUnavailable(killed.client.closed[0]));
  EXPECT_TRUE(killed.server.closed.empty());

  Pair cancelled(5);
  cancelled.world.RunFor(absl::Milliseconds(10));
  cancelled.client.call.reset();
  cancelled.world.RunFor(absl::Milliseconds(10));
  ASSERT_EQ(cancelled.server.closed.size(), 1u);
  EXPECT_TRUE(absl::IsCancelled(cancelled.server.closed[0]));

  Pair unread(6);
  Reader late;
  late.Start(unread.world.process("a").env().transport.Dial("b:1", "/m", absl::Milliseconds(50)));
  unread.world.RunFor(absl::Milliseconds(100));
  ASSERT_EQ(late.closed.size(), 1u);
  EXPECT_TRUE(absl::IsDeadlineExceeded(late.closed[0]));
}

// Would break: durability tests would pass for code that forgets a sync.
TEST(SimFiles, LosesWhatWasNotSynced) {
  SimWorld world(7);
  SimProcess& p = world.AddProcess("p");
  {
    Files& files = p.env().files;
    ASSERT_TRUE(files.MakeDirectories("/d/e").ok());
    auto synced = std::move(files.Create("/d/synced")).value();
    ASSERT_TRUE(synced->Append(Span("one")).ok());
    ASSERT_TRUE(synced->Sync().ok());
    ASSERT_TRUE(files.SyncDirectory("/d").ok());
    ASSERT_TRUE(synced->Append(Span("two")).ok());
    auto nameless = std::move(files.Create("/d/nameless")).value();
    ASSERT_TRUE(nameless->Append(Span("one")).ok());
    ASSERT_TRUE(nameless->Sync().ok());
    ASSERT_TRUE(files.Rename("/d/synced", "/d/renamed").ok());
    EXPECT_TRUE(absl::IsNotFound(files.Create("/nowhere/f").status()));
  }
  world.Kill("p");
  world.Restart("p");
  Files& files = p.env().files;
  EXPECT_EQ(files.List("/d").value(), (std::vector<std::string>{"e", "synced"}));
  auto file = std::move(files.OpenToRead("/d/synced")).value();
  ASSERT_EQ(file->size(), 3u);
  p.disk().SetCapacity(5);
  auto full = std::move(files.OpenToAppend("/d/synced")).value();
  EXPECT_TRUE(absl::IsResourceExhausted(full->Append(Span("abc"))));
}

struct Ticker {
  explicit Ticker(Env given) : env(given) { Tick(); }
  void Tick() {
    env.log.Info("tick");
    env.executor.Offload([] {}, [this] { env.log.Info(std::to_string(env.executor.Random())); });
    env.executor.RunAfter(absl::Milliseconds(10), guard.Wrap([this] { Tick(); }));
  }
  Env env;
  CallbackGuard guard;
};

// Would break: a failing seed could not be run again.
TEST(SimWorld, RepeatsItselfAndStopsAtDeath) {
  const auto run = [](uint64_t seed) {
    SimWorld world(seed);
    world.AddProcess("p", [](Env env) { return std::make_shared<Ticker>(env); });
    world.RunFor(absl::Milliseconds(55));
    EXPECT_EQ(world.LogCount("tick"), 6u);
    world.Kill("p");
    world.RunFor(absl::Seconds(1));
    EXPECT_EQ(world.LogCount("tick"), 6u);
    world.Restart("p");
    world.RunFor(absl::Milliseconds(15));
    EXPECT_EQ(world.LogCount("tick"), 8u);
    return std::make_pair(world.digest(), world.LogText());
  };
  EXPECT_EQ(run(1), run(1));
  EXPECT_NE(run(1).first, run(2).first);
}

}  // namespace
}  // namespace atolld
