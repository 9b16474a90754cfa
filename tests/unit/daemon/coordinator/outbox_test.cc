#include "daemon/coordinator/outbox.h"

#include "daemon/coordinator/memory_store.h"
#include "gtest/gtest.h"
#include "tests/sim/sim_world.h"

namespace atolld {
namespace {

RunOutput Output(const std::string& line, uint64_t epoch = 0) {
  RunOutput output;
  output.events.push_back({RunOutput::Severity::kInfo, line});
  if (epoch != 0) output.update.epoch = epoch;
  return output;
}

// Would break: something is said before it is durable, or out of order.
TEST(Outbox, DeliversInOrderAndOnlyWhatIsDurable) {
  SimWorld world(1);
  SimProcess& process = world.AddProcess("p");
  auto disk = std::make_shared<MemoryStore::Disk>();
  std::string delivered;
  Outbox outbox(process.env(), std::make_shared<MemoryStore>(disk), [&](const RunOutput& output) {
    if (output.update.epoch) {
      EXPECT_EQ(disk->run.epoch, *output.update.epoch);
    }
    delivered += output.events[0].line;
  });
  outbox.Push(Output("a"));
  EXPECT_EQ(delivered, "a");  // nothing to wait for
  outbox.Push(Output("b", 1));
  outbox.Push(Output("c"));
  outbox.Push(Output("d", 2));
  EXPECT_EQ(delivered, "a");
  world.RunFor(absl::Seconds(1));
  EXPECT_EQ(delivered, "abcd");
}

// Would break: a full disk ends the run, or lets unstored promises out.
TEST(Outbox, WaitsWhileTheDiskIsFull) {
  SimWorld world(1);
  SimProcess& process = world.AddProcess("p");
  auto disk = std::make_shared<MemoryStore::Disk>();
  std::string delivered;
  Outbox outbox(process.env(), std::make_shared<MemoryStore>(disk),
                [&](const RunOutput& output) { delivered += output.events[0].line; });
  disk->fails = absl::ResourceExhaustedError("full");
  outbox.Push(Output("a", 1));
  outbox.Push(Output("b"));
  world.RunFor(absl::Seconds(10));
  EXPECT_EQ(delivered, "");
  EXPECT_EQ(outbox.stalled(), "full");
  disk->fails = absl::OkStatus();
  world.RunFor(absl::Seconds(2));
  EXPECT_EQ(delivered, "ab");
  EXPECT_EQ(outbox.stalled(), "");
}

}  // namespace
}  // namespace atolld
