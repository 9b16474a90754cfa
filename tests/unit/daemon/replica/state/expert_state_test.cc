// The state of a run whose peers own experts: what an entry steps, in memory and in snapshots.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compression/base/check.h"
#include "daemon/replica/state/layout.h"
#include "daemon/replica/state/replica.h"
#include "daemon/replica/state/snapshot.h"
#include "daemon/replica/state/state_memory.h"
#include "daemon/replica/state/verify.h"
#include "membership/history/header.h"
#include "tests/sim/sim_disk.h"
#include "tests/unit/daemon/replica/state/test_run.h"
#include "tests/unit/membership/history/records_text.h"

namespace atolld {
namespace {

// A range of the flat vector of 1000 values, and where it begins in the entry's vector: by hand,
// with chunks of 256 values.
struct PlacedRange {
  size_t first;
  size_t at;
  size_t count;
};
const std::vector<PlacedRange> kSharedRanges = {{0, 0, 300}, {700, 300, 100}};
const std::vector<PlacedRange> kRangesOfExpert[] = {{{300, 512, 200}, {800, 712, 100}},
                                                    {{500, 1024, 200}, {900, 1224, 100}}};
constexpr size_t kPaddedElements = 1324;

// No run with experts has this rule.
bool CountsUpdates(const std::string& rule) { return rule == "delayed_nesterov"; }

std::vector<float> DecodedEntry(const ChunkGrid& grid, const Codec& codec,
                                const SharedBytes& payload) {
  std::vector<float> mean(grid.elements());
  const std::vector<SharedBytes> chunks = SplitPayload(grid, codec, payload).value();
  for (uint32_t chunk = 0; chunk < grid.chunks(); ++chunk) {
    const absl::Span<float> values =
        absl::MakeSpan(mean).subspan(grid.Offset(chunk), grid.Elements(chunk));
    CHECK_OK(codec.Decode(chunks[chunk].span(), values));
  }
  return mean;
}

class ExpertStateTest : public ::testing::Test {
 protected:
  ExpertStateTest() { run_.experts = true; }

  SimDisk disk_;
  SimFiles files_{disk_};
  TestRun run_;
};

// A state as StateMemory makes it, and beside it the same one stepped range by range with the rule.
struct TwoStates {
  explicit TwoStates(const TestRun& made)
      : run(made),
        genesis(run.Genesis()),
        fragments(genesis.spec(), genesis.manifest()),
        rule(*FindOuterRule(run.rule).value()),
        theta(run.Theta()),
        memory(genesis, absl::MakeSpan(theta), StateMemory::MakeBuffers(genesis, "").value()),
        expected(1 + rule.buffers().size(), std::vector<float>(run.elements, 0.0f)) {
    expected[0] = theta;
  }

  void StepRanges(const v1::EntryHeader& header, absl::Span<const float> mean,
                  const std::vector<PlacedRange>& ranges) {
    for (const PlacedRange& range : ranges) {
      std::vector<absl::Span<float>> parts;
      for (std::vector<float>& buffer : expected) {
        parts.push_back(absl::MakeSpan(buffer).subspan(range.first, range.count));
      }
      CHECK_OK(rule.Step(ScalarsOf(header), mean.subspan(range.at, range.count), parts[0],
                         absl::MakeConstSpan(parts).subspan(1)));
    }
  }

  const TestRun run;
  const v1::Genesis genesis;
  const Fragments fragments;
  const OuterRule& rule;
  std::vector<float> theta;
  StateMemory memory;
  std::vector<std::vector<float>> expected;  // theta and the buffers
};

TEST_F(ExpertStateTest, AnEntryLeavesAnExpertOfNobodyAsItIs) {
  // Broken: the momentum of an expert that nobody has trained would move it on and decay; or the
  // values of one part would be stepped by the means of another.
  for (const std::string& rule : OuterRuleNames()) {
    if (CountsUpdates(rule)) continue;
    run_.rule = rule;
    TwoStates states(run_);
    for (uint64_t version = 1; version <= 4; ++version) {
      const SharedBytes payload = run_.Payload(version);
      const v1::EntryHeader header = run_.Header(version, Digest(), Digest(), payload);
      const EntryStep step = EntryStep::Make(states.fragments, header).value();
      ASSERT_EQ(step.grid().elements(), kPaddedElements);
      const std::vector<float> before = states.theta;
      std::vector<float> difference(run_.elements, 7.0f);
      states.memory.Step(step, payload, absl::MakeSpan(difference));
      const std::vector<float> mean = DecodedEntry(step.grid(), step.codec(), payload);
      states.StepRanges(header, mean, kSharedRanges);
      states.StepRanges(header, mean, kRangesOfExpert[version % 2 == 0 ? 0 : 1]);
      EXPECT_EQ(states.memory.version(), version);
      for (size_t i = 0; i < states.expected.size(); ++i) {
        const absl::Span<const float> made = states.memory.Buffer(static_cast<int>(i));
        ASSERT_TRUE(std::equal(made.begin(), made.end(), states.expected[i].begin()))
            << rule << ", version " << version << ", buffer " << i;
      }
      for (const PlacedRange& still : kRangesOfExpert[version % 2 == 0 ? 1 : 0]) {
        for (size_t i = still.first; i < still.first + still.count; ++i) {
          ASSERT_EQ(states.theta[i], before[i]) << rule << ", version " << version;
        }
      }
      for (size_t i = 0; i < difference.size(); ++i) {
        ASSERT_EQ(difference[i], states.theta[i] - before[i]) << rule << ", value " << i;
      }
    }
  }
}

TEST_F(ExpertStateTest, AStepCoversThePartsThatSomebodyHasTrained) {
  // Broken: snapshots, which step by these pieces, would step an expert of nobody.
  const v1::Genesis genesis = run_.Genesis();
  const Fragments fragments(genesis.spec(), genesis.manifest());
  v1::EntryHeader header = run_.Header(1, Digest(), Digest(), run_.Payload(1));
  const auto covered = [&] {
    std::string all;
    const EntryStep step = EntryStep::Make(fragments, header).value();
    for (const FragmentMap::Piece& piece : step.covers().pieces()) {
      absl::StrAppend(&all, piece.first, "+", piece.count, " ");
    }
    EXPECT_EQ(step.covers().elements(), kPaddedElements);
    return all;
  };
  EXPECT_EQ(covered(), "0+300 500+200 700+100 900+100 ");
  header = run_.Header(2, Digest(), Digest(), run_.Payload(2));
  EXPECT_EQ(covered(), "0+300 300+200 700+100 800+100 ");
  // A single chunk of an expert may lack its owners: they were lost before they had sent it.
  *header.mutable_records() =
      RecordsOf({{"p2", {{3, "\x02"}, {1, std::string(1, '\0')}}}, {"p1", {{2, "\x07"}}}});
  EXPECT_EQ(covered(), "0+300 300+200 500+200 700+100 800+56 900+100 ");
}

TEST_F(ExpertStateTest, TheGridOfAReplicaIsPadded) {
  // Broken: a vote would be given for bytes that no replica can step by.
  const OwnedReplica replica = *CreateReplica(files_, "/r", run_);
  EXPECT_EQ(replica->grid().elements(), kPaddedElements);
  EXPECT_EQ(replica->grid().Part(1), 0u);
  EXPECT_EQ(replica->grid().Part(2), 1u);
  EXPECT_EQ(replica->grid().Part(5), 2u);
  TestRun flat;
  flat.elements = run_.elements;
  EXPECT_FALSE(replica->Prepare(flat.Payload(1)).ok());
  EXPECT_TRUE(replica->Prepare(run_.Payload(1)).ok());
}

TEST_F(ExpertStateTest, ASnapshotHoldsWhatTheReplicaSteps) {
  // Broken: a peer that restarts from a snapshot, or a joiner, would hold other bits of the experts
  // that nobody has trained in some entry than those who stepped live.
  for (const uint64_t elements : {1000, 300000, 1300001}) {
    for (const uint32_t chunk_elements : {256u, 12288u, 262144u}) {
      if (elements > 1000 && chunk_elements == 256) continue;
      run_.elements = elements;
      run_.chunk_elements = chunk_elements;
      const std::string dir = absl::StrCat("/", elements, "-", chunk_elements);
      OwnedReplica replica = *CreateReplica(files_, dir, run_);
      run_.CommitTo(*replica, 3);
      const absl::Status status = Replica::AdvanceSnapshots(files_, dir, {3, 1}, 3);
      ASSERT_TRUE(status.ok()) << status;
      EXPECT_THAT(*ListSnapshots(files_, dir), ::testing::ElementsAre(3));
      EXPECT_EQ((*OpenReplica(files_, dir))->StateDigest(), replica->StateDigest()) << dir;
      run_.CommitTo(*replica, 5);
      EXPECT_EQ((*OpenReplica(files_, dir))->StateDigest(), replica->StateDigest()) << dir;
      EXPECT_TRUE(VerifyLog(files_, dir).ok()) << dir;
    }
  }
}

}  // namespace
}  // namespace atolld
