// Would break: a coordinator that goes on with a run whose key is gone would sign with a key that
// nobody believes, or would not say what is missing.
#include "daemon/identity/cluster.h"

#include <string>

#include "daemon/env/posix_files.h"
#include "gmock/gmock.h"
#include "tests/unit/daemon/env/temporary_directory.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

TEST(HistoryKeyFileTest, IsMadeForANewRunAlone) {
  const TemporaryDirectory directory;
  PosixFiles files;
  const std::string path = directory.path() + "/authority/history_key.pem";
  const auto lost = OpenHistoryKey(files, directory.path(), /*make=*/false);
  EXPECT_TRUE(absl::IsFailedPrecondition(lost.status()));
  EXPECT_THAT(std::string(lost.status().message()), HasSubstr(path));
  EXPECT_FALSE(files.Exists(path));
  const auto made = OpenHistoryKey(files, directory.path(), /*make=*/true);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_TRUE(*files.IsPrivate(path));
  for (const bool make : {false, true}) {
    const auto again = OpenHistoryKey(files, directory.path(), make);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(made->public_key(), again->public_key());
  }
}

}  // namespace
}  // namespace atolld
