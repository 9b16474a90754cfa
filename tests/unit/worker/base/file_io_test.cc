#include "worker/base/file_io.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/unit/worker/training/fixtures.h"

namespace atolld {
namespace {

// Broken: a corpus that is replaced while a worker reads it would kill the worker without a word of
// which file it was.
TEST(FileIoTest, AFileThatIsCutShortWhileItIsReadIsNamed) {
  const TemporaryFolder folder;
  std::ofstream(folder / "a.bin") << std::string(1 << 16, 'x');
  std::ofstream(folder / "b.bin") << std::string(1 << 16, 'x');
  const auto read = [&] {
    NameTruncatedFiles();
    auto gone = MappedFile::Open(folder / "b.bin");
    gone = MappedFile::Open(folder / "a.bin");  // the place of the other is free again
    const auto mapped = MappedFile::Open(folder / "b.bin");
    const auto moved = MappedFile::Open(folder / "a.bin");
    std::filesystem::resize_file(folder / "b.bin", 100);
    volatile uint8_t last = mapped->bytes()[(1 << 16) - 1];
    static_cast<void>(last);
  };
  EXPECT_EXIT(read(), testing::ExitedWithCode(1), "b.bin was cut short, or its disk failed");
}

// Broken: what could not be written would lie beside what it was for, and fill the disk for good.
TEST(FileIoTest, NothingStaysOfAFileThatCouldNotBeWritten) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "taken/x");
  const std::string text = "x";
  const absl::Span<const uint8_t> parts[] = {
      AsBytes(absl::MakeConstSpan(text.data(), text.size()))};
  EXPECT_FALSE(WriteFileDurably(folder / "taken", parts).ok());
  EXPECT_FALSE(std::filesystem::exists(folder / "taken.new"));
  EXPECT_TRUE(WriteFileDurably(folder / "free", parts).ok());
}

// Broken: a model whose stream broke off would be taken for one of zeros.
TEST(FileIoTest, AStreamThatEndsEarlyIsSaid) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const uint64_t written[] = {7, 8};
  ASSERT_EQ(::write(ends[1], written, 12), 12);
  ::close(ends[1]);
  uint64_t value = 0;
  ASSERT_TRUE(ReadExactly(ends[0], "it", absl::MakeSpan(&value, 1)).ok());
  EXPECT_EQ(value, 7u);
  const absl::Status status = ReadExactly(ends[0], "it", absl::MakeSpan(&value, 1));
  EXPECT_EQ(status, absl::DataLossError("it ends after 4 of 8 bytes"));
  ::close(ends[0]);
}

}  // namespace
}  // namespace atolld
