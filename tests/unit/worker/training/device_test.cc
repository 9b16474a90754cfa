#include "worker/training/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "worker/model/torch_edge.h"

namespace atolld {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Broken: a peer would train elsewhere than it was told to, or not say why it does not train.
TEST(DeviceTest, ResolvesWhatTheConfigSays) {
  const GpuProbe none{false, 0}, two{true, 2};
  EXPECT_THAT(*ResolveDevices("auto", none), ElementsAre("cpu"));
  EXPECT_THAT(*ResolveDevices("auto", two), ElementsAre("cuda:0"));
  EXPECT_THAT(*ResolveDevices("cpu", two), ElementsAre("cpu"));
  EXPECT_THAT(*ResolveDevices("cuda", two), ElementsAre("cuda:0"));
  EXPECT_THAT(*ResolveDevices("cuda:1", two), ElementsAre("cuda:1"));
  EXPECT_THAT(*ResolveDevices("cuda:all", two), ElementsAre("cuda:0", "cuda:1"));
  EXPECT_THAT(*ResolveDevices("cuda:all", {true, 1}), ElementsAre("cuda:0"));
  EXPECT_THAT(*ResolveDevices("cuda:1, cuda", two), ElementsAre("cuda:1", "cuda:0"));
  EXPECT_THAT(*ResolveDevices("cpu,cpu,cpu", none), ElementsAre("cpu", "cpu", "cpu"));
}

// Broken: a peer would train with fewer GPUs than it was given, or not say what is wrong.
TEST(DeviceTest, SaysWhatCannotBe) {
  const GpuProbe none{false, 0}, two{true, 2};
  for (const char* name : {"cuda", "cuda:1", "cuda:all", "cuda:0,cuda:1"}) {
    const absl::Status status = ResolveDevices(name, none).status();
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << name;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("finds no GPU here; \"auto\" and \"cpu\" train without"));
  }
  const GpuProbe broken{false, 0, "libcudnn.so.9: cannot open shared object file"};
  EXPECT_THAT(std::string(ResolveDevices("cuda", broken).status().message()),
              HasSubstr("no GPU here: libcudnn.so.9: cannot open shared object file; \"auto\""));
  EXPECT_EQ(ResolveDevices("cuda:2", two).status().message(),
            "[worker] device is \"cuda:2\", and this machine has 2 GPUs, the last of them cuda:1");
  EXPECT_EQ(ResolveDevices("cuda:0,cuda:5", two).status().message(),
            "[worker] device is \"cuda:0,cuda:5\", and this machine has 2 GPUs, the last of them "
            "cuda:1");
  const std::string wanted =
      "; it must be \"auto\", \"cpu\", \"cuda\", \"cuda:N\", \"cuda:all\", or a list of different "
      "GPUs "
      "or of \"cpu\" with commas between";
  EXPECT_EQ(
      ResolveDevices("mps", two).status().message(),
      "--device is \"mps\", and atoll-worker does not train on Apple's GPU; only workers in "
      "Python do, for models of kinds \"huggingface\" and \"external\". Set [worker] device to "
      "\"auto\" or \"cpu\"");
  const struct {
    const char* names;
    const char* why;
  } cases[] = {{"", ""},
               {"gpu", ""},
               {"cuda:", ""},
               {"cuda:x", ""},
               {"cuda:-1", ""},
               {"cpu,", ""},
               {"cpu,auto", ""},
               {"cpu,mps", ""},
               {"cuda:1,cuda:all", ""},
               {"cuda,cuda:0", ", which names cuda:0 twice"},
               {"cpu,cuda:1", ": each step would wait for the CPU"},
               {"cuda:1,cpu", ": each step would wait for the CPU"}};
  for (const auto& one : cases) {
    const absl::Status status = ResolveDevices(one.names, two).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << one.names;
    EXPECT_EQ(status.message(),
              std::string("--device is \"") + one.names + "\"" + one.why + wanted);
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
