#include "worker/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "worker/torch_edge.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

// Broken: a peer would train elsewhere than it was told to, or not say why it does not train.
TEST(DeviceTest, ResolvesWhatTheConfigSays) {
  const GpuProbe none{false, 0}, two{true, 2};
  EXPECT_EQ(*ResolveDevice("auto", none), "cpu");
  EXPECT_EQ(*ResolveDevice("auto", two), "cuda:0");
  EXPECT_EQ(*ResolveDevice("cpu", two), "cpu");
  EXPECT_EQ(*ResolveDevice("cuda", two), "cuda:0");
  EXPECT_EQ(*ResolveDevice("cuda:1", two), "cuda:1");
  EXPECT_TRUE(absl::IsFailedPrecondition(ResolveDevice("cuda", none).status()));
  EXPECT_THAT(std::string(ResolveDevice("cuda:1", none).status().message()),
              HasSubstr("finds no GPU here; \"auto\" and \"cpu\" train without"));
  EXPECT_EQ(ResolveDevice("cuda:2", two).status().message(),
            "[worker] device is \"cuda:2\", and this machine has 2 GPUs, the last of them cuda:1");
  for (const char* wrong : {"", "gpu", "cuda:", "cuda:x", "cuda:-1"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ResolveDevice(wrong, two).status())) << wrong;
  }
}

// Broken: who has too little memory would read libtorch's inner words instead of what to do.
TEST(DeviceTest, OutOfMemoryIsOneClearLine) {
  const absl::Status status =
      CatchTorch("step 3, tokens [12, 64]", [] { at::empty({int64_t{1} << 50}); });
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("step 3, tokens [12, 64]: out of memory"));
  EXPECT_EQ(status.message().find('\n'), absl::string_view::npos) << status;
}

}  // namespace
}  // namespace atolld
