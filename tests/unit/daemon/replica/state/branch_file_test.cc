#include "daemon/replica/state/branch_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compression/base/check.h"
#include "daemon/replica/state/layout.h"
#include "daemon/replica/state/replica.h"
#include "daemon/replica/state/state_digest.h"
#include "daemon/replica/state/verify.h"
#include "membership/history/header.h"
#include "tests/sim/sim_disk.h"
#include "tests/unit/daemon/replica/state/test_run.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

constexpr char kFile[] = "/branch";

// A parent at version 5 in "/old", and what branches from it.
class BranchFileTest : public ::testing::Test {
 protected:
  BranchFileTest() {
    run_.elements = 300000;  // two blocks a buffer, the second one short
    run_.chunk_elements = 65536;
    parent_ = *CreateReplica(files_, "/old", run_);
    run_.CommitTo(*parent_, 5);
  }

  BranchMade Write(std::optional<uint64_t> version, bool fresh_outer = false) {
    const absl::StatusOr<BranchMade> made =
        WriteBranchFile(files_, {"/old", version, kFile, fresh_outer});
    CHECK_OK(made.status());
    return *made;
  }

  // As the coordinator and the peer that makes version 0 have it.
  v1::Genesis GenesisOfBranch() {
    const absl::StatusOr<v1::SnapshotInfo> head = ReadBranchHead(files_, kFile);
    CHECK_OK(head.status());
    v1::Genesis genesis = run_.Genesis();
    genesis.mutable_spec()->set_run_id("branch");
    *genesis.mutable_spec()->mutable_parent() = LineageUnder(*head, genesis.spec());
    return genesis;
  }

  absl::StatusOr<OwnedReplica> Begin(const v1::Genesis& genesis) {
    const absl::Status made = CreateFromBranch(files_, "/new", genesis, kFile);
    if (!made.ok()) return made;
    return OpenReplica(files_, "/new");
  }

  // The next entry of a replica of either run, from the same payload.
  void Step(Replica& replica, uint64_t seed) {
    const SharedBytes payload = run_.Payload(seed);
    v1::EntryHeader header = run_.NextHeader(replica, payload);
    header.set_run_id(replica.genesis().spec().run_id());
    CHECK_OK(replica.Commit(header, &payload, {}));
  }

  static bool SameBits(absl::Span<const float> a, absl::Span<const float> b) {
    return BytesOf(a) == BytesOf(b);
  }

  SimDisk disk_;
  SimFiles files_{disk_};
  TestRun run_;
  OwnedReplica parent_;
};

TEST_F(BranchFileTest, VersionZeroIsTheParentsStateAndGoesOnLikeIt) {
  // Broken: a branch would begin at other parameters or without momentum, and jump.
  const BranchMade made = Write(std::nullopt);
  EXPECT_EQ(made.lineage.version(), 5u);
  EXPECT_EQ(made.lineage.state_digest(), ToBytes(parent_->StateDigest()));
  EXPECT_EQ(made.lineage.header_digest(), ToBytes(parent_->header_digest()));
  EXPECT_EQ(made.lineage.tokens(), 15000u);
  EXPECT_TRUE(made.lineage.buffers());
  EXPECT_TRUE(made.whole_log);
  const absl::StatusOr<OwnedReplica> branch = Begin(GenesisOfBranch());
  ASSERT_TRUE(branch.ok()) << branch.status();
  EXPECT_EQ((*branch)->version(), 0u);
  EXPECT_TRUE(SameBits((*branch)->theta(), parent_->theta()));
  // Every block of theta and momentum is the parent's: only the version in the digest differs.
  const auto zero = SnapshotReader::Open(files_, SnapshotPath("/new", 0));
  ASSERT_TRUE(zero.ok()) << zero.status();
  EXPECT_EQ(StateDigestAs((*zero)->info(), 5), parent_->StateDigest());
  for (uint64_t seed = 6; seed <= 8; ++seed) {  // momentum shows in the second step
    Step(*parent_, seed);
    Step(**branch, seed);
    EXPECT_TRUE(SameBits((*branch)->theta(), parent_->theta())) << seed;
  }
  EXPECT_TRUE(VerifyLog(files_, "/new").ok());
}

TEST_F(BranchFileTest, AVersionInTheMiddleIsReplayed) {
  // Broken: a branch could only leave where a snapshot happens to be.
  EXPECT_EQ(Write(3).lineage.tokens(), 9000u);
  OwnedReplica other = *CreateReplica(files_, "/other", run_);
  run_.CommitTo(*other, 3);
  const absl::StatusOr<OwnedReplica> branch = Begin(GenesisOfBranch());
  ASSERT_TRUE(branch.ok()) << branch.status();
  EXPECT_TRUE(SameBits((*branch)->theta(), other->theta()));
  ASSERT_TRUE(files_.Remove(kFile).ok());
  const absl::Status beyond = WriteBranchFile(files_, {"/old", 6, kFile, false}).status();
  EXPECT_TRUE(absl::IsNotFound(beyond)) << beyond;
  EXPECT_THAT(std::string(beyond.message()), HasSubstr("cover versions 0 to 5"));
  EXPECT_FALSE(files_.Exists(kFile));
  EXPECT_FALSE(files_.Exists(absl::StrCat(kFile, ".state")));
}

TEST_F(BranchFileTest, BuffersStayBehindWithAnotherRuleOrOnDemand) {
  // Broken: another rule would step with numbers that mean something else, or the run's record
  // would say that buffers came which did not.
  Write(5);
  v1::Genesis average = GenesisOfBranch();
  average.mutable_spec()->mutable_outer()->set_rule("average");
  *average.mutable_spec()->mutable_parent() =
      LineageUnder(*ReadBranchHead(files_, kFile), average.spec());
  EXPECT_FALSE(average.spec().parent().buffers());
  const absl::StatusOr<OwnedReplica> averaged = Begin(average);
  ASSERT_TRUE(averaged.ok()) << averaged.status();
  EXPECT_TRUE(SameBits((*averaged)->theta(), parent_->theta()));

  ASSERT_TRUE(files_.Remove(kFile).ok());
  EXPECT_FALSE(Write(5, true).lineage.buffers());
  const v1::Genesis genesis = GenesisOfBranch();
  EXPECT_FALSE(genesis.spec().parent().buffers());
  ASSERT_TRUE(CreateFromBranch(files_, "/fresh", genesis, kFile).ok());
  const absl::StatusOr<OwnedReplica> fresh = OpenReplica(files_, "/fresh");
  ASSERT_TRUE(fresh.ok()) << fresh.status();
  EXPECT_TRUE(SameBits((*fresh)->theta(), parent_->theta()));
  // As a run that begins with these parameters.
  TestRun anew = run_;
  std::vector<float> theta(parent_->theta().begin(), parent_->theta().end());
  auto bare = Replica::Create(files_, "/bare", anew.Genesis(), absl::MakeSpan(theta));
  ASSERT_TRUE(bare.ok()) << bare.status();
  EXPECT_EQ((*fresh)->StateDigest(), (*bare)->StateDigest());
}

TEST_F(BranchFileTest, AnotherModelIsRefusedByTheNameOfItsTensor) {
  // Broken: parameters would be read as other tensors'.
  Write(5);
  v1::Genesis genesis = GenesisOfBranch();
  genesis.mutable_manifest()->mutable_tensors(1)->set_name("head.weight");
  const absl::Status refused = Begin(genesis).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("tensor 1 is head.weight [150000]"));
  EXPECT_FALSE(files_.Exists(GenesisPath("/new")));
}

TEST_F(BranchFileTest, AnotherLineageIsRefused) {
  // Broken: a run would say that it branches from one state, and train from another.
  Write(3);
  const v1::Genesis of_three = GenesisOfBranch();
  ASSERT_TRUE(files_.Remove(kFile).ok());
  Write(5);
  const absl::Status refused = Begin(of_three).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("version 5 of run test-run"));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("the run begins at version 3"));
}

TEST_F(BranchFileTest, AVersionZeroThatAnotherMadeUpIsRecognised) {
  // Broken: the first peer that answers could begin the branch at any state it likes, or train
  // again on what the parent has spent.
  for (const bool fresh_outer : {false, true}) {
    Write(4, fresh_outer);
    const absl::StatusOr<v1::SnapshotInfo> head = ReadBranchHead(files_, kFile);
    ASSERT_TRUE(head.ok()) << head.status();
    v1::Genesis genesis = GenesisOfBranch();
    v1::Lineage* lineage = genesis.mutable_spec()->mutable_parent();
    lineage->set_next_sample(head->genesis().spec().parent().next_sample());
    const std::string dir = fresh_outer ? "/fresh" : "/new";
    ASSERT_TRUE(CreateFromBranch(files_, dir, genesis, kFile).ok());
    const absl::StatusOr<OwnedReplica> branch = OpenReplica(files_, dir);
    ASSERT_TRUE(branch.ok()) << branch.status();
    const v1::Genesis made = (*branch)->genesis();
    EXPECT_TRUE(CheckMadeFrom(*head, made).ok()) << CheckMadeFrom(*head, made);
    v1::Genesis other = made;
    other.mutable_state_digest()->front() ^= 1;
    EXPECT_THAT(CheckMadeFrom(*head, other).message(), HasSubstr("is that of another"));
    other = made;
    other.mutable_spec()->mutable_parent()->set_next_sample(lineage->next_sample() + 1);
    EXPECT_THAT(CheckMadeFrom(*head, other).message(), HasSubstr("in the parent's corpus"));
    other.mutable_spec()->mutable_data()->mutable_digest()->front() ^= 1;
    EXPECT_THAT(CheckMadeFrom(*head, other).message(), HasSubstr("goes on at sample 0"));
    other = made;
    other.mutable_spec()->mutable_parent()->set_version(3);
    EXPECT_THAT(CheckMadeFrom(*head, other).message(), HasSubstr("must be version 4 of run"));
    other = made;
    other.mutable_manifest()->mutable_tensors(0)->set_name("other");
    EXPECT_EQ(CheckMadeFrom(*head, other).code(), absl::StatusCode::kInvalidArgument);
    ASSERT_TRUE(files_.Remove(kFile).ok());
  }
}

TEST_F(BranchFileTest, ASnapshotThatIsNotWhatItsLineageNamesIsRefused) {
  // Broken: whoever makes version 0 could put any state in its place, under the parent's name.
  Write(5);
  v1::SnapshotInfo info = *ReadBranchHead(files_, kFile);
  ASSERT_TRUE(CheckSnapshotInfo(info).ok());
  info.mutable_buffers(1)->set_leaves(0, std::string(32, 'x'));
  info.set_state_digest(ToBytes(StateDigestOf(info)));
  info.mutable_genesis()->set_state_digest(info.state_digest());
  EXPECT_THAT(std::string(CheckSnapshotInfo(info).message()),
              HasSubstr("it is not the state of version 5 of run test-run"));
}

TEST_F(BranchFileTest, ATruncatedOrDamagedFileMakesNoReplica) {
  // Broken: a file that was copied in part, or rotted, would be trained upon.
  Write(5);
  const v1::Genesis genesis = GenesisOfBranch();
  const std::string good = FileBytes(files_, kFile);
  const uint64_t head = (*SnapshotReader::Open(files_, kFile))->theta_offset();
  for (uint64_t size = 0; size < good.size(); size += size < 64 ? 7 : good.size() / 23) {
    ASSERT_TRUE(WriteFileDurably(files_, kFile, BytesOf(good.substr(0, size))).ok());
    EXPECT_FALSE(Begin(genesis).ok()) << size;
    EXPECT_TRUE(size < head || ReadBranchHead(files_, kFile).ok()) << size;
  }
  for (uint64_t at = 0; at < good.size(); at += at < 2000 ? 31 : 199991) {
    ASSERT_TRUE(WriteFileDurably(files_, kFile, BytesOf(good)).ok());
    ASSERT_TRUE(disk_.FlipBit(kFile, at, 2));
    const absl::Status status = Begin(genesis).status();
    if (status.ok()) {  // the zeros between the parts carry nothing
      ASSERT_EQ(good[at], '\0') << at;
      ASSERT_TRUE(RemoveReplica(files_, "/new").ok());
      continue;
    }
    EXPECT_THAT(std::string(status.message()), HasSubstr(kFile)) << at;
    EXPECT_FALSE(files_.Exists(GenesisPath("/new"))) << at;
  }
}

TEST_F(BranchFileTest, ASnapshotOfARunIsNoBranchFile) {
  // Broken: `[run] branch` would take any snapshot, and the run would have no lineage.
  const absl::Status status = ReadBranchHead(files_, SnapshotPath("/old", 0)).status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("no branch of it"));
  EXPECT_TRUE(absl::IsNotFound(ReadBranchHead(files_, "/none").status()));
  Write(5);
  EXPECT_TRUE(absl::IsAlreadyExists(WriteBranchFile(files_, {"/old", 5, kFile, false}).status()));
}

TEST_F(BranchFileTest, ABranchOfABranchKnowsBoth) {
  // Broken: the lineage would end at the last branch, or its data begin anew.
  Write(5);
  v1::Genesis genesis = GenesisOfBranch();
  genesis.mutable_spec()->mutable_parent()->set_next_sample(70);
  absl::StatusOr<OwnedReplica> branch = Begin(genesis);
  ASSERT_TRUE(branch.ok()) << branch.status();
  Step(**branch, 9);
  const absl::StatusOr<BranchMade> second =
      WriteBranchFile(files_, {"/new", std::nullopt, "/second", false});
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(second->lineage.run_id(), "branch");
  EXPECT_EQ(second->lineage.version(), 1u);
  EXPECT_EQ(second->lineage.next_sample(), 70u);
  ASSERT_EQ(second->lineage.earlier_size(), 1);
  EXPECT_EQ(second->lineage.earlier(0).run_id(), "test-run");
}

}  // namespace
}  // namespace atolld
