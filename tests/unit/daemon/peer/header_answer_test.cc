#include "daemon/peer/header_answer.h"

#include <gtest/gtest.h>

#include "daemon/env/posix_files.h"
#include "daemon/replica/state/update_log.h"
#include "membership/history/header.h"
#include "tests/unit/daemon/env/temporary_directory.h"
#include "tests/unit/daemon/replica/state/test_run.h"

namespace atolld {
namespace {

// A log that begins after the snapshot of version `before` and holds `count` headers of about
// `bytes`.
struct Log {
  Log(uint64_t before, uint64_t count, size_t bytes) {
    auto log = UpdateLog::Open(files, directory.path(), before);
    EXPECT_TRUE(log.ok()) << log.status();
    for (uint64_t version = before + 1; version <= before + count; ++version) {
      v1::EntryHeader header;
      header.set_version(version);
      header.set_run_id(std::string(bytes, 'r'));
      EXPECT_TRUE((*log)->AppendHeader(header).ok());
    }
  }
  v1::Headers Read(uint64_t first, uint64_t last) {
    v1::Headers headers;
    headers.mutable_genesis()->set_state_digest("g");
    EXPECT_TRUE(ReadHeaders(files, directory.path(), first, last, &headers).ok());
    EXPECT_EQ(headers.genesis().state_digest(), "g");
    EXPECT_LT(headers.ByteSizeLong(), size_t{1} << 20);
    for (int i = 0; i < headers.headers_size(); ++i) {
      EXPECT_EQ(headers.headers(i).version(), first + static_cast<uint64_t>(i));
    }
    return headers;
  }

  TemporaryDirectory directory;
  PosixFiles files;
};

// Broken: a coordinator that lost its store would not get the history, or entries that are not
// committed.
TEST(HeaderAnswerTest, TellsWhatWasAskedUpToTheNewest) {
  Log log(0, 9, 10);
  EXPECT_EQ(log.Read(1, 9).headers_size(), 9);
  EXPECT_EQ(log.Read(4, 7).headers_size(), 4);
  EXPECT_EQ(log.Read(9, 20).headers_size(), 1);
  EXPECT_EQ(log.Read(10, 20).headers_size(), 0);
}

// Broken: a long history, or one of large headers, would break the session at the message's limit.
TEST(HeaderAnswerTest, TellsAsMuchAsFitsAMessage) {
  EXPECT_EQ(Log(0, 300, 10).Read(2, 300).headers_size(), 256);
  const int fitting = Log(0, 9, 300 << 10).Read(1, 9).headers_size();
  EXPECT_EQ(fitting, 3);
}

// Broken: headers from a later one on would be taken for the ones that were asked for.
TEST(HeaderAnswerTest, TellsNothingOfWhatTheLogNoLongerHas) {
  Log log(5, 4, 10);
  EXPECT_EQ(log.Read(5, 9).headers_size(), 0);
  EXPECT_EQ(log.Read(6, 9).headers_size(), 4);
}

// Broken: peers that keep little have dropped the header of their one snapshot, and a store that
// lacks it could never be helped, though the snapshot carries it.
TEST(HeaderAnswerTest, BeginsWithTheHeaderOfASnapshot) {
  const TemporaryDirectory directory;
  PosixFiles files;
  const std::string dir = directory.path() + "/r";
  const TestRun run;
  OwnedReplica replica = *CreateReplica(files, dir, run);
  run.CommitTo(*replica, 6);
  ASSERT_TRUE(Replica::AdvanceSnapshots(files, dir, {3, 1}, 6).ok());
  ASSERT_TRUE(replica->CompactLog(0).ok());
  const auto read = [&](uint64_t first) {
    v1::Headers headers;
    EXPECT_TRUE(ReadHeaders(files, dir, first, replica->version(), &headers).ok());
    for (int i = 0; i < headers.headers_size(); ++i) {
      EXPECT_EQ(headers.headers(i).version(), first + static_cast<uint64_t>(i));
    }
    if (headers.headers_size() > 0) {
      EXPECT_EQ(HeaderDigest(headers.headers(headers.headers_size() - 1)),
                replica->header_digest());
    }
    return headers.headers_size();
  };
  EXPECT_EQ(read(6), 1);
  run.CommitTo(*replica, 8);
  EXPECT_EQ(read(6), 3);
  EXPECT_EQ(read(7), 2);
  EXPECT_EQ(read(5), 0);
}

// Broken: a peer without a log would end instead of saying that it cannot help.
TEST(HeaderAnswerTest, WithoutALogThereIsNothingToTell) {
  const TemporaryDirectory directory;
  PosixFiles files;
  v1::Headers headers;
  EXPECT_TRUE(ReadHeaders(files, directory.path() + "/none", 1, 9, &headers).ok());
  EXPECT_EQ(headers.headers_size(), 0);
}

}  // namespace
}  // namespace atolld
