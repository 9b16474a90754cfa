#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include "atoll/v1/exchange.pb.h"
#include "atoll/v1/membership.pb.h"
#include "daemon/env/env.h"
#include "daemon/env/posix_files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/daemon/env/temporary_directory.h"

namespace {

// What was synced, where a test looks; this program's fsync comes before the system's.
std::vector<std::string>* synced_paths = nullptr;

}  // namespace

extern "C" int fsync(int fd) {
  if (synced_paths != nullptr) {
    synced_paths->push_back(
        std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(fd)).string());
  }
  return static_cast<int>(syscall(SYS_fsync, fd));
}

namespace atolld {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::Span<const uint8_t> Bytes(const std::string& text) {
  return absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(text.data()), text.size());
}

std::string MessageOf(const absl::Status& status) { return std::string(status.message()); }

class PosixFilesTest : public ::testing::Test {
 protected:
  void Put(const std::string& path, const std::string& text) {
    auto file = files_.Create(path);
    ASSERT_TRUE(file.ok()) << file.status();
    ASSERT_TRUE((*file)->Append(Bytes(text)).ok());
    ASSERT_TRUE((*file)->Sync().ok());
  }
  std::string Get(const std::string& path) {
    auto text = ReadFile(files_, path, 1 << 20);
    EXPECT_TRUE(text.ok()) << text.status();
    return text.ok() ? *text : "";
  }

  TemporaryDirectory directory_;
  PosixFiles files_;
};

// A log that does not come back as it was written is no log.
TEST_F(PosixFilesTest, ReadsBackWhatWasWritten) {
  const std::string path = directory_.File("a");
  Put(path, "first ");
  auto file = files_.OpenToAppend(path);
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE((*file)->Append(Bytes("second")).ok());
  EXPECT_EQ(Get(path), "first second");
  ASSERT_TRUE(files_.Truncate(path, 5).ok());
  EXPECT_EQ(Get(path), "first");
  Put(path, "");
  EXPECT_EQ(Get(path), "");
}

// A read past the end must fail, never give a short or stale buffer.
TEST_F(PosixFilesTest, ReadAtFillsAllOrFails) {
  const std::string path = directory_.File("a");
  Put(path, "0123456789");
  auto file = files_.OpenToRead(path);
  ASSERT_TRUE(file.ok());
  EXPECT_EQ((*file)->size(), 10u);
  std::vector<uint8_t> out(4);
  ASSERT_TRUE((*file)->ReadAt(3, absl::MakeSpan(out)).ok());
  EXPECT_EQ(std::string(out.begin(), out.end()), "3456");
  const absl::Status past = (*file)->ReadAt(8, absl::MakeSpan(out));
  EXPECT_EQ(past.code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(MessageOf(past), HasSubstr(path));
}

// An error that does not name the file cannot be mended by an operator.
TEST_F(PosixFilesTest, ErrorsNameThePathAndTheReason) {
  const std::string missing = directory_.File("missing/file");
  EXPECT_EQ(files_.OpenToRead(missing).status().code(), absl::StatusCode::kNotFound);
  const absl::Status create = files_.Create(missing).status();
  EXPECT_EQ(create.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(MessageOf(create), HasSubstr(missing));
  EXPECT_THAT(MessageOf(create), HasSubstr("No such file or directory"));
  EXPECT_EQ(files_.Rename(missing, directory_.File("b")).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(files_.Truncate(missing, 0).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(files_.List(missing).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(files_.SyncDirectory(missing).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(files_.OpenToRead(directory_.path()).status().code(), absl::StatusCode::kUnknown);
  for (const int error : {EACCES, EPERM, EROFS}) {
    EXPECT_EQ(ErrnoStatus(error, "a", "b").code(), absl::StatusCode::kPermissionDenied);
  }
  EXPECT_EQ(ErrnoStatus(EDQUOT, "a", "b").code(), absl::StatusCode::kResourceExhausted);
}

// A full disk is the operator's to mend and must be told apart from other failures.
TEST_F(PosixFilesTest, AFullDiskIsResourceExhausted) {
  auto file = files_.OpenToAppend("/dev/full");
  ASSERT_TRUE(file.ok()) << file.status();
  const absl::Status status = (*file)->Append(Bytes("x"));
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(MessageOf(status), HasSubstr("/dev/full: cannot write: No space left on device"));
}

// After a failed fsync a retry would report success for lost bytes.
TEST_F(PosixFilesTest, AFailedSyncEndsTheProcess) {
  auto file = files_.OpenToAppend("/dev/full");  // a device has nothing to sync: the call fails
  ASSERT_TRUE(file.ok());
  EXPECT_DEATH((*file)->Sync().IgnoreError(), "/dev/full: fsync failed");
}

// Start-up makes its folders, again at each start.
TEST_F(PosixFilesTest, MakesDirectoriesAndListsNames) {
  const std::string deep = directory_.File("x/y/z");
  ASSERT_TRUE(files_.MakeDirectories(deep).ok());
  ASSERT_TRUE(files_.MakeDirectories(deep + "/").ok());
  Put(deep + "/b", "");
  Put(deep + "/a", "");
  ASSERT_TRUE(files_.SyncDirectory(deep).ok());
  auto names = files_.List(deep);
  ASSERT_TRUE(names.ok());
  EXPECT_THAT(*names, ElementsAre("a", "b"));
  EXPECT_TRUE(files_.Exists(deep + "/a"));
  ASSERT_TRUE(files_.Remove(deep + "/a").ok());
  ASSERT_TRUE(files_.Remove(deep + "/a").ok());
  EXPECT_FALSE(files_.Exists(deep + "/a"));
  const absl::Status over_file = files_.MakeDirectories(deep + "/b/c");
  EXPECT_FALSE(over_file.ok());
  EXPECT_THAT(MessageOf(over_file), HasSubstr(deep + "/b"));
  EXPECT_FALSE(files_.MakeDirectories(deep + "/b").ok());
}

// Would break: a vote is sent, the power goes, and the folder that held the entry is not there.
TEST_F(PosixFilesTest, ADirectoryThatItMakesIsDurable) {
  const std::string home = std::filesystem::canonical(directory_.path()).string();
  std::vector<std::string> synced;
  synced_paths = &synced;
  const absl::Status made = files_.MakeDirectories(home + "/x/y");
  const std::vector<std::string> first = synced;
  synced.clear();
  const absl::Status again = files_.MakeDirectories(home + "/x/y");
  synced_paths = nullptr;
  EXPECT_TRUE(made.ok() && again.ok()) << made << again;
  EXPECT_THAT(first, ElementsAre(home, home + "/x"));
  EXPECT_TRUE(synced.empty());
}

// A reader of somebody else's file must not be made to allocate what it does not want.
TEST_F(PosixFilesTest, ReadFileKeepsItsLimit) {
  const std::string path = directory_.File("a");
  Put(path, "0123456789");
  EXPECT_EQ(*ReadFile(files_, path, 10), "0123456789");
  EXPECT_EQ(ReadFile(files_, path, 9).status().code(), absl::StatusCode::kResourceExhausted);
}

// A crash in the middle must leave the old content whole, and nothing half-made may stay behind.
TEST_F(PosixFilesTest, WriteFileDurablyReplacesWhole) {
  const std::string path = directory_.File("a");
  ASSERT_TRUE(WriteFileDurably(files_, path, Bytes("old")).ok());
  ASSERT_TRUE(WriteFileDurably(files_, path, Bytes("new")).ok());
  EXPECT_EQ(Get(path), "new");
  EXPECT_THAT(*files_.List(directory_.path()), ElementsAre("a"));
  EXPECT_EQ(WriteFileDurably(files_, directory_.File("no/b"), Bytes("x")).code(),
            absl::StatusCode::kNotFound);
  ASSERT_TRUE(files_.MakeDirectories(directory_.File("taken")).ok());
  EXPECT_FALSE(WriteFileDurably(files_, directory_.File("taken"), Bytes("x")).ok());
  EXPECT_THAT(*files_.List(directory_.path()), ElementsAre("a", "taken"));
}

// A partial write (here: a file-size limit in the middle) must be an error, never a silent short
// file.
TEST_F(PosixFilesTest, AShortWriteIsAnError) {
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small = {1000, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string path = directory_.File("a");
  auto file = files_.Create(path);
  const absl::Status status =
      file.ok() ? (*file)->Append(Bytes(std::string(1500, 'x'))) : file.status();
  const absl::Status durable = WriteFileDurably(files_, path, Bytes(std::string(1500, 'y')));
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_FALSE(status.ok());
  EXPECT_FALSE(durable.ok());
  EXPECT_EQ(Get(path), std::string(1000, 'x'));
  EXPECT_THAT(*files_.List(directory_.path()), ElementsAre("a"));
}

// Every message between processes goes through these two.
TEST(Pack, CarriesMessageAndPayload) {
  v1::ToReducer message;
  message.mutable_chunk()->set_chunk(7);
  const Frame frame = Pack(message, SharedBytes(std::string("bulk")));
  EXPECT_EQ(frame.payload.Joined().str(), "bulk");
  v1::ToReducer back;
  ASSERT_TRUE(Unpack(frame, &back).ok());
  EXPECT_EQ(back.chunk().chunk(), 7u);
  EXPECT_TRUE(back.payload().empty());
}

// A stranger's bytes must give an error that says what was expected.
TEST(Unpack, RefusesOtherBytes) {
  Frame frame;
  frame.message = "\xff\xff\xff";
  v1::PeerMessage message;
  const absl::Status status = Unpack(frame, &message);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(MessageOf(status), HasSubstr("atolld.v1.PeerMessage"));
}

// A few hundred kilobytes of nested groups must not exhaust the stack.
TEST(Unpack, RefusesDeepNesting) {
  const auto nested = [](size_t depth) {
    const std::string groups = std::string(depth, '\x0b') + std::string(depth, '\x0c');
    Frame frame;
    frame.message = "\x0a";  // field 1, by its length
    size_t length = groups.size();
    for (; length > 127; length >>= 7) {
      frame.message.push_back(static_cast<char>((length & 127) | 128));
    }
    frame.message.push_back(static_cast<char>(length));
    frame.message += groups;
    v1::PeerMessage message;
    return Unpack(frame, &message);
  };
  EXPECT_TRUE(nested(20).ok());
  EXPECT_EQ(nested(100000).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace atolld
