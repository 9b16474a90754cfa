// The exchange of a run whose peers own experts: an update has the chunks of its peer's experts and
// the shared ones, and a mean is over the owners of its chunk.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compression/base/bitmap.h"
#include "compression/codec.h"
#include "daemon/exchange/chunk_work.h"
#include "daemon/exchange/contribution.h"
#include "daemon/exchange/exchange_plan.h"
#include "daemon/exchange/reducer.h"
#include "membership/history/mean_records.h"
#include "tests/unit/compression/test_values.h"
#include "tests/unit/daemon/exchange/swarm.h"

namespace atolld {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ExpertVerdict = Reducer::Verdict;

std::shared_ptr<const std::vector<uint32_t>> PartsOfChunks(std::vector<uint32_t> parts) {
  return std::make_shared<const std::vector<uint32_t>>(std::move(parts));
}

std::vector<uint8_t> EncodedZeros(const Codec& codec, size_t elements) {
  std::vector<uint8_t> bytes(codec.MaxEncodedBytes(elements));
  bytes.resize(codec.Encode(std::vector<float>(elements, 0.0f), absl::MakeSpan(bytes)).value());
  return bytes;
}

// -----------------------------------------------------------------------------------------------
// Contributions.

// Broken: a peer would send experts that it has not trained, or its root would not fit what it
// sends; or the chunks that it does send would be rounded in another way than those of a whole
// update.
TEST(ExpertContribution, HasOnlyTheChunksThatItCovers) {
  const ChunkGrid grid(1000, 256, PartsOfChunks({0, 1, 1, 2}));
  const std::vector<float> values = BellValues(1000, 5);
  for (const bool stochastic : {false, true}) {
    const Codec& codec = **FindCodec("int8");
    const Rounding rounding{stochastic, 77};
    const Contribution whole = EncodeContribution(grid, codec, rounding, values).value();
    const Contribution own = EncodeContribution(grid, codec, rounding, values, "\x02").value();
    ASSERT_EQ(own.chunks.size(), 4u);
    for (const uint32_t chunk : {0u, 3u}) {
      EXPECT_EQ(own.chunks[chunk].span(), whole.chunks[chunk].span()) << chunk;
      EXPECT_EQ(own.digests[chunk], whole.digests[chunk]) << chunk;
      EXPECT_EQ(own.norms[chunk].squared_norm, whole.norms[chunk].squared_norm) << chunk;
    }
    for (const uint32_t chunk : {1u, 2u}) {
      EXPECT_TRUE(own.chunks[chunk].empty()) << chunk;
      const Leaf leaf = LeafOf(own.leaves, chunk);
      EXPECT_EQ(leaf.digest, Sha256({})) << chunk;
      EXPECT_EQ(leaf.norms.squared_norm, 0.0) << chunk;
      EXPECT_EQ(leaf.norms.squared_distance, 0.0) << chunk;
    }
    EXPECT_EQ(own.root, ContributionRoot(own.leaves));
    EXPECT_NE(own.root, whole.root);
    EXPECT_EQ(SquaredNormOf(own.leaves), whole.norms[0].squared_norm + whole.norms[3].squared_norm);
    EXPECT_EQ(EncodeContribution(grid, codec, rounding, values, "\x03").value().root, whole.root);
  }
}

// Broken: a peer that owns no expert could not take part.
TEST(ExpertContribution, MayHaveTheSharedChunksAlone) {
  const ChunkGrid grid(1000, 256, PartsOfChunks({0, 1, 1, 2}));
  const Contribution own = EncodeContribution(grid, **FindCodec("int8"), Rounding(),
                                              BellValues(1000, 5), std::string(1, '\0'))
                               .value();
  EXPECT_FALSE(own.chunks[0].empty());
  for (const uint32_t chunk : {1u, 2u, 3u}) EXPECT_TRUE(own.chunks[chunk].empty()) << chunk;
  EXPECT_EQ(SquaredNormOf(own.leaves), own.norms[0].squared_norm);
}

// -----------------------------------------------------------------------------------------------
// Plans and reducers.

// Chunk 0 is shared, 1 and 2 belong to expert 0, which a and b own, and 3 belongs to expert 1,
// which nobody owns. c owns nothing. a averages everything.
ChunkGrid OwnedGrid() { return ChunkGrid(8, 2, PartsOfChunks({0, 1, 1, 2})); }

v1::Plan OwnedPlan(uint32_t revision) {
  v1::Plan plan;
  plan.set_version(1);
  plan.set_epoch(1);
  plan.set_revision(revision);
  plan.set_parameters(8);
  for (const char* name : {"a", "b", "c"}) {
    v1::PlanMember* const member = plan.add_contributors();
    member->set_peer(name);
    member->set_weight_bits(0x3f800000);
    member->set_owned(std::string(1, *name == 'c' ? '\0' : '\1'));
  }
  v1::Shard* const shard = plan.add_shards();
  shard->set_chunks(4);
  shard->set_reducer("a");
  shard->set_attempt(1);
  return plan;
}

// A reducer with what its owner would hear.
struct OwnedBooks {
  void Update(const v1::Plan& plan) {
    revision = plan.revision();
    reducer.Update(ExchangePlan::Make(plan, OwnedGrid()).value(), &ready, &ask_again);
  }
  ExpertVerdict Add(uint32_t chunk, uint32_t sender) {
    const Piece piece{sender, SingleBit(3, sender), false, SharedBytes(std::string(10, 'x')), true};
    return reducer.Add({chunk, 1, revision}, piece, &ready);
  }
  // Returns the chunks that were given out since the last call, with the senders of their pieces.
  std::vector<std::pair<uint32_t, std::vector<uint32_t>>> TakeReady() {
    std::vector<std::pair<uint32_t, std::vector<uint32_t>>> taken;
    for (const Reducer::Work& work : ready) {
      taken.emplace_back(work.chunk, std::vector<uint32_t>());
      for (const Piece& piece : work.pieces) taken.back().second.push_back(piece.sender);
    }
    ready.clear();
    return taken;
  }

  Reducer reducer{"a"};
  uint32_t revision = 0;
  std::vector<Reducer::Work> ready;
  std::set<uint32_t> ask_again;
};

using Given = std::pair<uint32_t, std::vector<uint32_t>>;

// Broken: a round would wait until its deadline for chunks that nobody sends.
TEST(ExpertReducer, WaitsForTheOwnersAlone) {
  OwnedBooks books;
  books.Update(OwnedPlan(1));
  EXPECT_THAT(books.TakeReady(), ElementsAre(Given(3, {}))) << "no owner: at once, of nobody";
  EXPECT_EQ(books.Add(1, 1), ExpertVerdict::kTaken);
  EXPECT_THAT(books.TakeReady(), IsEmpty());
  EXPECT_EQ(books.Add(1, 0), ExpertVerdict::kTaken);
  EXPECT_THAT(books.TakeReady(), ElementsAre(Given(1, {0, 1})));
  for (const uint32_t sender : {0u, 1u}) EXPECT_EQ(books.Add(0, sender), ExpertVerdict::kTaken);
  EXPECT_THAT(books.TakeReady(), IsEmpty()) << "all train what is shared";
  EXPECT_EQ(books.Add(0, 2), ExpertVerdict::kTaken);
  EXPECT_THAT(books.TakeReady(), ElementsAre(Given(0, {0, 1, 2})));
}

// Broken: a peer that does not train an expert could have its values in the expert's mean.
TEST(ExpertReducer, TakesNoChunkFromANonOwner) {
  OwnedBooks books;
  books.Update(OwnedPlan(1));
  EXPECT_EQ(books.Add(1, 2), ExpertVerdict::kForeign);
  EXPECT_EQ(books.Add(3, 0), ExpertVerdict::kForeign);
  EXPECT_EQ(books.reducer.held_bytes(), 0u);
}

// Broken: the death of an expert's owner would hold up the round, or its last owner's would end it.
TEST(ExpertReducer, GoesOnWithoutOwnersThatAreGone) {
  OwnedBooks books;
  books.Update(OwnedPlan(1));
  books.TakeReady();
  books.Add(1, 0);
  v1::Plan next = OwnedPlan(2);
  next.add_lost("b");
  books.Update(next);
  EXPECT_THAT(books.TakeReady(), ElementsAre(Given(1, {0})));
  // a has lied: then the expert's other chunk has no owner left.
  books.reducer.Refuse(0, &books.ready);
  EXPECT_THAT(books.TakeReady(), ElementsAre(Given(2, {})));
}

// Broken: peers would follow a plan from which it does not follow who sends what, or the owners of
// an exchange would change while it goes on.
TEST(ExpertPlan, SaysWhatEachContributorOwns) {
  const ExchangePlan plan = ExchangePlan::Make(OwnedPlan(1), OwnedGrid()).value();
  EXPECT_TRUE(plan.Brings(0, 1));
  EXPECT_TRUE(plan.Brings(2, 0));
  EXPECT_FALSE(plan.Brings(2, 1));
  EXPECT_FALSE(plan.Brings(0, 3));
  const auto mean_of = [&](const char* bits, uint32_t chunk) {
    return plan.MayBeMeanOf(std::string(bits, 1), chunk);
  };
  EXPECT_TRUE(mean_of("\x07", 0));
  EXPECT_FALSE(mean_of("\0", 0)) << "a shared chunk of nobody";
  EXPECT_FALSE(mean_of("\x08", 0)) << "a contributor beyond the last";
  EXPECT_TRUE(mean_of("\0", 1));
  EXPECT_TRUE(mean_of("\x01", 1));
  EXPECT_FALSE(mean_of("\x04", 1)) << "c does not own it";
  EXPECT_FALSE(plan.MayBeMeanOf("", 1));
  for (const std::string& owned : {std::string(), std::string(2, '\0'), std::string("\x04")}) {
    v1::Plan bad = OwnedPlan(1);
    bad.mutable_contributors(1)->set_owned(owned);
    const absl::Status refused = ExchangePlan::Make(bad, OwnedGrid()).status();
    EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
    EXPECT_THAT(std::string(refused.message()), HasSubstr("what b owns is not a bitmap"));
  }
  EXPECT_FALSE(ExchangePlan::Make(OwnedPlan(1), ChunkGrid(8, 2)).ok()) << "a run without experts";
  v1::Plan next = OwnedPlan(2);
  EXPECT_TRUE(plan.CheckSuccessor(ExchangePlan::Make(next, OwnedGrid()).value()).ok());
  next.mutable_contributors(2)->set_owned("\x01");
  EXPECT_FALSE(plan.CheckSuccessor(ExchangePlan::Make(next, OwnedGrid()).value()).ok());
}

// -----------------------------------------------------------------------------------------------
// Means.

absl::Status ReduceOwned(bool may_be_unowned, const std::vector<Piece>& pieces, Reduced* reduced) {
  const ChunkForm form{*FindCodec("int8"), false};
  MeanTerms terms;
  terms.weights = {1.0f, 2.0f, 3.0f};
  terms.scales = {1.0f, 1.0f, 1.0f};
  return Reduce(form, form, {1, 3, false, {}, may_be_unowned}, 50, terms, pieces, std::nullopt,
                reduced);
}

// Broken: reducers would give other bytes for an expert of nobody, or none, and the round would end
// without an entry; or a shared chunk of nobody would pass for a mean.
TEST(ExpertMean, OfNobodyIsTheEncodingOfZeros) {
  Reduced reduced;
  ASSERT_TRUE(ReduceOwned(true, {}, &reduced).ok());
  EXPECT_EQ(reduced.encoded.span(), absl::MakeConstSpan(EncodedZeros(**FindCodec("int8"), 50)));
  EXPECT_EQ(reduced.contributors, std::string(1, '\0'));
  EXPECT_THAT(reduced.partials, IsEmpty());
  EXPECT_EQ(reduced.squared_norm, 0.0);
  Reduced shared;
  EXPECT_TRUE(absl::IsInvalidArgument(ReduceOwned(false, {}, &shared)));
}

// Broken: a chunk that cannot be decoded would end the exchange if its sender is the only owner.
TEST(ExpertMean, LeavesOutAnOwnerThatCannotBeDecoded) {
  Reduced reduced;
  const Piece torn{1, SingleBit(3, 1), false, SharedBytes(std::string(3, 'x')), false};
  ASSERT_TRUE(ReduceOwned(true, {torn}, &reduced).ok());
  ASSERT_EQ(reduced.refused.size(), 1u);
  EXPECT_EQ(reduced.refused[0].first, 1u);
  EXPECT_EQ(reduced.contributors, std::string(1, '\0'));
  EXPECT_EQ(reduced.encoded.span(), absl::MakeConstSpan(EncodedZeros(**FindCodec("int8"), 50)));
}

// -----------------------------------------------------------------------------------------------
// Whole exchanges.

// Sixteen chunks, of which six are shared and the others belong to four experts.
SwarmSettings OwnedSwarm(const std::string& codec, bool zstd) {
  SwarmSettings settings;
  settings.codec = codec;
  settings.zstd = zstd;
  settings.parts = PartsOfChunks({0, 0, 0, 0, 0, 0, 1, 1, 1, 2, 2, 3, 3, 3, 4, 4});
  return settings;
}

// Experts 0 and 1 have two owners each, expert 2 has p2 alone and expert 3 has none.
void AddOwnersTo(Swarm* swarm) {
  swarm->Add("p1", true, "\x03");
  swarm->Add("p2", true, "\x05");
  swarm->Add("p3", true, "\x02");
}

std::vector<std::string> SetsOfChunks(const ExchangeOutcome& outcome) {
  std::vector<std::string> sets;
  for (const uint32_t chunk : {0u, 6u, 9u, 11u, 14u}) {
    sets.push_back(SetOfChunk(outcome.records, chunk).contributors());
  }
  return sets;
}

const std::string kNoOwner(1, '\0');

// Broken: the round itself, in a run with owners: peers would hold different bits, or the means of
// experts would be over others than their owners.
TEST(ExpertExchange, GivesEverybodyTheMeansOfTheOwners) {
  for (const bool zstd : {false, true}) {
    for (const char* codec : {"fp32", "int8"}) {
      Swarm swarm(OwnedSwarm(codec, zstd));
      AddOwnersTo(&swarm);
      const std::vector<std::string> names = {"p1", "p2", "p3"};
      const v1::Plan plan = swarm.MakePlan(names, names);
      for (const std::string& name : names) swarm.Give(name, plan);
      ASSERT_TRUE(swarm.world.RunUntil([&] { return swarm.Complete(names, 1); }, absl::Seconds(60)))
          << swarm.world.LogText();
      swarm.CheckOutcomes(names, plan, names);
      EXPECT_THAT(SetsOfChunks(swarm.peer("p1").outcomes.at(1)),
                  ElementsAre("\x07", "\x03", "\x05", "\x02", kNoOwner));
      for (const std::string& name : names) {
        EXPECT_THAT(swarm.peer(name).failed, IsEmpty());
        EXPECT_THAT(swarm.peer(name).refused, IsEmpty());
      }
    }
  }
}

// Broken: the death of an expert's only owner would end the exchange for all.
TEST(ExpertExchange, GoesOnWithoutAnExpertsOnlyOwner) {
  Swarm swarm(OwnedSwarm("int8", false));
  AddOwnersTo(&swarm);
  swarm.Kill("p2");
  v1::Plan plan = swarm.MakePlan({"p1", "p2", "p3"}, {"p1", "p3"});
  plan.add_lost("p2");
  const std::vector<std::string> left = {"p1", "p3"};
  for (const std::string& name : left) swarm.Give(name, plan);
  ASSERT_TRUE(swarm.world.RunUntil([&] { return swarm.Complete(left, 1); }, absl::Seconds(60)))
      << swarm.world.LogText();
  swarm.CheckOutcomes(left, plan, left);
  EXPECT_THAT(SetsOfChunks(swarm.peer("p3").outcomes.at(1)),
              ElementsAre("\x05", "\x01", "\x05", kNoOwner, kNoOwner));
}

}  // namespace
}  // namespace atolld
