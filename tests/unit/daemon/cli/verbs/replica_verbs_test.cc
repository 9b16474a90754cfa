// The verbs that look into a replica's folder: snapshot list, verify, save and log replay.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compression/base/check.h"
#include "daemon/cli/verbs/verbs.h"
#include "daemon/env/posix_files.h"
#include "daemon/program/command_line.h"
#include "daemon/replica/state/layout.h"
#include "daemon/replica/state/snapshot.h"
#include "tests/unit/daemon/env/temporary_directory.h"
#include "tests/unit/daemon/replica/state/test_run.h"

namespace atolld {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Json = nlohmann::ordered_json;

struct VerbOutcome {
  int code;
  std::string out;
  std::string err;
};

class ReplicaVerbsTest : public ::testing::Test {
 protected:
  ReplicaVerbsTest() : dir_(directory_.File("peer-1")) {
    replica_ = *CreateReplica(files_, dir_, run_);
    for (uint64_t version = 1; version <= 8; ++version) {
      run_.CommitTo(*replica_, version);
      digests_.push_back(ToHex(replica_->StateDigest()));
      CHECK_OK(Replica::AdvanceSnapshots(files_, dir_, {3, 2}, version));
    }
  }

  VerbOutcome Call(std::vector<std::string> words) {
    CommandLine command_line;
    command_line.DescribeGroup("log", "log");
    command_line.DescribeGroup("snapshot", "snapshot");
    AddLogVerbs(command_line);
    AddSnapshotVerbs(command_line);
    words.insert(words.begin(), "atoll");
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    const int code = command_line.Run(static_cast<int>(argv.size()), argv.data());
    return {code, testing::internal::GetCapturedStdout(), testing::internal::GetCapturedStderr()};
  }

  // Changes one byte of a file.
  void Spoil(const std::string& path, uint64_t offset) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(offset));
    const char byte = static_cast<char>(file.get() ^ 0x10);
    file.seekp(static_cast<std::streamoff>(offset));
    file.put(byte);
  }

  const TemporaryDirectory directory_;
  const std::string dir_;
  PosixFiles files_;
  TestRun run_;
  OwnedReplica replica_;
  std::vector<std::string> digests_;  // of versions 1, 2, ...
};

TEST_F(ReplicaVerbsTest, SnapshotsAreListed) {
  // Broken: an operator could not see what a peer could be restored from.
  const VerbOutcome json = Call({"snapshot", "list", "--dir", dir_ + "/", "--json"});
  ASSERT_EQ(json.code, kDone) << json.err;
  const Json list = Json::parse(json.out);
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0]["version"], 3);
  EXPECT_EQ(list[0]["state_digest"], digests_[2]);
  EXPECT_EQ(list[0]["chain"], "confirmed");
  EXPECT_EQ(list[0]["leads_to"], 8);
  EXPECT_EQ(list[1]["path"], SnapshotPath(dir_, 6));
  EXPECT_EQ(list[1]["bytes"], FileBytes(files_, SnapshotPath(dir_, 6)).size());
  const VerbOutcome text = Call({"snapshot", "list", "--dir", dir_});
  EXPECT_THAT(text.out, HasSubstr(digests_[5].substr(0, 16)));
}

TEST_F(ReplicaVerbsTest, ASpoiledBlockIsFoundAndNamed) {
  // Broken: a snapshot that has rotted would pass for sound.
  EXPECT_EQ(Call({"snapshot", "verify", "--dir", dir_}).code, kDone);
  const std::string path = SnapshotPath(dir_, 6);
  const uint64_t offset = (*SnapshotReader::Open(files_, path))->theta_offset();
  Spoil(path, offset + 77);
  const VerbOutcome all = Call({"snapshot", "verify", "--dir", dir_, "--json"});
  EXPECT_EQ(all.code, kFailed);
  EXPECT_THAT(all.err, HasSubstr(absl::StrCat(path, ": offset ", offset, ": block 0 (theta")));
  EXPECT_EQ(Call({"snapshot", "verify", "--dir", dir_, "--version", "6"}).code, kFailed);
  const VerbOutcome other = Call({"snapshot", "verify", "--dir", dir_, "--version", "3"});
  EXPECT_EQ(other.code, kDone);
  EXPECT_THAT(other.out, HasSubstr("by the chain confirmed"));
  EXPECT_THAT(Call({"snapshot", "verify", "--dir", dir_, "--version", "5"}).err,
              HasSubstr("there are: 3, 6"));
}

TEST_F(ReplicaVerbsTest, AnyCoveredStateIsSavedAndNothingOverwritten) {
  // Broken: a saved state would be another version's, or take the place of a file of the user's.
  const std::string out = directory_.File("state");
  std::ofstream(dir_ + "/worker-state.tokenizer") << "{}";
  const VerbOutcome saved =
      Call({"snapshot", "save", "--dir", dir_, "--version", "5", "--out", out, "--json"});
  ASSERT_EQ(saved.code, kDone) << saved.err;
  EXPECT_EQ(Json::parse(saved.out)["state_digest"], digests_[4]);
  const std::string path = Json::parse(saved.out)["path"];
  EXPECT_EQ((*SnapshotReader::Open(files_, path))->info().version(), 5u);
  EXPECT_THAT(*files_.List(DirectoryOf(out)), ElementsAre("peer-1", "state"));
  const VerbOutcome verified = Call({"log", "verify", "--dir", out});
  ASSERT_EQ(verified.code, kDone) << verified.err;
  EXPECT_EQ(Json::parse(verified.out)["state_digest"], digests_[4]);
  EXPECT_EQ(Json::parse(verified.out)["versions"], 5);
  // The run's tokenizer comes along.
  EXPECT_EQ(FileBytes(files_, out + "/worker-state.tokenizer"), "{}");
  const std::string before = FileBytes(files_, path);
  const VerbOutcome again =
      Call({"snapshot", "save", "--dir", dir_, "--version", "6", "--out", out});
  EXPECT_EQ(again.code, kWrongCall);
  EXPECT_THAT(again.err, HasSubstr("nothing is overwritten"));
  EXPECT_EQ(FileBytes(files_, path), before);
  const VerbOutcome old = Call(
      {"snapshot", "save", "--dir", dir_, "--version", "2", "--out", directory_.File("other")});
  EXPECT_EQ(old.code, kWrongCall);
  EXPECT_THAT(old.err, HasSubstr("cover versions 3 to 8"));
  EXPECT_THAT(*files_.List(DirectoryOf(out)), ElementsAre("peer-1", "state"));
}

TEST_F(ReplicaVerbsTest, AReplayShowsEachStateAndEndsAtTheFirstDifference) {
  // Broken: nobody could repeat the run's audit by hand, or it would pass over a difference.
  const VerbOutcome json =
      Call({"log", "replay", "--dir", dir_, "--from", "5", "--to", "8", "--json"});
  ASSERT_EQ(json.code, kDone) << json.err;
  const Json entries = Json::parse(json.out);
  ASSERT_EQ(entries.size(), 4u);
  EXPECT_EQ(entries[0]["version"], 5);
  EXPECT_EQ(entries[0]["state_digest"], digests_[4]);
  EXPECT_EQ(entries[0]["next_header_says"], digests_[4]);
  EXPECT_EQ(entries[0]["contributors"], Json({"p1", "p2", "p3"}));
  EXPECT_EQ(entries[0]["payload_bytes"], run_.Payload(5).size());
  EXPECT_EQ(entries[3]["chain"], "unsaid");
  Spoil(PayloadPath(dir_, 7), 100);
  const VerbOutcome text = Call({"log", "replay", "--dir", dir_});
  EXPECT_EQ(text.code, kFailed);
  EXPECT_THAT(text.out, HasSubstr(absl::StrCat("version 6  state ", digests_[5].substr(0, 16),
                                               "  confirmed")));
  EXPECT_THAT(text.err, HasSubstr(PayloadPath(dir_, 7)));
  EXPECT_EQ(Call({"log", "replay", "--dir", dir_, "--to", "6"}).code, kDone);
}

TEST_F(ReplicaVerbsTest, WrongCallsAreCode2AndWrongRangesSayTheRightOnes) {
  // Broken: a script would take a mistyped call for a corrupt log.
  EXPECT_EQ(Call({"snapshot", "list"}).code, kWrongCall);
  EXPECT_EQ(Call({"snapshot", "save", "--dir", dir_, "--out", "x"}).code, kWrongCall);
  EXPECT_EQ(Call({"snapshot", "verify", "--dir", dir_, "--version", "six"}).code, kWrongCall);
  EXPECT_EQ(Call({"log", "replay", "--dir", dir_, "--from", "-1"}).code, kWrongCall);
  EXPECT_EQ(Call({"log", "replay", "--dir", dir_, "--form", "4"}).code, kWrongCall);
  for (const char* from : {"3", "9"}) {
    const VerbOutcome outcome = Call({"log", "replay", "--dir", dir_, "--from", from});
    EXPECT_EQ(outcome.code, kWrongCall);
    EXPECT_THAT(outcome.err, HasSubstr("4 to 8 can"));
  }
  EXPECT_EQ(Call({"snapshot", "list", "--dir", directory_.File("none")}).code, kWrongCall);
  for (const char* verb : {"list", "verify", "save"}) {
    const VerbOutcome help = Call({"snapshot", verb, "--help"});
    EXPECT_EQ(help.code, kDone);
    EXPECT_THAT(help.out, HasSubstr(absl::StrCat("Example:\n  atoll snapshot ", verb)));
  }
  EXPECT_THAT(Call({"log", "replay", "--help"}).out, HasSubstr("Example:\n  atoll log replay"));
}

}  // namespace
}  // namespace atolld
