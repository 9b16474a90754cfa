// What the coordinator says and demands in a run whose peers own experts.
#include "membership/run/run_experts.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compression/base/bitmap.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

// A model with the shared tensor "wte" and experts 2, 5 and 8, each with 4 values; chunks have 4.
v1::Genesis ThreeExperts(uint32_t owners) {
  v1::Genesis genesis;
  v1::RunSpec& spec = *genesis.mutable_spec();
  spec.set_run_id("r1");
  spec.set_seed(7);
  spec.mutable_exchange()->set_chunk_elements(4);
  if (owners > 0) {
    spec.mutable_experts()->set_owners(owners);
    spec.mutable_experts()->add_tensors("*.experts.#.*");
  }
  v1::Manifest& manifest = *genesis.mutable_manifest();
  for (const std::string name : {"wte", "h.experts.2.up", "h.experts.5.up", "h.experts.8.up"}) {
    v1::Tensor* const tensor = manifest.add_tensors();
    tensor->set_name(name);
    const uint64_t values = name == "wte" ? 6 : 4;
    tensor->add_shape(values);
    tensor->set_offset(manifest.elements());
    manifest.set_elements(manifest.elements() + values);
  }
  return genesis;
}

// Adapters of rank 6 in three slices, each with 4 values.
v1::Genesis ThreeSlices() {
  v1::Genesis genesis;
  v1::RunSpec& spec = *genesis.mutable_spec();
  spec.set_run_id("r1");
  spec.mutable_exchange()->set_chunk_elements(4);
  spec.mutable_model()->set_lora_rank(6);
  spec.mutable_model()->set_lora_slice(2);
  spec.mutable_experts()->add_tensors("*.slice#*");
  for (int slice = 0; slice < 3; ++slice) {
    v1::Tensor* const tensor = genesis.mutable_manifest()->add_tensors();
    tensor->set_name(absl::StrCat("h.lora_A.slice", slice, ".weight"));
    tensor->add_shape(4);
    tensor->set_offset(genesis.manifest().elements());
    genesis.mutable_manifest()->set_elements(genesis.manifest().elements() + 4);
  }
  return genesis;
}

// A coordinator's record of a run, and a round in which the peers that join train.
struct ExpertsFixture {
  explicit ExpertsFixture(uint32_t owners, const v1::EntryHeader* newest = nullptr)
      : ExpertsFixture(ThreeExperts(owners), newest) {}
  explicit ExpertsFixture(const v1::Genesis& genesis, const v1::EntryHeader* newest = nullptr)
      : settings(Settings()),
        stored(Stored(genesis, newest)),
        ledger(settings, stored, absl::UnixEpoch()),
        roster(absl::Seconds(1000), absl::UnixEpoch(), {}),
        round({2, 1}, true, ledger.version() + 1) {}

  static RunSettings Settings() {
    RunSettings settings;
    settings.genesis_digest = [](const v1::Genesis&) { return std::string(32, 'g'); };
    settings.header_digest = [](const v1::EntryHeader&) { return std::string(32, 'h'); };
    return settings;
  }
  static StoredRun Stored(const v1::Genesis& genesis, const v1::EntryHeader* newest) {
    StoredRun stored;
    stored.genesis = genesis;
    stored.spec = stored.genesis->spec();
    stored.epoch = 1;
    if (newest != nullptr) stored.headers.push_back(*newest);
    return stored;
  }

  void Join(const std::string& peer, uint32_t lora_rank = 0) {
    v1::Hello hello;
    hello.set_peer(peer);
    hello.set_has_state(true);
    hello.set_version(round.version() - 1);
    roster.Join(absl::UnixEpoch(), ++sessions, hello);
    round.trainer(peer).worker_ready = true;
    round.trainer(peer).lora_rank = lora_rank;
  }
  std::string Told(const std::string& peer) {
    v1::Train train;
    experts.Tell(ledger, round, roster, peer, &train);
    return train.owned();
  }
  absl::Status Check(const std::string& peer, const std::string& owned) {
    v1::Ready ready;
    ready.set_owned(owned);
    return experts.Check(ledger, peer, ready);
  }
  // Returns what an update that was trained on these experts counts for.
  std::string Limited(const std::string& peer, const std::string& owned) {
    v1::Ready ready;
    ready.set_owned(owned);
    ExchangeContributor contributor;
    contributor.member.set_peer(peer);
    experts.Limit(ready, &contributor);
    return contributor.member.owned();
  }
  // Returns text such as "2:a,b 5:a ".
  std::string Shown() const {
    v1::RunStatus status;
    experts.Show(&status);
    std::string all;
    for (const v1::ExpertStatus& expert : status.experts()) {
      absl::StrAppend(&all, expert.number(), ":");
      for (const std::string& owner : expert.owners()) absl::StrAppend(&all, owner, ",");
      absl::StrAppend(&all, " ");
    }
    return all;
  }

  const RunSettings settings;
  const StoredRun stored;
  Ledger ledger;
  SessionId sessions = 0;
  Roster roster;
  Round round;
  RunExperts experts;
};

// Broken: peers would train experts that nobody has assigned to them, or an expert would have no
// owner although there are peers.
TEST(RunExperts, TellsEachPeerWhatItOwns) {
  ExpertsFixture f(1);
  f.Join("a");
  f.Join("b");
  const std::string a = f.Told("a");
  const std::string b = f.Told("b");
  EXPECT_TRUE(ValidOwned(a, 3));
  EXPECT_TRUE(ValidOwned(b, 3));
  EXPECT_FALSE(Overlap(a, b)) << "one owner each";
  EXPECT_EQ(CountBits(a) + CountBits(b), 3u);
  EXPECT_EQ(f.Told("a"), a) << "fixed for the round";

  ExpertsFixture two(2);
  two.Join("a");
  two.Join("b");
  EXPECT_EQ(two.Told("a"), "\x07");
  EXPECT_EQ(two.Told("b"), "\x07");
}

// Broken: status would not say who trains what, or would number experts by their places.
TEST(RunExperts, ShowsTheOwnersByTheExpertsNumbers) {
  ExpertsFixture f(2);
  EXPECT_EQ(f.Shown(), "");
  f.Join("a");
  f.Join("b");
  f.Told("a");
  EXPECT_EQ(f.Shown(), "2:a,b, 5:a,b, 8:a,b, ");
}

// Broken: an update would be planned of which nobody knows what it covers, and peers would refuse
// the plan.
TEST(RunExperts, RefusesAnUpdateThatDoesNotSayWhatItCovers) {
  ExpertsFixture f(1);
  for (const std::string& owned : {std::string(), std::string(2, '\0'), std::string("\x08")}) {
    const absl::Status refused = f.Check("a", owned);
    EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
    EXPECT_THAT(std::string(refused.message()), HasSubstr("3 experts"));
  }
  EXPECT_TRUE(f.Check("a", std::string(1, '\0')).ok()) << "the shared part alone";
  EXPECT_TRUE(f.Check("a", "\x07").ok());
}

// Broken: the update of a former owner would count for an expert that has gone to another peer, or
// a peer could claim experts that it was not told to train.
TEST(RunExperts, AnUpdateCountsForWhatItsPeerHasTrainedAndOwns) {
  ExpertsFixture f(1);
  f.Join("a");
  f.Join("b");
  const std::string own = f.Told("a");
  ASSERT_GT(CountBits(own), 0u);
  EXPECT_EQ(f.Limited("a", "\x07"), own) << "not for what others own";
  EXPECT_EQ(f.Limited("a", own), own);
  EXPECT_EQ(f.Limited("a", OwnsNothing(3)), OwnsNothing(3)) << "not for what it has not trained";
  EXPECT_EQ(f.Limited("z", "\x07"), OwnsNothing(3)) << "not one of the round's peers";
}

// Broken: a restart of the coordinator would shuffle the experts, or drop what peers have trained
// meanwhile.
TEST(RunExperts, ARestartKeepsTheOwners) {
  v1::EntryHeader newest;
  newest.set_version(1);
  for (const char* peer : {"a", "b"}) {
    v1::Contributor* const contributor = newest.add_contributors();
    contributor->set_peer(peer);
    contributor->set_owned(*peer == 'a' ? "\x05" : "\x02");
  }
  ExpertsFixture f(1, &newest);
  f.Join("a");
  f.Join("b");
  EXPECT_EQ(f.Told("a"), "\x05");
  EXPECT_EQ(f.Told("b"), "\x02");
  // An update that comes before the first Train says what the former process has told its peer.
  ExpertsFixture early(1);
  EXPECT_TRUE(early.Check("a", "\x02").ok());
  EXPECT_EQ(early.Limited("a", "\x02"), "\x02");
  EXPECT_TRUE(early.Check("b", "\x03").ok());
  EXPECT_EQ(early.Limited("b", "\x03"), "\x01") << "a owns the other already";
}

// Broken: exchanges would be planned by the flat vector's size, and no shard would fit the peers'
// grids.
TEST(RunExperts, AnEntryHasThePaddedVector) {
  ExpertsFixture f(1);
  EXPECT_EQ(f.experts.Elements(f.ledger, 1), 20u) << "6 values are padded to 8";
  ExchangeTerms terms;
  terms.version = 1;
  terms.chunk_elements = 4;
  f.experts.Fill(f.ledger, &terms);
  ASSERT_EQ(terms.grid.chunks(), 5u);
  EXPECT_EQ(terms.grid.experts(), 3u);
  EXPECT_EQ(terms.grid.Part(1), 0u);
  EXPECT_EQ(terms.grid.Part(4), 3u);
}

// Broken: a machine would be told to train ranks for which it is too small, or its update would not
// count for all that it has trained.
TEST(RunExperts, OfSlicesEachPeerTrainsWhatItSays) {
  ExpertsFixture f(ThreeSlices());
  f.Join("all");
  f.Join("small", 2);
  f.Join("middle", 4);
  EXPECT_EQ(f.Told("small"), "\x01");
  EXPECT_EQ(f.Told("middle"), "\x03");
  EXPECT_EQ(f.Told("all"), "\x07");
  EXPECT_EQ(f.Shown(), "0:all,middle,small, 1:all,middle, 2:all, ");
  EXPECT_TRUE(f.Check("middle", "\x03").ok());
  EXPECT_FALSE(f.Check("middle", "\x08").ok());
  EXPECT_FALSE(f.Check("middle", std::string(1, '\0')).ok()) << "it covers nothing";
  EXPECT_EQ(f.Limited("middle", "\x03"), "\x03");
  // Its worker has been started again with another rank since.
  f.round.trainer("middle").lora_rank = 2;
  EXPECT_EQ(f.Told("middle"), "\x01");
  EXPECT_EQ(f.Limited("middle", "\x03"), "\x03") << "it has trained both";
  EXPECT_EQ(f.experts.Elements(f.ledger, 1), 12u) << "there is no shared part";
  // After a restart of the coordinator a peer offers what it was told before.
  ExpertsFixture early(ThreeSlices());
  EXPECT_TRUE(early.Check("small", "\x01").ok());
  EXPECT_EQ(early.Shown(), "0:small, 1: 2: ");
}

// Broken: a run without experts would tell its peers of owners, and refuse their updates.
TEST(RunExperts, WithoutExpertsNothingIsSaid) {
  ExpertsFixture f(0);
  f.Join("a");
  EXPECT_EQ(f.Told("a"), "");
  EXPECT_TRUE(f.Check("a", "").ok());
  EXPECT_FALSE(f.Check("a", "\x01").ok());
  EXPECT_EQ(f.Limited("a", ""), "");
  EXPECT_EQ(f.Shown(), "");
  EXPECT_EQ(f.experts.Elements(f.ledger, 1), 18u);
  ExchangeTerms terms;
  terms.version = 1;
  terms.chunk_elements = 4;
  f.experts.Fill(f.ledger, &terms);
  EXPECT_EQ(terms.grid.chunks(), 0u);
}

}  // namespace
}  // namespace atolld
