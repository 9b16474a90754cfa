// Would break: a history or an update that anybody on the machine can sign, a key that is silently
// replaced by another, or one that a crash leaves half written.
#include "daemon/identity/signing_key_file.h"

#include <sys/stat.h>

#include <string>

#include "daemon/env/posix_files.h"
#include "daemon/identity/private_key.h"
#include "gmock/gmock.h"
#include "tests/unit/daemon/env/temporary_directory.h"
#include "tests/unit/daemon/replica/state/crash_files.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

class SigningKeyFileTest : public ::testing::Test {
 protected:
  const TemporaryDirectory directory_;
  PosixFiles files_;
  const std::string path_ = directory_.File("keys") + "/history_key.pem";
};

TEST_F(SigningKeyFileTest, IsMadeOnceForItsOwnerAlone) {
  EXPECT_TRUE(absl::IsNotFound(LoadSigningKey(files_, path_).status()));
  const auto made = EnsureSigningKey(files_, path_);
  ASSERT_TRUE(made.ok()) << made.status();
  struct stat about = {};
  ASSERT_EQ(0, stat(path_.c_str(), &about));
  EXPECT_EQ(0600u, about.st_mode & 0777u);
  const auto again = EnsureSigningKey(files_, path_);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(made->public_key(), again->public_key());
}

TEST_F(SigningKeyFileTest, WhatIsWrongIsNamedAndNeverReplaced) {
  ASSERT_TRUE(EnsureSigningKey(files_, path_).ok());
  for (const mode_t mode : {0644, 0640, 0602, 0610}) {
    ASSERT_EQ(0, chmod(path_.c_str(), mode));
    const auto readable = EnsureSigningKey(files_, path_);
    EXPECT_TRUE(absl::IsFailedPrecondition(readable.status())) << mode;
    EXPECT_THAT(std::string(readable.status().message()), HasSubstr("chmod 600"));
    EXPECT_THAT(std::string(readable.status().message()), HasSubstr(path_));
  }
  const std::string other = PrivateKey::Generate()->ToPem().value();
  for (const std::string& text : {std::string("x"), other}) {
    ASSERT_TRUE(WriteSecretDurably(files_, path_, BytesOf(text)).ok());
    const auto damaged = EnsureSigningKey(files_, path_);
    EXPECT_TRUE(absl::IsInvalidArgument(damaged.status()));
    EXPECT_THAT(std::string(damaged.status().message()), HasSubstr(path_));
  }
}

TEST_F(SigningKeyFileTest, ACrashLeavesAKeyOrNone) {
  for (uint64_t allowed = 0;; ++allowed) {
    const std::string path = directory_.File(absl::StrCat("crash-", allowed)) + "/key.pem";
    CrashFiles crashing(files_, allowed, /*torn=*/true);
    const bool made = EnsureSigningKey(crashing, path).ok();
    const auto loaded = LoadSigningKey(files_, path);
    EXPECT_TRUE(loaded.ok() || absl::IsNotFound(loaded.status())) << loaded.status();
    if (made) {
      ASSERT_TRUE(loaded.ok());
      break;
    }
    EXPECT_TRUE(EnsureSigningKey(files_, path).ok());
  }
}

}  // namespace
}  // namespace atolld
