#include "daemon/env/value_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/unit/daemon/env/temporary_directory.h"

namespace atolld {
namespace {

// The resident bytes of this process that belong to files, also to those of a file system in
// memory.
int64_t ResidentOfFiles() {
  std::ifstream status("/proc/self/status");
  std::string line;
  int64_t bytes = 0;
  while (std::getline(status, line)) {
    const bool counts = line.rfind("RssFile:", 0) == 0 || line.rfind("RssShmem:", 0) == 0;
    if (counts) bytes += std::stoll(line.substr(line.find(':') + 1)) * 1024;
  }
  return bytes;
}

// Would break: a state in files would lose what it learned as soon as its memory is wanted back, or
// would take as much memory as one without files.
TEST(ValueMemoryTest, ValuesInAFileAreKeptAndNeedNotBeResident) {
  constexpr uint64_t kElements = 8 << 20;
  const TemporaryDirectory directory;
  const auto memory = ValueMemory::Make(kElements, directory.path());
  ASSERT_TRUE(memory.ok()) << memory.status();
  const absl::Span<float> values = (*memory)->values();
  ASSERT_EQ(values.size(), kElements);
  EXPECT_EQ(values[kElements - 1], 0);
  const int64_t before = ResidentOfFiles();
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 1000);
  const int64_t written = ResidentOfFiles();
  EXPECT_GT(written - before, int64_t{kElements} * 3);
  (*memory)->Release();
  EXPECT_LT(ResidentOfFiles() - before, int64_t{kElements});
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(values[i], static_cast<float>(i % 1000)) << i;
  }
  EXPECT_TRUE(std::filesystem::is_empty(directory.path())) << "the file has no name";
}

// Would break: without a folder, Release would set the values to zero.
TEST(ValueMemoryTest, ValuesInMemoryAreKept) {
  const auto memory = ValueMemory::Make(5000, "");
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_EQ((*memory)->values()[4999], 0);
  (*memory)->values()[4999] = 2.5f;
  (*memory)->Release();
  EXPECT_EQ((*memory)->values()[4999], 2.5f);
}

// Would break: a disk without room would be a signal in the middle of a step, and the owner would
// not learn which folder is meant.
TEST(ValueMemoryTest, NamesTheFolderThatHasNoRoom) {
  const TemporaryDirectory directory;
  const auto huge = ValueMemory::Make(uint64_t{1} << 50, directory.path());
  EXPECT_TRUE(absl::IsResourceExhausted(huge.status())) << huge.status();
  EXPECT_THAT(std::string(huge.status().message()), testing::HasSubstr(directory.path()));
  const auto nowhere = ValueMemory::Make(5, directory.path() + "/no-folder");
  EXPECT_TRUE(absl::IsResourceExhausted(nowhere.status())) << nowhere.status();
  EXPECT_THAT(std::string(nowhere.status().message()), testing::HasSubstr("no-folder"));
}

}  // namespace
}  // namespace atolld
