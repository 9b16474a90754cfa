#include "worker/base/file_io.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace atolld
