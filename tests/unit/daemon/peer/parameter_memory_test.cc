#include "daemon/peer/parameter_memory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/unit/daemon/env/temporary_directory.h"

namespace atolld {
namespace {

// Broken: a worker that opens the mapping by its path would read or write other memory than the
// daemon's.
TEST(ParameterMemoryTest, IsSharedThroughItsPath) {
  const auto memory = ParameterMemory::Create(5000);
  ASSERT_TRUE(memory.ok()) << memory.status();
  (*memory)->theta()[4999] = 2.5f;
  const int file = open((*memory)->path().c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(file, 0);
  float value = 0;
  ASSERT_EQ(pread(file, &value, sizeof value,
                  static_cast<off_t>((*memory)->theta_offset() + 4999 * sizeof value)),
            static_cast<ssize_t>(sizeof value));
  EXPECT_EQ(value, 2.5f);
  value = -1;
  ASSERT_EQ(pwrite(file, &value, sizeof value, static_cast<off_t>((*memory)->update_offset())),
            static_cast<ssize_t>(sizeof value));
  EXPECT_EQ((*memory)->update()[0], -1.0f);
  (*memory)->control()[4999] = 7.0f;
  ASSERT_EQ(pread(file, &value, sizeof value,
                  static_cast<off_t>((*memory)->control_offset() + 4999 * sizeof value)),
            static_cast<ssize_t>(sizeof value));
  EXPECT_EQ(value, 7.0f);
  (*memory)->guess()[4999] = 8.0f;
  ASSERT_EQ(pread(file, &value, sizeof value,
                  static_cast<off_t>((*memory)->guess_offset() + 4999 * sizeof value)),
            static_cast<ssize_t>(sizeof value));
  EXPECT_EQ(value, 8.0f);
  close(file);
}

// Broken: the worker that was started with the memory would look at other memory than the daemon's.
TEST(ParameterMemoryTest, IsMadeOfTheFileThatTheWorkerHas) {
  const std::shared_ptr<MemoryFile> file = *MemoryFile::Make();
  const auto memory = ParameterMemory::Create(5000, file);
  ASSERT_TRUE(memory.ok()) << memory.status();
  (*memory)->theta()[4999] = 2.5f;
  float value = 0;
  ASSERT_EQ(pread(file->fd(), &value, sizeof value,
                  static_cast<off_t>((*memory)->theta_offset() + 4999 * sizeof value)),
            static_cast<ssize_t>(sizeof value));
  EXPECT_EQ(value, 2.5f);
}

// Broken: with values on the disk, what the worker hands over would be lost between its writing and
// the daemon's reading, or would fill memory that is meant for training.
TEST(ParameterMemoryTest, OnADiskSlotsKeepTheirValues) {
  const TemporaryDirectory folder;
  const std::shared_ptr<MemoryFile> file = *MemoryFile::Make(folder.path());
  EXPECT_TRUE(file->on_disk());
  const auto memory = ParameterMemory::Create(5000, file);
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_TRUE((*memory)->NeedControl().ok());
  EXPECT_TRUE((*memory)->NeedGuess().ok());
  (*memory)->theta()[4999] = 2.5f;
  (*memory)->guess()[0] = 3.5f;
  const float update = 4.5f;
  ASSERT_EQ(
      pwrite(file->fd(), &update, sizeof update, static_cast<off_t>((*memory)->update_offset())),
      static_cast<ssize_t>(sizeof update));
  (*memory)->Release();
  EXPECT_EQ((*memory)->theta()[4999], 2.5f);
  EXPECT_EQ((*memory)->update()[0], 4.5f);
  EXPECT_EQ((*memory)->guess()[0], 3.5f);
  EXPECT_FALSE(MemoryFile::Make("/no/such/folder").ok());
}

// Broken: a model of no or of absurdly many parameters would end in a crash.
TEST(ParameterMemoryTest, RefusesAbsurdSizes) {
  EXPECT_EQ(ParameterMemory::Create(0).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ParameterMemory::Create(uint64_t{1} << 50).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace atolld
