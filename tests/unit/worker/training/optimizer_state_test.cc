#include <gtest/gtest.h>

#include <filesystem>
#include <vector>

#include "tests/unit/worker/training/fixtures.h"
#include "worker/training/worker_state.h"

namespace atolld {
namespace {

struct Buffers {
  uint64_t steps = 0;
  std::vector<float> first = std::vector<float>(100), second = std::vector<float>(100);
  InnerOptimizer::State state() {
    return {&steps, {absl::MakeSpan(first), absl::MakeSpan(second)}};
  }
};

Buffers Warm() {
  Buffers buffers;
  buffers.steps = 77;
  buffers.first[3] = 1.5f;
  buffers.second[99] = 2.5f;
  return buffers;
}

// Broken: a worker that was started again would begin with cold moments.
TEST(StateFileTest, ComesBackAsItWas) {
  const TemporaryFolder folder;
  Buffers warm = Warm(), cold;
  ASSERT_TRUE(SaveState(folder / "state", "run-1", warm.state()).ok());
  ASSERT_TRUE(LoadState(folder / "state", "run-1", cold.state()).ok());
  EXPECT_EQ(cold.steps, 77u);
  EXPECT_EQ(cold.first, warm.first);
  EXPECT_EQ(cold.second, warm.second);
}

// Broken: moments of another run or model, or half a file, would be trained on.
TEST(StateFileTest, AnotherFileIsNotUsed) {
  const TemporaryFolder folder;
  const std::string path = folder / "state";
  Buffers warm = Warm(), cold;
  EXPECT_TRUE(absl::IsNotFound(LoadState(path, "run-1", cold.state())));
  ASSERT_TRUE(SaveState(path, "run-1", warm.state()).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(LoadState(path, "run-2", cold.state())));
  Buffers longer;
  longer.first.resize(101);
  longer.second.resize(101);
  EXPECT_TRUE(absl::IsFailedPrecondition(LoadState(path, "run-1", longer.state())));
  EXPECT_TRUE(absl::IsFailedPrecondition(LoadState(path, "run-1", {&cold.steps, {}})));
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  EXPECT_TRUE(absl::IsDataLoss(LoadState(path, "run-1", cold.state())));
  std::filesystem::resize_file(path, 10);
  EXPECT_TRUE(absl::IsDataLoss(LoadState(path, "run-1", cold.state())));
  EXPECT_EQ(cold.steps, 0u);
  EXPECT_EQ(cold.first, Buffers().first);
}

}  // namespace
}  // namespace atolld
