#include "worker/base/link.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/unit/worker/training/fixtures.h"
#include "worker/base/file_io.h"

namespace atolld {
namespace {

Event Train(uint64_t version) {
  Event event;
  event.message.mutable_train()->set_version(version);
  return event;
}

// Broken: the worker would act on messages in another order than the daemon sent them.
TEST(InboxTest, KeepsTheOrderAcrossThreads) {
  Inbox inbox;
  EXPECT_FALSE(inbox.TryTake().has_value());
  std::thread reader([&] {
    for (uint64_t i = 0; i < 100; ++i) inbox.Push(Train(i));
  });
  for (uint64_t i = 0; i < 100; ++i) EXPECT_EQ(inbox.Take().message.train().version(), i);
  reader.join();
  EXPECT_FALSE(inbox.TryTake().has_value());
}

// Broken: a stop that waits behind an evaluation would wait until it is done.
TEST(InboxTest, EndingIsSeenBeforeItIsTaken) {
  for (const int what : {0, 1, 2}) {
    Inbox inbox;
    inbox.Push(Train(1));
    EXPECT_FALSE(inbox.Ending());
    Event event;
    if (what == 0) event.message.mutable_stop();
    if (what == 1) event.kind = Event::Kind::kClosed;
    if (what == 2) event.kind = Event::Kind::kTerminated;
    inbox.Push(event);
    EXPECT_TRUE(inbox.Ending());
    EXPECT_EQ(inbox.Take().message.train().version(), 1u);
  }
}

}  // namespace

namespace {

using ::testing::HasSubstr;

class SlotsTest : public ::testing::Test {
 protected:
  SlotsTest() {
    std::ofstream(folder_ / "memory", std::ios::binary) << std::string(2 * 4096, '\0');
    request_.set_path(folder_ / "memory");
    request_.set_elements(1024);
    request_.set_theta_offset(0);
    request_.set_update_offset(4096);
  }

  std::string Error() { return std::string(Slots::Map(request_, 1024).status().message()); }

  const TemporaryFolder folder_;
  v1::MapMemory request_;
};

// Broken: a daemon with capabilities, or of another user, could hand its worker no memory, since
// nobody else may open what /proc says of it.
TEST_F(SlotsTest, MapsTheMemoryThatTheProcessWasStartedWith) {
  const int file = ::open((folder_ / "memory").c_str(), O_RDWR);
  struct stat info = {};
  ASSERT_EQ(0, ::fstat(file, &info));
  const auto told = [&](uint64_t inode) {
    return absl::StrCat(file, ":", info.st_dev, ":", inode);
  };
  request_.set_path("/proc/1/fd/no-such");
  ::setenv("ATOLL_MEMORY", told(info.st_ino).c_str(), 1);
  const auto slots = Slots::Map(request_, 1024);
  ASSERT_TRUE(slots.ok()) << slots.status();
  (*slots)->update()[0] = 2.5f;
  EXPECT_EQ(2.5f, (*ReadFloats(folder_ / "memory", 4096, 1024))[0]);
  // Another file has the number by now, or none: the path counts.
  for (const std::string& other :
       {told(info.st_ino + 1), std::string("900:1:2"), std::string("3"), std::string("x:y:z")}) {
    ::setenv("ATOLL_MEMORY", other.c_str(), 1);
    EXPECT_THAT(Error(), HasSubstr("open /proc/1/fd/no-such")) << other;
  }
  ::unsetenv("ATOLL_MEMORY");
  ::close(file);
}

// Broken: parameters would be read from or written to the wrong place of the shared memory.
TEST_F(SlotsTest, MapsEachSlotAtItsOffset) {
  const auto slots = Slots::Map(request_, 1024);
  ASSERT_TRUE(slots.ok()) << slots.status();
  (*slots)->update()[0] = 2.5f;
  (*slots)->update()[1023] = 3.5f;
  const auto values = ReadFloats(folder_ / "memory", 4096, 1024);
  ASSERT_TRUE(values.ok());
  EXPECT_EQ((*values)[0], 2.5f);
  EXPECT_EQ((*values)[1023], 3.5f);
  EXPECT_EQ((*slots)->theta().data(), (*slots)->update().data() - 1024);
}

// Broken: the common control variate would be read from another slot, or an ordinary run would seem
// to have one.
TEST_F(SlotsTest, ControlVariatesHaveASlotOfTheirOwn) {
  EXPECT_TRUE((*Slots::Map(request_, 1024))->control().empty());
  request_.set_control_offset(4096);
  EXPECT_THAT(Error(), HasSubstr("overlap"));
  request_.set_control_offset(8192);
  EXPECT_THAT(Error(), HasSubstr("ends after the file's"));
  std::filesystem::resize_file(folder_ / "memory", 3 * 4096);
  const auto slots = Slots::Map(request_, 1024);
  ASSERT_TRUE(slots.ok()) << slots.status();
  EXPECT_EQ((*slots)->control().data(), (*slots)->theta().data() + 2048);
  EXPECT_EQ((*slots)->control().size(), 1024u);
}

// Broken: a training would start from another slot than the daemon's guess, or an ordinary run
// would seem to have one.
TEST_F(SlotsTest, AGuessHasASlotOfItsOwn) {
  EXPECT_TRUE((*Slots::Map(request_, 1024))->guess().empty());
  request_.set_guess_offset(4096);
  EXPECT_THAT(Error(), HasSubstr("overlap"));
  request_.set_guess_offset(8192);
  EXPECT_THAT(Error(), HasSubstr("ends after the file's"));
  std::filesystem::resize_file(folder_ / "memory", 3 * 4096);
  const auto slots = Slots::Map(request_, 1024);
  ASSERT_TRUE(slots.ok()) << slots.status();
  EXPECT_EQ((*slots)->guess().data(), (*slots)->theta().data() + 2048);
  EXPECT_EQ((*slots)->guess().size(), 1024u);
}

// Broken: a wrong request would end in a bus error instead of a message.
TEST_F(SlotsTest, RefusesWhatDoesNotFit) {
  request_.set_elements(1000);
  EXPECT_THAT(Error(), HasSubstr("slots of 1000 values; the model has 1024"));
  request_.set_elements(1024);
  request_.set_update_offset(4000);
  EXPECT_THAT(Error(), HasSubstr("inside a page"));
  request_.set_update_offset(12288);
  EXPECT_THAT(Error(), HasSubstr("ends after the file's"));
  request_.set_update_offset(0);
  EXPECT_THAT(Error(), HasSubstr("overlap"));
  request_.set_path(folder_ / "none");
  EXPECT_THAT(Error(), HasSubstr("No such file"));
}

}  // namespace

}  // namespace atolld
