#include "daemon/replica/state/replica.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compression/base/check.h"
#include "compression/simd.h"
#include "daemon/replica/state/layout.h"
#include "daemon/replica/state/verify.h"
#include "membership/history/header.h"
#include "tests/sim/sim_disk.h"
#include "tests/unit/daemon/env/temporary_directory.h"
#include "tests/unit/daemon/replica/state/test_run.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class ReplicaTest : public ::testing::Test {
 protected:
  OwnedReplica Create() { return *CreateReplica(files_, "/r", run_); }
  OwnedReplica Open() {
    absl::StatusOr<OwnedReplica> opened = OpenReplica(files_, "/r");
    CHECK_OK(opened.status());
    return *std::move(opened);
  }

  SimDisk disk_;
  SimFiles files_{disk_};
  TestRun run_;
};

TEST_F(ReplicaTest, BeginsAtVersionZeroWithItsDigest) {
  // Broken: joiners could not tell whether they hold the run's initial state.
  const OwnedReplica replica = Create();
  EXPECT_EQ(replica->version(), 0u);
  EXPECT_EQ(replica->header(), nullptr);
  EXPECT_EQ(replica->genesis().state_digest(), ToBytes(replica->StateDigest()));
  EXPECT_EQ(replica->header_digest(), GenesisDigest(replica->genesis()));
  EXPECT_EQ(replica->oldest_entry(), 1u);
  EXPECT_TRUE(absl::IsFailedPrecondition(CreateReplica(files_, "/r", run_).status()));
}

TEST_F(ReplicaTest, IsTheSameWithItsBuffersInFiles) {
  // Broken: a peer with little memory would leave the run at its first commit, or at its first
  // restart.
  const TemporaryDirectory folder;
  SimDisk disk;
  SimFiles files(disk);
  OwnedReplica in_memory = Create();
  OwnedReplica in_files = *CreateReplica(files, "/r", run_, folder.path());
  const auto same = [&] {
    run_.CommitTo(*in_memory, in_memory->version() + 1);
    run_.CommitTo(*in_files, in_files->version() + 1);
    in_files->Release();
    EXPECT_EQ(ToHex(in_files->StateDigest()), ToHex(in_memory->StateDigest()));
  };
  for (int i = 0; i < 3; ++i) same();
  in_files = *OpenReplica(files, "/r", folder.path());
  ASSERT_EQ(in_files->version(), 3u);
  same();
  EXPECT_TRUE(absl::IsResourceExhausted(OpenReplica(files, "/r", "/no/such/folder").status()));
}

TEST_F(ReplicaTest, IsNotMadeWhereOneStands) {
  // Broken: a second start would lay a new version 0 over a history.
  OwnedReplica replica = Create();
  run_.CommitTo(*replica, 2);
  const std::map<std::string, std::string> before = FilesBelow(files_, "/r");
  TestRun other = run_;
  other.history_key = TestKey('x');
  for (const TestRun& again : {run_, other}) {
    const absl::Status status = CreateReplica(files_, "/r", again).status();
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_EQ(FilesBelow(files_, "/r"), before);
  }
}

TEST_F(ReplicaTest, IsNotFoundWhereThereIsNone) {
  // Broken: a new peer could not tell an empty directory from a broken one.
  EXPECT_TRUE(absl::IsNotFound(OpenReplica(files_, "/nothing").status()));
}

TEST_F(ReplicaTest, RefusesInitialParametersThatAreNotFinite) {
  // Broken: a run would begin, and stay, with NaN.
  std::vector<float> theta = run_.Theta();
  theta[700] = std::numeric_limits<float>::quiet_NaN();
  const auto made = Replica::Create(files_, "/r", run_.Genesis(), absl::MakeSpan(theta));
  EXPECT_TRUE(absl::IsInvalidArgument(made.status()));
  EXPECT_THAT(std::string(made.status().message()), HasSubstr("head.bias"));
}

TEST_F(ReplicaTest, StepsByThePreparedPayloadAndTellsTheDifference) {
  // Broken: workers would be moved by something else than what the replica moved by.
  OwnedReplica replica = Create();
  const std::vector<float> before = *replica.theta;
  const SharedBytes payload = run_.Payload(1);
  ASSERT_TRUE(replica->Prepare(payload).ok());
  EXPECT_EQ(replica->prepared_digest(), TreeDigest(payload.span()));
  std::vector<float> difference(run_.elements);
  ASSERT_TRUE(
      replica->Commit(run_.NextHeader(*replica, payload), nullptr, absl::MakeSpan(difference))
          .ok());
  EXPECT_EQ(replica->version(), 1u);
  EXPECT_FALSE(replica->prepared_digest().has_value());
  bool moved = false;
  for (size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(difference[i], (*replica.theta)[i] - before[i]);
    moved = moved || difference[i] != 0;
  }
  EXPECT_TRUE(moved);
}

TEST_F(ReplicaTest, KeepsTheCommonControlVariate) {
  // Broken: a joiner or a restarted peer would train with another variate than the others, and no
  // digest would say so.
  run_.codec = "fp32";
  run_.control_variates = true;
  std::vector<float> kept;
  Digest digest;
  {
    OwnedReplica replica = Create();
    ASSERT_EQ(replica->control().size(), run_.elements);
    EXPECT_EQ(replica->control()[700], 0.0f);
    run_.CommitTo(*replica, 1);
    const auto chunks = SplitPayload(ChunkGrid(run_.elements, run_.chunk_elements),
                                     **FindCodec("fp32"), run_.Payload(1));
    std::vector<float> mean(256);
    ASSERT_TRUE((*FindCodec("fp32"))->Decode((*chunks)[2].span(), absl::MakeSpan(mean)).ok());
    for (size_t i = 0; i < mean.size(); ++i) {
      EXPECT_NEAR(replica->control()[512 + i], 5 * mean[i], 1e-6);
    }
    run_.CommitTo(*replica, 5);
    kept.assign(replica->control().begin(), replica->control().end());
    digest = replica->StateDigest();
    RetentionPolicy policy;
    policy.snapshot_every = 2;
    ASSERT_TRUE(Replica::AdvanceSnapshots(files_, "/r", policy, 5).ok());
  }
  const OwnedReplica again = Open();  // from the snapshot of version 4 and an entry
  EXPECT_EQ(again->version(), 5u);
  EXPECT_EQ(std::vector<float>(again->control().begin(), again->control().end()), kept);
  EXPECT_EQ(OwnedReplica(Open())->StateDigest(), digest);
}

TEST_F(ReplicaTest, RefusesAStepOfAControlVariateThatTheRunHasNot) {
  // Broken: a header could step a buffer that is not there, and end the process.
  OwnedReplica replica = Create();
  TestRun other = run_;
  other.control_variates = true;
  const SharedBytes payload = run_.Payload(1);
  EXPECT_FALSE(replica->Commit(other.NextHeader(*replica, payload), &payload, {}).ok());
  EXPECT_EQ(replica->version(), 0u);
  EXPECT_TRUE(replica->control().empty());
}

TEST_F(ReplicaTest, StepsExactlyAsTheOuterRuleOfTheHeader) {
  // Broken: the first step of Nesterov is not eta * (1 + mu) * mean, so nothing published can be
  // reproduced.
  run_.codec = "fp32";
  OwnedReplica replica = Create();
  const std::vector<float> before = *replica.theta;
  run_.CommitTo(*replica, 1);
  const ChunkGrid grid(run_.elements, run_.chunk_elements);
  const Codec& codec = **FindCodec("fp32");
  const auto chunks = SplitPayload(grid, codec, run_.Payload(1));
  std::vector<float> mean(grid.Elements(2));
  ASSERT_TRUE(codec.Decode((*chunks)[2].span(), absl::MakeSpan(mean)).ok());
  for (size_t i = 0; i < mean.size(); ++i) {
    const double expected = before[512 + i] - 0.7 * (mean[i] + 0.9 * mean[i]);
    EXPECT_NEAR((*replica.theta)[512 + i], expected, 1e-6);
  }
}

TEST_F(ReplicaTest, AnEntryOfAFragmentMovesItAlone) {
  // Broken: the momentum of values that an entry does not cover would decay, or its mean would be
  // applied to others; and peers that step apart would not notice, since all do.
  run_.fragments = 2;  // the tensors [0, 500) and [500, 1000)
  for (const std::string& rule : OuterRuleNames()) {
    if (rule == "delayed_nesterov") continue;  // no run with fragments has it
    run_.rule = rule;
    const std::string dir = absl::StrCat("/", rule);
    OwnedReplica replica = *CreateReplica(files_, dir, run_);
    // Each fragment as a replica of its own would go, with the bits of a vector of its own.
    TestRun alone;
    alone.rule = rule;
    alone.elements = 500;
    for (uint64_t version = 1; version <= 5; ++version) {
      const std::vector<float> before = *replica.theta;
      const SharedBytes payload = run_.Payload(version);
      std::vector<float> difference(run_.elements, 7.0f);
      ASSERT_TRUE(
          replica->Commit(run_.NextHeader(*replica, payload), &payload, absl::MakeSpan(difference))
              .ok());
      const size_t moved = version % 2 == 1 ? 0 : 500;
      for (size_t i = 0; i < 500; ++i) {
        const size_t still = (moved + 500) % 1000 + i;
        ASSERT_EQ((*replica.theta)[still], before[still]);
        ASSERT_EQ(difference[still], 0.0f);
        ASSERT_EQ(difference[moved + i], (*replica.theta)[moved + i] - before[moved + i]);
      }
    }
    std::vector<float> theta(run_.Theta());
    for (const uint64_t fragment : {1, 2}) {
      const std::string other = absl::StrCat(dir, "-", fragment);
      absl::Span<float> part = absl::MakeSpan(theta).subspan(500 * (fragment - 1), 500);
      auto one = Replica::Create(files_, other, alone.Genesis(), part);
      ASSERT_TRUE(one.ok()) << one.status();
      for (uint64_t version = fragment; version <= 5; version += 2) {
        const SharedBytes payload = run_.Payload(version);
        ASSERT_TRUE((*one)->Commit(alone.NextHeader(**one, payload), &payload, {}).ok());
      }
    }
    EXPECT_EQ(*replica.theta, theta) << rule;
    EXPECT_EQ((*OpenReplica(files_, dir))->StateDigest(), replica->StateDigest());
    EXPECT_TRUE(VerifyLog(files_, dir).ok());
  }
}

TEST_F(ReplicaTest, APayloadOfAnotherFragmentIsNone) {
  // Broken: a vote would be given for bytes that no replica can step by.
  run_.fragments = 2;
  run_.elements = 1001;  // 500 and 501 values
  OwnedReplica replica = Create();
  EXPECT_EQ(replica->grid().elements(), 500u);
  EXPECT_FALSE(replica->Prepare(run_.Payload(2)).ok());
  v1::EntryHeader header = run_.NextHeader(*replica, run_.Payload(1));
  header.set_fragment(1);
  const SharedBytes payload = run_.Payload(1);
  EXPECT_FALSE(replica->Commit(header, &payload, {}).ok());
  run_.CommitTo(*replica, 1);
  EXPECT_EQ(replica->grid().elements(), 501u);
}

TEST_F(ReplicaTest, SaysNotFoundForAPayloadThatIsNotHereAndTakesItLater) {
  // Broken: a peer that missed the exchange could not catch up, or would step by other bytes.
  OwnedReplica replica = Create();
  const SharedBytes other = run_.Payload(7);
  const SharedBytes payload = run_.Payload(1);
  ASSERT_TRUE(replica->Prepare(other).ok());
  const v1::EntryHeader header = run_.NextHeader(*replica, payload);
  EXPECT_TRUE(absl::IsNotFound(replica->Commit(header, nullptr, {})));
  EXPECT_TRUE(absl::IsNotFound(replica->Commit(header, &other, {})));
  EXPECT_EQ(replica->version(), 0u);
  EXPECT_EQ(replica->prepared_digest(), TreeDigest(other.span()));
  EXPECT_TRUE(replica->Commit(header, &payload, {}).ok());
  EXPECT_EQ(Open()->StateDigest(), replica->StateDigest());
}

TEST_F(ReplicaTest, RefusesAHeaderThatBelongsToAnotherState) {
  // Broken: drift between replicas would go unseen.
  OwnedReplica replica = Create();
  const SharedBytes payload = run_.Payload(1);
  v1::EntryHeader header = run_.NextHeader(*replica, payload);
  header.set_previous_state_digest(ToBytes(Sha256({})));
  const absl::Status status = replica->Commit(header, &payload, {});
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr(ToHex(Sha256({}))));
  EXPECT_THAT(std::string(status.message()), HasSubstr(ToHex(replica->StateDigest())));
  EXPECT_EQ(replica->version(), 0u);
}

TEST_F(ReplicaTest, RefusesWhatCannotBeSteppedBeforeItIsDurable) {
  // Broken: a header in the log that no replica can apply would make every restart fail.
  OwnedReplica replica = Create();
  const SharedBytes payload = run_.Payload(1);
  v1::EntryHeader header = run_.NextHeader(*replica, payload);
  header.clear_scalars();
  EXPECT_TRUE(absl::IsInvalidArgument(replica->Commit(header, &payload, {})));
  const SharedBytes garbage(std::string(payload.size(), 'g'));
  EXPECT_TRUE(absl::IsInvalidArgument(replica->Prepare(garbage)));
  header = run_.NextHeader(*replica, garbage);
  EXPECT_TRUE(absl::IsInvalidArgument(replica->Commit(header, &garbage, {})));
  EXPECT_EQ(Open()->version(), 0u);
}

TEST_F(ReplicaTest, ARefusedCommitNamesItsEntryOnce) {
  // Broken: a peer that stops for it logs "entry 46: entry 46: ...", or names no entry at all.
  OwnedReplica replica = Create();
  const SharedBytes payload = run_.Payload(1);
  const std::vector<std::function<void(v1::EntryHeader*)>> changes = {
      [](v1::EntryHeader* header) { header->set_run_id("another"); },
      [](v1::EntryHeader* header) { header->set_version(2); },
      [](v1::EntryHeader* header) { header->set_outer_rule("another"); },
      [](v1::EntryHeader* header) { header->set_codec("another"); },
      [](v1::EntryHeader* header) { header->clear_scalars(); },
      [](v1::EntryHeader* header) { header->set_payload_digest("short"); },
      [](v1::EntryHeader* header) { header->set_previous_header_digest("short"); },
      [](v1::EntryHeader* header) { header->set_previous_state_digest("short"); },
      [](v1::EntryHeader* header) { header->set_previous_state_digest(ToBytes(Sha256({}))); },
      [](v1::EntryHeader* header) { header->set_payload_digest(ToBytes(Sha256({}))); },
  };
  for (size_t i = 0; i < changes.size(); ++i) {
    v1::EntryHeader header = run_.NextHeader(*replica, payload);
    changes[i](&header);
    const std::string entry = absl::StrCat("entry ", header.version(), ": ");
    const std::string said(replica->Commit(header, &payload, {}).message());
    EXPECT_THAT(said, StartsWith(entry)) << i;
    EXPECT_EQ(said.find(entry, 1), std::string::npos) << said;
  }
  const SharedBytes garbage(std::string(payload.size(), 'g'));
  const std::string said(
      replica->Commit(run_.NextHeader(*replica, garbage), &garbage, {}).message());
  EXPECT_THAT(said, StartsWith("entry 1: payload: "));
  EXPECT_EQ(replica->version(), 0u);
}

TEST_F(ReplicaTest, HoldsTheSameBitsAfterEveryReopening) {
  // Broken: a peer that restarts would leave the run.
  OwnedReplica replica = Create();
  for (uint64_t version = 1; version <= 5; ++version) {
    run_.CommitTo(*replica, version);
    OwnedReplica reopened = Open();
    EXPECT_EQ(reopened->version(), version);
    EXPECT_EQ(reopened->StateDigest(), replica->StateDigest());
    EXPECT_EQ(reopened->header_digest(), replica->header_digest());
    EXPECT_EQ(HeaderDigest(*reopened->header()), replica->header_digest());
    replica = std::move(reopened);
  }
}

TEST_F(ReplicaTest, KeepsAPreparedPayloadThroughARestart) {
  // Broken: a vote would be for bytes that are gone.
  OwnedReplica replica = Create();
  run_.CommitTo(*replica, 2);
  ASSERT_TRUE(replica->Prepare(run_.Payload(50)).ok());
  ASSERT_TRUE(replica->Prepare(run_.Payload(3)).ok());
  disk_.CrashNow(SimDisk::Crash::kLoseUnsynced);
  SimFiles files(disk_);
  const OwnedReplica reopened = *OpenReplica(files, "/r");
  EXPECT_EQ(reopened->prepared_digest(), TreeDigest(run_.Payload(3).span()));
  EXPECT_TRUE(reopened->Commit(run_.NextHeader(*reopened, run_.Payload(3)), nullptr, {}).ok());
}

TEST_F(ReplicaTest, GivesItsEntriesToOthers) {
  // Broken: nobody could catch up from this replica.
  OwnedReplica replica = Create();
  run_.CommitTo(*replica, 3);
  ASSERT_TRUE(replica->Prepare(run_.Payload(4)).ok());
  for (uint64_t version = replica->oldest_entry(); version <= 3; ++version) {
    const absl::StatusOr<Entry> entry = replica->ReadEntry(version);
    ASSERT_TRUE(entry.ok()) << entry.status();
    EXPECT_EQ(entry->header.version(), version);
    EXPECT_EQ(entry->payload.str(), run_.Payload(version).str());
  }
  EXPECT_TRUE(absl::IsNotFound(replica->ReadEntry(0).status()));
  EXPECT_TRUE(absl::IsNotFound(replica->ReadEntry(4).status()));
}

TEST_F(ReplicaTest, IsClosedByItsSealAlone) {
  // Broken: a run could be sealed with another's digests, or go on after its end.
  OwnedReplica replica = Create();
  run_.CommitTo(*replica, 2);
  const v1::Seal seal = SealOf(*replica);
  v1::Seal wrong = seal;
  wrong.set_version(1);
  EXPECT_TRUE(absl::IsFailedPrecondition(replica->WriteSeal(wrong)));
  wrong = seal;
  wrong.set_run_id("other");
  EXPECT_TRUE(absl::IsFailedPrecondition(replica->WriteSeal(wrong)));
  wrong = seal;
  wrong.set_state_digest(seal.header_digest());
  EXPECT_TRUE(absl::IsFailedPrecondition(replica->WriteSeal(wrong)));
  wrong = seal;
  wrong.set_header_digest(seal.state_digest());
  EXPECT_TRUE(absl::IsFailedPrecondition(replica->WriteSeal(wrong)));
  EXPECT_FALSE(replica->seal().has_value());
  ASSERT_TRUE(replica->WriteSeal(seal).ok());
  const SharedBytes payload = run_.Payload(3);
  EXPECT_TRUE(absl::IsFailedPrecondition(replica->Prepare(payload)));
  EXPECT_TRUE(absl::IsFailedPrecondition(
      replica->Commit(run_.NextHeader(*replica, payload), &payload, {})));
  EXPECT_EQ(Open()->seal()->state_digest(), seal.state_digest());
}

TEST_F(ReplicaTest, KeepsItsStateWhenTheDiskIsFull) {
  // Broken: a full disk would leave half an entry in the log, or a state that is ahead of it.
  OwnedReplica replica = Create();
  run_.CommitTo(*replica, 2);
  const SharedBytes payload = run_.Payload(3);
  const v1::EntryHeader header = run_.NextHeader(*replica, payload);
  const Digest digest = replica->StateDigest();
  for (uint64_t room = 0; room < 3000; room += 37) {
    disk_.SetCapacity(disk_.used() + room);
    const absl::Status status = replica->Commit(header, &payload, {});
    if (status.ok()) break;
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
    EXPECT_EQ(replica->StateDigest(), digest);
    disk_.SetCapacity(std::numeric_limits<uint64_t>::max());
    EXPECT_EQ(Open()->StateDigest(), digest);
  }
  disk_.SetCapacity(std::numeric_limits<uint64_t>::max());
  if (replica->version() == 2) {
    ASSERT_TRUE(replica->Commit(header, &payload, {}).ok());
  }
  EXPECT_EQ(Open()->version(), 3u);
  EXPECT_EQ(Open()->StateDigest(), replica->StateDigest());
}

TEST_F(ReplicaTest, PayloadsAreInTheCodecOfMeans) {
  // Broken: where updates have another codec, smaller or larger, entries would be refused or read
  // as what they are not, now or when the log is opened again.
  for (const auto& [updates, means] : {std::pair("int2", "fp32"), std::pair("fp32", "int4")}) {
    run_.update_codec = updates;
    run_.codec = means;
    const std::string dir = absl::StrCat("/", updates, means);
    OwnedReplica replica = *CreateReplica(files_, dir, run_);
    for (uint64_t version = 1; version <= 3; ++version) {
      const SharedBytes payload = run_.Payload(version);
      ASSERT_TRUE(replica->Prepare(payload).ok());
      v1::EntryHeader header = run_.NextHeader(*replica, payload);
      header.set_codec(updates);
      EXPECT_FALSE(replica->Commit(header, nullptr, {}).ok());
      ASSERT_TRUE(replica->Commit(run_.NextHeader(*replica, payload), nullptr, {}).ok());
    }
    const absl::StatusOr<OwnedReplica> opened = OpenReplica(files_, dir);
    ASSERT_TRUE(opened.ok()) << opened.status();
    EXPECT_EQ((*opened)->version(), 3u);
    EXPECT_EQ((*opened)->StateDigest(), replica->StateDigest());
  }
}

TEST_F(ReplicaTest, HoldsTheSameBitsUnderEverySimdTarget) {
  // Broken: replicas on different CPUs would drift apart.
  std::vector<std::string> targets = SimdTargetNames();
  while (targets.size() < 3) targets.push_back(targets.back());
  for (const std::string& codec : CodecNames()) {
    run_.codec = codec;
    std::vector<OwnedReplica> replicas;
    for (size_t i = 0; i < targets.size(); ++i) {
      replicas.push_back(*CreateReplica(files_, absl::StrCat("/", codec, i), run_));
    }
    for (uint64_t version = 1; version <= 10; ++version) {
      const SharedBytes payload = run_.Payload(version);
      const v1::EntryHeader header = run_.NextHeader(*replicas[0], payload);
      for (size_t i = 0; i < targets.size(); ++i) {
        const ScopedSimdTarget pinned(targets[i]);
        ASSERT_TRUE(replicas[i]->Commit(header, &payload, {}).ok());
        EXPECT_EQ(replicas[i]->StateDigest(), replicas[0]->StateDigest()) << targets[i];
      }
    }
  }
}

}  // namespace
}  // namespace atolld
