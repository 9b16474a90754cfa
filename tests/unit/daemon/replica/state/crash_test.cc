// A process that dies at any of its writes, and what the next one finds.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>

#include "compression/base/status_macros.h"
#include "daemon/replica/state/layout.h"
#include "daemon/replica/state/update_log.h"
#include "daemon/replica/state/verify.h"
#include "tests/sim/sim_disk.h"
#include "tests/unit/daemon/replica/state/crash_files.h"
#include "tests/unit/daemon/replica/state/test_run.h"

namespace atolld {
namespace {

constexpr uint64_t kCrashVersions = 3;
constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();

// What the outside was told before the process died.
struct Told {
  bool created = false;
  uint64_t committed = 0;
  uint64_t prepared = 0;
  bool sealed = false;
};

// The life of a replica: prepare, commit, make snapshots, seal. Stops at the first error.
Told Live(Files& files, const TestRun& run) {
  Told told;
  absl::StatusOr<OwnedReplica> replica = CreateReplica(files, "/r", run);
  if (!replica.ok()) return told;
  told.created = true;
  for (uint64_t version = 1; version <= kCrashVersions; ++version) {
    const SharedBytes payload = run.Payload(version);
    if (!(*replica)->Prepare(run.Payload(100 + version)).ok()) return told;
    if (!(*replica)->Prepare(payload).ok()) return told;
    told.prepared = version;
    if (!(*replica)->Commit(run.NextHeader(**replica, payload), nullptr, {}).ok()) return told;
    told.committed = version;
    if (!Replica::AdvanceSnapshots(files, "/r", {1, 2}, version).ok()) return told;
  }
  if ((*replica)->WriteSeal(SealOf(**replica)).ok()) told.sealed = true;
  return told;
}

// The state digests of every version, from a life without a crash.
std::map<uint64_t, Digest> Reference(const TestRun& run, uint64_t last = kCrashVersions) {
  SimDisk disk;
  SimFiles files(disk);
  OwnedReplica replica = *CreateReplica(files, "/r", run);
  std::map<uint64_t, Digest> digests = {{0, replica->StateDigest()}};
  for (uint64_t version = 1; version <= last; ++version) {
    run.CommitTo(*replica, version);
    digests[version] = replica->StateDigest();
  }
  return digests;
}

// A longer life with little room: early snapshots, drops, and a file of headers that is written
// anew again and again. No seal.
constexpr uint64_t kTightVersions = 8;

RetentionPolicy Tight() {
  RetentionPolicy policy{1000, 3, 1};
  policy.keep_header_bytes = 0;
  return policy;
}

Told LiveTightly(Files& files, const TestRun& run) {
  Told told;
  absl::StatusOr<OwnedReplica> replica = CreateReplica(files, "/r", run);
  if (!replica.ok()) return told;
  told.created = true;
  for (uint64_t version = 1; version <= kTightVersions; ++version) {
    const SharedBytes payload = run.Payload(version);
    if (!(*replica)->Prepare(payload).ok()) return told;
    told.prepared = version;
    if (!(*replica)->Commit(run.NextHeader(**replica, payload), nullptr, {}).ok()) return told;
    told.committed = version;
    if (!Replica::AdvanceSnapshots(files, "/r", Tight(), version, (*replica)->StateDigest()).ok() ||
        !(*replica)->CompactLog(0).ok()) {
      return told;
    }
    // The disk is found wanting once, and the live state takes its place.
    if (version == 6 && !(*replica)->SaveState().ok()) return told;
  }
  return told;
}

void CheckAfterCrash(SimDisk& disk, const Told& told, const TestRun& run,
                     const std::map<uint64_t, Digest>& reference) {
  SimFiles files(disk);
  absl::StatusOr<OwnedReplica> opened = OpenReplica(files, "/r");
  if (!told.created && absl::IsNotFound(opened.status())) {
    // Nobody was told of a replica: making it again must work over what is left.
    ASSERT_TRUE(CreateReplica(files, "/r", run).ok());
    return;
  }
  ASSERT_TRUE(opened.ok()) << opened.status();
  Replica& replica = **opened;
  EXPECT_GE(replica.version(), told.committed);
  EXPECT_LE(replica.version(), told.committed + 1);
  EXPECT_EQ(replica.StateDigest(), reference.at(replica.version()));
  if (told.prepared == replica.version() + 1) {
    EXPECT_TRUE(replica.prepared_digest().has_value());
  }
  if (told.sealed) {
    EXPECT_TRUE(replica.seal().has_value());
  }
  if (!replica.seal().has_value()) {
    run.CommitTo(replica, kCrashVersions);
    EXPECT_EQ(replica.StateDigest(), reference.at(kCrashVersions));
    EXPECT_TRUE(Replica::AdvanceSnapshots(files, "/r", {1, 2}, kCrashVersions).ok());
  }
  const absl::StatusOr<VerifyReport> report = VerifyLog(files, "/r");
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->version, kCrashVersions);
  EXPECT_EQ(report->state_digest, reference.at(kCrashVersions));
}

TEST(Crash, AtAnyWriteLeavesEveryAnnouncedVersionAndGoesOn) {
  // Broken: a power cut at the wrong instant loses an entry that was voted for or announced, or the
  // whole replica.
  const TestRun run;
  const std::map<uint64_t, Digest> reference = Reference(run);
  SimDisk whole;
  SimFiles whole_files(whole);
  CrashFiles counting(whole_files, kNever, false);
  ASSERT_TRUE(Live(counting, run).sealed);
  const uint64_t changes = counting.changes();
  ASSERT_GT(changes, 50u);
  for (const SimDisk::Crash crash :
       {SimDisk::Crash::kLoseUnsynced, SimDisk::Crash::kKeepUnsynced}) {
    for (const bool torn : {false, true}) {
      for (uint64_t allowed = 0; allowed <= changes; ++allowed) {
        SCOPED_TRACE(absl::StrCat("crash at change ", allowed, torn ? ", torn" : "",
                                  crash == SimDisk::Crash::kLoseUnsynced ? ", unsynced lost" : ""));
        SimDisk disk;
        SimFiles files(disk);
        CrashFiles dying(files, allowed, torn);
        const Told told = Live(dying, run);
        disk.CrashNow(crash);
        CheckAfterCrash(disk, told, run, reference);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(Crash, WhileTheLogIsCutAndSnapshotsAreDroppedLosesNothing) {
  // Broken: a power cut in the midst of saving room would take the state with it, or leave a log
  // that no longer leads from its oldest snapshot.
  const TestRun run;
  const std::map<uint64_t, Digest> reference = Reference(run, kTightVersions);
  SimDisk whole;
  SimFiles whole_files(whole);
  CrashFiles counting(whole_files, kNever, false);
  ASSERT_EQ(LiveTightly(counting, run).committed, kTightVersions);
  ASSERT_GT((*LogReader::Open(whole_files, "/r", 1)).first_version(), 4u);
  const uint64_t changes = counting.changes();
  for (const SimDisk::Crash crash :
       {SimDisk::Crash::kLoseUnsynced, SimDisk::Crash::kKeepUnsynced}) {
    for (uint64_t allowed = 0; allowed <= changes; ++allowed) {
      SCOPED_TRACE(absl::StrCat("crash at change ", allowed,
                                crash == SimDisk::Crash::kLoseUnsynced ? ", unsynced lost" : ""));
      SimDisk disk;
      SimFiles files(disk);
      CrashFiles dying(files, allowed, crash == SimDisk::Crash::kKeepUnsynced);
      const Told told = LiveTightly(dying, run);
      disk.CrashNow(crash);
      SimFiles next(disk);
      absl::StatusOr<OwnedReplica> opened = OpenReplica(next, "/r");
      if (!told.created && absl::IsNotFound(opened.status())) continue;
      ASSERT_TRUE(opened.ok()) << opened.status();
      Replica& replica = **opened;
      ASSERT_GE(replica.version(), told.committed);
      ASSERT_EQ(replica.StateDigest(), reference.at(replica.version()));
      ASSERT_EQ(VerifyLog(next, "/r")->state_digest, replica.StateDigest());
      run.CommitTo(replica, kTightVersions);
      ASSERT_TRUE(
          Replica::AdvanceSnapshots(next, "/r", Tight(), kTightVersions, replica.StateDigest())
              .ok());
      ASSERT_TRUE(replica.CompactLog(0).ok());
      const absl::StatusOr<VerifyReport> report = VerifyLog(next, "/r");
      ASSERT_TRUE(report.ok()) << report.status();
      ASSERT_EQ(report->state_digest, reference.at(kTightVersions));
      ASSERT_EQ(next.List(SnapshotsDirectory("/r"))->size(), ListSnapshots(next, "/r")->size());
    }
  }
}

TEST(Crash, WhileOpeningIsMendedByTheNextOpening) {
  // Broken: a machine that loses power twice in a row would not come back.
  const TestRun run;
  const std::map<uint64_t, Digest> reference = Reference(run);
  for (uint64_t allowed = 0; allowed < 12; ++allowed) {
    SimDisk disk;
    SimFiles files(disk);
    OwnedReplica replica = *CreateReplica(files, "/r", run);
    run.CommitTo(*replica, 2);
    const std::string headers = FileBytes(files, HeadersPath("/r"));
    {
      // The header of entry 3, half written.
      auto file = files.OpenToAppend(HeadersPath("/r"));
      const std::string half = headers.substr(0, headers.size() / 4);
      ASSERT_TRUE((*file)
                      ->Append(absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(half.data()),
                                                   half.size()))
                      .ok());
      ASSERT_TRUE((*file)->Sync().ok());
    }
    CrashFiles dying(files, allowed, true);
    OpenReplica(dying, "/r").status().IgnoreError();
    disk.CrashNow(SimDisk::Crash::kLoseUnsynced);
    CheckAfterCrash(disk, Told{true, 2, 0, false}, run, reference);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace atolld
