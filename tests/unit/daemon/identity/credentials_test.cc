// Would break: a process that starts with a key that others can read or with a certificate that is
// not its own, or that loses its identity in a crash.
#include "daemon/identity/credentials.h"

#include <sys/stat.h>

#include <memory>
#include <string>

#include "daemon/env/posix_files.h"
#include "gmock/gmock.h"
#include "tests/unit/daemon/env/temporary_directory.h"
#include "tests/unit/daemon/replica/state/crash_files.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

const absl::Time kToday = absl::FromUnixSeconds(1800000000);

class CredentialsTest : public ::testing::Test {
 protected:
  std::unique_ptr<Authority> MakeAuthority() {
    return Authority::Make("run-1", kToday, [this] { return ++drawn_ * 0x9e3779b97f4a7c15u; })
        .value();
  }

  const TemporaryDirectory directory_;
  PosixFiles files_;
  uint64_t drawn_ = 0;
  std::unique_ptr<Authority> authority_ = MakeAuthority();
  const std::string folder_ = directory_.File("identity");
};

TEST_F(CredentialsTest, AreMadeOnceAndLoaded) {
  ASSERT_TRUE(EnsureCredentials(files_, *authority_, folder_, Role::kPeer, "p1", kToday).ok());
  Credentials first;
  const auto info = LoadCredentials(files_, folder_, kToday, &first);
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ("p1", info->identity.id);
  struct stat about = {};
  ASSERT_EQ(0, stat(KeyFile(folder_).c_str(), &about));
  EXPECT_EQ(0600u, about.st_mode & 0777u);

  Credentials again;
  ASSERT_TRUE(EnsureCredentials(files_, *authority_, folder_, Role::kPeer, "p1", kToday).ok());
  ASSERT_TRUE(LoadCredentials(files_, folder_, kToday, &again).ok());
  EXPECT_EQ(first.certificate, again.certificate);
  // Due, or somebody else's.
  const absl::Time due = kToday + absl::Hours(24 * 61);
  ASSERT_TRUE(EnsureCredentials(files_, *authority_, folder_, Role::kPeer, "p1", due).ok());
  ASSERT_TRUE(LoadCredentials(files_, folder_, due, &again).ok());
  EXPECT_NE(first.certificate, again.certificate);
  const auto other = MakeAuthority();
  ASSERT_TRUE(EnsureCredentials(files_, *other, folder_, Role::kPeer, "p1", due).ok());
  ASSERT_TRUE(LoadCredentials(files_, folder_, due, &again).ok());
  EXPECT_EQ(other->certificate(), again.authority);
}

// Broken: a key that was signed by hand can be neither seen nor revoked until it is used.
TEST_F(CredentialsTest, WhatIsSignedByHandIsNotedWithTheAuthority) {
  const std::string place = directory_.File("authority");
  const auto opened = Authority::Open(files_, place, "run-1", kToday,
                                      [this] { return ++drawn_ * 0x9e3779b97f4a7c15u; });
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ(place, (*opened)->folder());
  EXPECT_TRUE(ReadIssued(files_, place).empty());
  for (int again = 0; again < 2; ++again) {  // the second time nothing is signed
    ASSERT_TRUE(EnsureCredentials(files_, **opened, folder_, Role::kAdmin, "anna", kToday).ok());
  }
  const CertificateInfo made = *LoadCredentials(files_, folder_, kToday);
  std::vector<CertificateInfo> issued = ReadIssued(files_, place);
  ASSERT_EQ(1u, issued.size());
  EXPECT_EQ(made.identity.serial, issued[0].identity.serial);
  EXPECT_EQ(made.key_digest, issued[0].key_digest);
  EXPECT_EQ(Role::kAdmin, issued[0].identity.role);
  // What is no certificate names nobody.
  ASSERT_TRUE(WriteFileDurably(files_, place + "/issued/x.pem", BytesOf("nonsense")).ok());
  EXPECT_EQ(1u, ReadIssued(files_, place).size());
  ForgetIssued(files_, place, made.not_after - absl::Seconds(1));
  EXPECT_EQ(1u, ReadIssued(files_, place).size());
  ForgetIssued(files_, place, made.not_after + absl::Seconds(1));
  EXPECT_TRUE(ReadIssued(files_, place).empty());
  // An authority without a folder notes nothing.
  EXPECT_TRUE(NoteIssued(files_, *authority_, made.identity.serial).ok());
}

TEST_F(CredentialsTest, WhatIsWrongIsNamed) {
  EXPECT_TRUE(absl::IsNotFound(LoadCredentials(files_, folder_, kToday).status()));
  const Credentials mine = MakeCredentials(*authority_, Role::kPeer, "p1", kToday).value();
  const Credentials yours = MakeCredentials(*authority_, Role::kPeer, "p2", kToday).value();
  const Credentials foreign = MakeCredentials(*MakeAuthority(), Role::kPeer, "p1", kToday).value();
  ASSERT_TRUE(SaveCredentials(files_, folder_, mine).ok());
  EXPECT_TRUE(absl::IsPermissionDenied(
      LoadCredentials(files_, folder_, kToday + absl::Hours(24 * 91)).status()));
  ASSERT_EQ(0, chmod(KeyFile(folder_).c_str(), 0644));
  const auto readable = LoadCredentials(files_, folder_, kToday);
  EXPECT_TRUE(absl::IsFailedPrecondition(readable.status()));
  EXPECT_THAT(std::string(readable.status().message()), HasSubstr("chmod 600"));
  // Not silently replaced either: it may have been read.
  EXPECT_TRUE(absl::IsFailedPrecondition(
      EnsureCredentials(files_, *authority_, folder_, Role::kPeer, "p1", kToday)));

  const struct {
    Credentials credentials;
    const char* what;
  } cases[] = {
      {{mine.authority, yours.certificate, mine.key}, "the key is not the certificate's"},
      {{mine.authority, foreign.certificate, foreign.key}, "not signed by this authority"},
      {{mine.authority, mine.certificate, "x"}, "not a private key"},
      {{mine.authority, "x", mine.key}, "not a certificate"},
      {{mine.authority, mine.authority, mine.key}, "the key is not the certificate's"},
  };
  for (const auto& one : cases) {
    ASSERT_TRUE(SaveCredentials(files_, folder_, one.credentials).ok());
    const auto loaded = LoadCredentials(files_, folder_, kToday);
    EXPECT_TRUE(absl::IsInvalidArgument(loaded.status()));
    EXPECT_THAT(std::string(loaded.status().message()), HasSubstr(one.what));
    EXPECT_THAT(std::string(loaded.status().message()), HasSubstr(folder_));
  }
}

TEST_F(CredentialsTest, ACrashLeavesAllOrNothing) {
  const Credentials mine = MakeCredentials(*authority_, Role::kPeer, "p1", kToday).value();
  for (uint64_t allowed = 0;; ++allowed) {
    const std::string folder = directory_.File(absl::StrCat("crash-", allowed));
    CrashFiles crashing(files_, allowed, /*torn=*/true);
    const bool saved = SaveCredentials(crashing, folder, mine).ok();
    const auto loaded = LoadCredentials(files_, folder, kToday);
    EXPECT_TRUE(loaded.ok() || absl::IsNotFound(loaded.status())) << loaded.status();
    if (saved) {
      ASSERT_TRUE(loaded.ok());
      break;
    }
    ASSERT_TRUE(EnsureCredentials(files_, *authority_, folder, Role::kPeer, "p1", kToday).ok());
    EXPECT_TRUE(LoadCredentials(files_, folder, kToday).ok());
  }
}

// Would break: a coordinator that goes on with a run whose key is gone would sign with a key that
// nobody believes, or would not say what is missing.
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

// Would break: a history or an update that anybody on the machine can sign, a key that is silently
// replaced by another, or one that a crash leaves half written.
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
