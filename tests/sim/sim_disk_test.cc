// The simulated disk: what a crash leaves, and how it fails.
#include "tests/sim/sim_disk.h"

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compression/base/status_macros.h"
#include "gtest/gtest.h"
#include "tests/sim/sim_ends.h"

namespace atolld {
namespace {

using Crash = SimDisk::Crash;

std::unique_ptr<WritableFile> Make(SimDisk& disk, const std::string& path,
                                   const std::string& text) {
  auto file = std::move(SimFiles(disk).Create(path)).value();
  EXPECT_TRUE(file->Append(Span(text)).ok());
  return file;
}

std::string TextAt(SimDisk& disk, const std::string& path) {
  SimFiles files(disk);
  const absl::StatusOr<std::string> text = ReadFile(files, path, 1 << 20);
  return text.ok() ? *text : std::string(absl::StatusCodeToString(text.status().code()));
}

// Would break: code that shortens or empties a file without a sync would find after a crash what no
// real disk leaves.
TEST(SimDisk, TruncationsAndRewritesAreUndoneUnlessSynced) {
  SimDisk disk;
  SimFiles files(disk);
  auto file = Make(disk, "/a", "one two");
  ASSERT_TRUE(file->Sync().ok());
  ASSERT_TRUE(files.SyncDirectory("/").ok());
  EXPECT_EQ(disk.used(), 7u);
  ASSERT_TRUE(files.Truncate("/a", 3).ok());
  ASSERT_TRUE(file->Append(Span("!")).ok());
  EXPECT_EQ(TextAt(disk, "/a"), "one!");
  EXPECT_EQ(disk.used(), 4u);
  disk.CrashNow(Crash::kLoseUnsynced);
  EXPECT_EQ(TextAt(disk, "/a"), "one two");
  EXPECT_EQ(disk.used(), 7u);
  EXPECT_TRUE(absl::IsUnavailable(file->Append(Span("x")))) << "a handle of a former life";

  file = Make(disk, "/a", "new");
  ASSERT_TRUE(file->Sync().ok());
  ASSERT_TRUE(file->Append(Span("er")).ok());
  EXPECT_EQ(disk.used(), 5u);
  disk.CrashNow(Crash::kLoseUnsynced);
  EXPECT_EQ(TextAt(disk, "/a"), "new");
  EXPECT_EQ(disk.used(), 3u);
  ASSERT_TRUE(SimFiles(disk).Remove("/a").ok());
  EXPECT_EQ(disk.used(), 0u);
  disk.CrashNow(Crash::kLoseUnsynced);
  EXPECT_EQ(TextAt(disk, "/a"), "new") << "the removal was not synced";
}

// Would break: the four kinds of crash would not differ.
TEST(SimDisk, EachCrashLeavesItsOwn) {
  for (const Crash crash : {Crash::kLoseUnsynced, Crash::kKeepUnsynced, Crash::kLoseBytes}) {
    SimDisk disk;
    ASSERT_TRUE(Make(disk, "/old", "durable")->Sync().ok());
    ASSERT_TRUE(SimFiles(disk).SyncDirectory("/").ok());
    ASSERT_TRUE(SimFiles(disk).OpenToAppend("/old").value()->Append(Span("+")).ok());
    Make(disk, "/new", "bytes");
    disk.CrashNow(crash);
    const bool kept = crash == Crash::kKeepUnsynced;
    EXPECT_EQ(TextAt(disk, "/old"), kept ? "durable+" : "durable");
    const std::string lost = crash == Crash::kLoseBytes ? "" : "NOT_FOUND";
    EXPECT_EQ(TextAt(disk, "/new"), kept ? "bytes" : lost);
  }
}

// Would break: no reader of a log would ever meet half a record; or a crash would tear what was
// synced.
TEST(SimDisk, ATornCrashKeepsAPartOfTheLastAppendAlone) {
  std::set<size_t> lengths;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    SimDisk disk;
    disk.SeedFaults(seed);
    auto file = Make(disk, "/log", "synced.");
    ASSERT_TRUE(file->Sync().ok());
    ASSERT_TRUE(SimFiles(disk).SyncDirectory("/").ok());
    ASSERT_TRUE(file->Append(Span("whole.")).ok());
    ASSERT_TRUE(file->Append(Span("torn")).ok());
    disk.CrashNow(Crash::kTornLast);
    const std::string text = TextAt(disk, "/log");
    lengths.insert(text.size());
    EXPECT_EQ(text, std::string("synced.whole.torn").substr(0, text.size()));
  }
  EXPECT_EQ(lengths, (std::set<size_t>{13, 14, 15, 16}));
  SimDisk disk;
  ASSERT_TRUE(Make(disk, "/log", "synced.")->Sync().ok());
  ASSERT_TRUE(SimFiles(disk).SyncDirectory("/").ok());
  disk.CrashNow(Crash::kTornLast);
  EXPECT_EQ(TextAt(disk, "/log"), "synced.");
}

// Would break: a crash could take a file from both of its names, which no disk does, or would never
// take one that was renamed without a sync of its directory.
TEST(SimDisk, ATornCrashDrawsWhichNamesLastButARenameIsWhole) {
  std::set<std::string> outcomes;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SimDisk disk;
    disk.SeedFaults(seed);
    SimFiles files(disk);
    ASSERT_TRUE(files.MakeDirectories("/d").ok());
    ASSERT_TRUE(WriteFileDurably(files, "/d/f", Span("old")).ok());
    ASSERT_TRUE(Make(disk, "/d/f.tmp", "new")->Sync().ok());
    ASSERT_TRUE(files.Rename("/d/f.tmp", "/d/f").ok());
    Make(disk, "/d/other", "");
    disk.CrashNow(Crash::kTornLast);
    outcomes.insert(TextAt(disk, "/d/f") + "," + TextAt(disk, "/d/f.tmp") + "," +
                    TextAt(disk, "/d/other"));
  }
  EXPECT_EQ(outcomes, (std::set<std::string>{"old,NOT_FOUND,NOT_FOUND", "old,new,NOT_FOUND",
                                             "new,NOT_FOUND,NOT_FOUND", "old,NOT_FOUND,",
                                             "old,new,", "new,NOT_FOUND,"}));
}

// The weakest durability protocol: a file is replaced, and a caller that is told so may rely on it.
bool Replace(SimDisk& disk, const std::string& text) {
  SimFiles files(disk);
  return WriteFileDurably(files, "/f", Span(text)).ok();
}

// Would break: the enumeration of all deaths would omit some, or dead processes would continue to
// write.
TEST(SimDisk, DiesAtEachWriteInTurnAndHasNoEffectAfterwards) {
  SimDisk counted;
  std::vector<std::string> trace;
  counted.OnWrite([&](const SimWrite& write) {
    EXPECT_EQ(write.number, trace.size() + 1);
    trace.push_back(absl::StrCat(static_cast<int>(write.kind), " ", write.path));
  });
  ASSERT_TRUE(Replace(counted, "1"));
  EXPECT_EQ(trace, (std::vector<std::string>{"0 /f.tmp", "1 /f.tmp", "2 /f.tmp", "3 /f", "7 /"}));
  ASSERT_EQ(counted.writes(), 5u);
  for (const Crash crash : {Crash::kLoseUnsynced, Crash::kKeepUnsynced, Crash::kLoseBytes,
                            Crash::kTornLast, Crash::kDrawn}) {
    std::set<std::string> found;
    for (uint64_t at = 1; at <= 6; ++at) {
      SimDisk disk;
      ASSERT_TRUE(Replace(disk, "before"));
      int deaths = 0;
      disk.OnDeath([&] { ++deaths; });
      disk.CrashAtWrite(at, crash);
      SimFiles dying(disk);
      const absl::Status status = WriteFileDurably(dying, "/f", Span("after"));
      EXPECT_EQ(deaths, at <= 5 ? 1 : 0);
      EXPECT_EQ(absl::IsUnavailable(status), at <= 5) << status;
      const uint64_t writes = disk.writes();
      EXPECT_EQ(dying.Exists("/f"), at > 5) << "the dead see nothing";
      dying.Remove("/f").IgnoreError();
      EXPECT_EQ(disk.writes(), at > 5 ? writes + 1 : writes);
      if (at <= 5) found.insert(TextAt(disk, "/f"));
      // The fourth change is the rename: it is made, and kept.
      if (at == 4 && crash == Crash::kKeepUnsynced) {
        EXPECT_EQ(TextAt(disk, "/f"), "after");
      }
    }
    const std::set<std::string> allowed = {"after", "before"};
    EXPECT_TRUE(std::includes(allowed.begin(), allowed.end(), found.begin(), found.end()));
    EXPECT_EQ(found.count("after"), crash == Crash::kLoseUnsynced ? 0u : found.count("after"));
    if (crash == Crash::kKeepUnsynced) {
      EXPECT_EQ(found, allowed);
    }
  }
}

// Would break: no test would meet a full or broken disk, or such a disk would fail in unrealistic
// ways.
TEST(SimDisk, WritesAndReadsFailAsTold) {
  SimDisk disk;
  SimFiles files(disk);
  auto file = Make(disk, "/a", "x");
  disk.FailNextWrites(3, absl::ResourceExhaustedError("no space left on device"));
  std::set<size_t> sizes;
  const absl::Status full = file->Append(Span("0123456789"));
  EXPECT_TRUE(absl::IsResourceExhausted(full));
  EXPECT_EQ(full.message(), "/a: no space left on device");
  EXPECT_LT(TextAt(disk, "/a").size(), 11u);
  EXPECT_TRUE(absl::IsResourceExhausted(files.Create("/b").status()));
  EXPECT_TRUE(absl::IsResourceExhausted(files.Rename("/a", "/c")));
  EXPECT_TRUE(files.Exists("/a") && !files.Exists("/b") && !files.Exists("/c"));
  EXPECT_TRUE(file->Append(Span("y")).ok());
  disk.FailWrites(0.5, absl::UnknownError("input/output error"));
  int failed = 0;
  for (int i = 0; i < 200; ++i) failed += absl::IsUnknown(file->Append(Span("z"))) ? 1 : 0;
  EXPECT_GT(failed, 60);
  EXPECT_LT(failed, 140);
  disk.EndFaults();
  disk.FailReads(1, absl::UnknownError("input/output error"));
  EXPECT_EQ(TextAt(disk, "/a"), "UNKNOWN");
  disk.EndFaults();
  const std::string whole = TextAt(disk, "/a");
  disk.FlipBitOnRead(1);
  const std::string flipped = TextAt(disk, "/a");
  int bits = 0;
  for (size_t i = 0; i < whole.size(); ++i) {
    for (int difference = whole[i] ^ flipped[i]; difference != 0; difference &= difference - 1) {
      ++bits;
    }
  }
  EXPECT_EQ(bits, 1);
  disk.EndFaults();
  EXPECT_EQ(TextAt(disk, "/a"), whole) << "the disk itself is whole";
  disk.SetCapacity(disk.used() + 2);
  EXPECT_TRUE(absl::IsResourceExhausted(file->Append(Span("abc"))));
  EXPECT_EQ(TextAt(disk, "/a"), whole + "ab");
}

}  // namespace
}  // namespace atolld
