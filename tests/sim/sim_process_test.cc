// Pauses and deaths of simulated processes.
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/sim/sim_ends.h"
#include "tests/sim/sim_world.h"

namespace atolld {
namespace {

using Crash = SimDisk::Crash;
using Texts = std::vector<std::string>;

// Would break: a stopped process would continue, lose what arrived meanwhile, or see it out of
// order.
TEST(SimProcess, APausedProcessDoesNothingAndThenAllInOrder) {
  Pair pair(1);
  SimWorld& world = pair.world;
  world.RunFor(absl::Milliseconds(10));
  Env b = world.process("b").env();
  Texts seen;
  const auto timer = [&](int milliseconds) {
    b.executor.RunAfter(absl::Milliseconds(milliseconds),
                        [&seen, milliseconds] { seen.push_back(std::to_string(milliseconds)); });
  };
  for (const int due : {3000, 1000, 20000, 2000}) timer(due);
  const auto cancelled = b.executor.RunAfter(absl::Seconds(4), [&] { seen.push_back("never"); });
  world.RunFor(absl::Milliseconds(1500));
  world.Pause("b", absl::Seconds(10));
  world.Pause("b", absl::Seconds(1));  // makes it no shorter
  const absl::Time before = b.executor.Now();
  for (int i = 0; i < 3; ++i) pair.client.call->Write({std::to_string(i), SharedBytes()});
  world.RunFor(absl::Milliseconds(9900));
  EXPECT_EQ(seen, Texts{"1000"});
  EXPECT_TRUE(pair.server.frames.empty());
  EXPECT_EQ(b.executor.Now() - before, absl::Milliseconds(9900));
  b.executor.Cancel(cancelled);
  world.RunFor(absl::Milliseconds(200));
  EXPECT_EQ(seen, (Texts{"1000", "2000", "3000"}));
  EXPECT_EQ(pair.server.frames, (Texts{"0", "1", "2"}));
  world.RunFor(absl::Seconds(10));
  EXPECT_EQ(seen.back(), "20000");
}

// Would break: a process that sleeps for an hour would wake up to streams that no transport keeps.
TEST(SimProcess, APauseBeyondTheKeepaliveBreaksItsCalls) {
  SimSettings settings;
  settings.network.keepalive = absl::Seconds(15);
  Pair pair(2, settings);
  pair.world.RunFor(absl::Milliseconds(10));
  pair.world.Pause("a", absl::Seconds(14));
  pair.world.RunFor(absl::Seconds(30));
  EXPECT_TRUE(pair.server.closed.empty());
  pair.world.Pause("a", absl::Seconds(120));
  pair.world.RunFor(absl::Seconds(16));
  ASSERT_EQ(pair.server.closed.size(), 1u);
  EXPECT_TRUE(absl::IsUnavailable(pair.server.closed[0]));
  EXPECT_TRUE(pair.client.closed.empty()) << "who sleeps learns nothing";
  pair.world.RunFor(absl::Seconds(105));
  ASSERT_EQ(pair.client.closed.size(), 1u);
  EXPECT_TRUE(absl::IsUnavailable(pair.client.closed[0]));
}

// Would break: a process killed while it sleeps would come back to life at the end of its pause.
TEST(SimProcess, DiesAndComesBackInThePause) {
  SimWorld world(3);
  int ticks = 0;
  world.AddProcess("p", [&](Env env) {
    env.executor.RunAfter(absl::Seconds(1), [&] { ++ticks; });
    return std::make_shared<int>();
  });
  world.Pause("p", absl::Seconds(10));
  world.RunFor(absl::Seconds(2));
  world.Kill("p");
  world.Restart("p");
  world.RunFor(absl::Milliseconds(1500));
  EXPECT_EQ(ticks, 1) << "the new life is not paused";
  world.RunFor(absl::Seconds(20));
  EXPECT_EQ(ticks, 1);
}

// Writes a line durably, tells the other end, and logs it, once a second.
struct Writer {
  explicit Writer(Env given) : env(given) {
    env.files.MakeDirectories("/p").IgnoreError();
    call = env.transport.Dial("b:1", "/m", absl::InfiniteDuration());
    call->Start({nullptr, nullptr, nullptr});
    Next();
  }
  void Next() {
    env.executor.Offload(
        [this] {
          Write();
          if (after_write) after_write();
        },
        guard.Wrap([this] {
          call->Write({"done", SharedBytes()});
          env.executor.RunAfter(absl::Seconds(1), guard.Wrap([this] { Next(); }));
        }));
  }
  void Write() {
    auto file = env.files.OpenToAppend("/p/log");
    if (file.ok()) status = (*file)->Append(Span("line."));
    if (file.ok() && status.ok()) status = (*file)->Sync();
    if (file.ok() && status.ok()) status = env.files.SyncDirectory("/p");
    // What a dying process still does must reach nobody.
    env.log.Info("wrote");
    if (!status.ok()) call->Write({"beyond the grave", SharedBytes()});
    if (!status.ok()) late = env.transport.Dial("b:1", "/late", absl::InfiniteDuration());
    if (late != nullptr) late->Start({nullptr, nullptr, nullptr});
  }
  Env env;
  absl::Status status;
  std::function<void()> after_write;
  std::unique_ptr<Call> call;
  std::unique_ptr<Call> late;
  CallbackGuard guard;
};

struct WriterWorld {
  explicit WriterWorld(uint64_t seed) : world(seed) {
    listener = *world.AddProcess("b").env().transport.Listen(
        "b:1", [this](const std::string& method, std::unique_ptr<Call> call) {
          methods.push_back(method);
          servers.push_back(std::make_unique<Reader>());
          servers.back()->Start(std::move(call));
        });
  }
  void Add() {
    world.AddProcess("p", [this](Env env) {
      auto made = std::make_shared<Writer>(env);
      writer = made.get();
      return made;
    });
  }
  size_t Told() const {
    size_t told = 0;
    for (const auto& server : servers) told += server->frames.size();
    return told;
  }
  SimWorld world;
  std::unique_ptr<Listener> listener;
  Texts methods;
  std::vector<std::unique_ptr<Reader>> servers;
  Writer* writer = nullptr;
};

// Would break: a process that dies at a write could still report it, which no power cut allows, and
// a lost version would look like a lie of its peer.
TEST(SimProcess, DeathAtAWriteCutsOffAllThatFollows) {
  for (uint64_t at = 1; at <= 9; ++at) {
    WriterWorld test(4);
    Texts deaths;
    test.world.OnDeath([&](const std::string& name) { deaths.push_back(name); });
    test.world.CrashAtWrite("p", at, Crash::kLoseUnsynced);  // before there is a process
    test.Add();
    // The writes: the directory, then three a line and one more for the first.
    ASSERT_TRUE(test.world.RunUntil([&] { return !deaths.empty(); }, absl::Seconds(10)));
    test.world.RunFor(absl::Seconds(5));
    EXPECT_EQ(deaths, Texts{"p"});
    EXPECT_FALSE(test.world.process("p").alive());
    const size_t lines = at <= 5 ? 0 : at <= 8 ? 1 : 2;
    EXPECT_EQ(test.Told(), lines) << at;
    EXPECT_EQ(test.world.LogCount("wrote"), lines) << at;
    for (const std::string& method : test.methods) EXPECT_EQ(method, "/m");
    for (const auto& server : test.servers) EXPECT_EQ(server->closed.size(), 1u);
    SimFiles left(test.world.disk("p"));
    EXPECT_EQ(left.Exists("/p/log"), lines > 0);
    test.world.Restart("p");
    test.world.RunFor(absl::Seconds(3));
    EXPECT_TRUE(test.world.process("p").alive());
    EXPECT_GE(test.Told(), lines + 2);
  }
}

// Would break: what a process posted before it died at its start would still run.
TEST(SimProcess, DeathAtTheFirstWriteLeavesNothingPosted) {
  SimWorld world(9);
  int ran = 0;
  world.CrashAtWrite("p", 1, Crash::kKeepUnsynced);
  world.AddProcess("p", [&](Env env) {
    env.executor.Post([&] { ++ran; });
    const absl::Status made = env.files.MakeDirectories("/p");
    const absl::Status listening =
        env.transport.Listen("p:1", [](const std::string&, std::unique_ptr<Call>) {}).status();
    EXPECT_EQ(made.ok(), world.process("p").lives() == 2) << made;
    EXPECT_EQ(listening.ok(), made.ok()) << listening;
    return std::make_shared<int>();
  });
  EXPECT_FALSE(world.process("p").alive());
  world.RunFor(absl::Seconds(1));
  EXPECT_EQ(ran, 0);
  world.Restart("p");
  EXPECT_TRUE(world.process("p").alive()) << "the death was one";
}

// Would break: code could go on after a failed fsync, which production never does.
TEST(SimProcess, AFailedSyncIsTheEnd) {
  WriterWorld test(5);
  test.Add();
  test.world.RunFor(absl::Milliseconds(500));
  EXPECT_EQ(test.Told(), 1u);
  test.world.disk("p").FailSyncs(1);
  test.world.RunFor(absl::Seconds(2));
  EXPECT_FALSE(test.world.process("p").alive());
  EXPECT_EQ(test.Told(), 1u);
  test.world.disk("p").EndFaults();
  test.world.Restart("p");
  test.world.RunFor(absl::Milliseconds(500));
  EXPECT_EQ(ReadFile(test.world.process("p").env().files, "/p/log", 100).value(), "line.line.");
}

// Would break: a kill that dying code requests for itself would hit its next life.
TEST(SimProcess, AKillIsOfOneLifeAlone) {
  WriterWorld test(6);
  test.Add();
  test.writer->after_write = [&] {
    test.world.Restart("p");
    test.world.Kill("p");
  };
  test.world.CrashAtWrite("p", 2, Crash::kDrawn);
  test.world.RunFor(absl::Seconds(3));
  EXPECT_EQ(test.world.process("p").lives(), 2);
  EXPECT_TRUE(test.world.process("p").alive());
}

// Would break: a slow disk would cost no time, and no deadline would ever be missed because of one.
TEST(SimProcess, ASlowSyncHoldsUpItsJobAlone) {
  SimWorld world(7);
  Env env = world.AddProcess("p").env();
  world.disk("p").SlowSync(absl::Milliseconds(200), absl::Milliseconds(300));
  Texts done;
  env.executor.Offload(
      [&] {
        auto file = std::move(env.files.Create("/a")).value();
        EXPECT_TRUE(file->Sync().ok());
        EXPECT_TRUE(env.files.SyncDirectory("/").ok());
      },
      [&] { done.push_back("slow"); });
  env.executor.Offload([] {}, [&] { done.push_back("quick"); });
  world.RunFor(absl::Milliseconds(399));
  EXPECT_EQ(done, Texts{"quick"});
  world.RunFor(absl::Milliseconds(202));
  EXPECT_EQ(done, (Texts{"quick", "slow"}));
}

// Would break: debug lines of a million events would fill the memory of a long search.
TEST(SimProcess, KeepsNoLogLineBelowItsLevel) {
  SimSettings settings;
  settings.log_level = Log::Level::kWarning;
  SimWorld world(8, settings);
  Env env = world.AddProcess("p").env();
  env.log.Debug("one");
  env.log.Info("two");
  env.log.Warning("three");
  env.log.Error("four");
  ASSERT_EQ(world.log().size(), 2u);
  EXPECT_EQ(world.log()[0].text, "three");
}

}  // namespace
}  // namespace atolld
