#include "membership/planning/message_sizes.h"

#include <functional>
#include <string>
#include <vector>

#include "compression/base/bitmap.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "membership/history/mean_records.h"
#include "membership/planning/reduction_plan.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

SizeTerms Terms(uint64_t parameters, uint64_t peers, uint32_t chunk_elements = 65536) {
  SizeTerms terms;
  terms.parameters = parameters;
  terms.chunk_elements = chunk_elements;
  terms.peers = peers;
  terms.manifest_bytes = 65536;
  return terms;
}

// Would break: a run of a size that works would be refused.
TEST(MessageSizes, LargeModelsAndManyPeersPass) {
  for (const uint64_t parameters : {7'000'000'000u, 70'000'000'000u}) {
    for (const uint64_t peers : {1u, 128u, 1000u, 1024u}) {
      const absl::Status passes = CheckMessageSizes(Terms(parameters, peers));
      EXPECT_TRUE(passes.ok()) << passes;
    }
  }
}

// The largest of a figure that passes.
uint64_t Largest(uint64_t passes, uint64_t fails, const std::function<SizeTerms(uint64_t)>& terms) {
  EXPECT_TRUE(CheckMessageSizes(terms(passes)).ok());
  EXPECT_FALSE(CheckMessageSizes(terms(fails)).ok());
  while (fails - passes > 1) {
    const uint64_t middle = passes + (fails - passes) / 2;
    (CheckMessageSizes(terms(middle)).ok() ? passes : fails) = middle;
  }
  return passes;
}

// Would break: a run would begin that stands still at its first entry, or its hundredth, because
// a message of it is longer than the transport takes.
TEST(MessageSizes, WhatDoesNotPassIsNamedWithItsRemedy) {
  const struct {
    uint64_t passes;
    uint64_t fails;
    std::function<SizeTerms(uint64_t)> terms;
    std::string message;
    std::string remedy;
  } cases[] = {
      {1024, 100'000, [](uint64_t n) { return Terms(7'000'000'000, n); }, "EntryHeader",
       "[run] peers"},
      // One bit a chunk.
      {1, 1ull << 40, [](uint64_t n) { return Terms(n * 64, 3, 64); }, "ExchangeOpen",
       "[exchange] chunk_elements"},
      {1, 1ull << 40, [](uint64_t n) { return Terms(n, 3); }, "a snapshot's leaves",
       "a smaller model"},
      {1, 1ull << 40,
       [](uint64_t n) {
         SizeTerms terms = Terms(1'000'000, 3);
         terms.manifest_bytes = n;
         return terms;
       },
       "WorkerReady", "fewer tensors"},
  };
  for (const auto& one : cases) {
    const uint64_t most = Largest(one.passes, one.fails, one.terms);
    const absl::Status refused = CheckMessageSizes(one.terms(most + 1));
    EXPECT_TRUE(absl::IsInvalidArgument(refused));
    EXPECT_THAT(std::string(refused.message()), HasSubstr(one.message));
    EXPECT_THAT(std::string(refused.message()), HasSubstr(one.remedy));
    for (const MessageSize& size : MessageSizes(one.terms(most + 1))) {
      if (size.bytes <= size.limit) continue;
      EXPECT_THAT(std::string(refused.message()), HasSubstr(std::to_string(size.bytes)));
      EXPECT_THAT(std::string(refused.message()), HasSubstr(std::to_string(size.limit)));
      EXPECT_LT(size.bytes - size.limit, 65536u) << "one more, and no more than one more";
    }
  }
}

// Would break: a run would be refused whose entries cover a fragment, and whose messages are short;
// or one whose state is too large for any would begin.
TEST(MessageSizes, AnEntryIsOfWhatItCoversAndTheStateOfAll) {
  SizeTerms terms = Terms(uint64_t{1} << 30, 3, 32);
  EXPECT_THAT(std::string(CheckMessageSizes(terms).message()), HasSubstr("ExchangeOpen"));
  terms.exchanged = terms.parameters / 64;
  EXPECT_TRUE(CheckMessageSizes(terms).ok()) << CheckMessageSizes(terms);
  terms = Terms(uint64_t{1} << 45, 3);
  terms.exchanged = 1;
  EXPECT_THAT(std::string(CheckMessageSizes(terms).message()), HasSubstr("a snapshot's leaves"));
}

// Would break: peers that join a run of a thousand would end it, or always the same of them would
// train in vain.
TEST(MessageSizes, OfMoreThanFitTheOldestAreTaken) {
  const uint64_t most = MostPeers(Terms(70'000'000'000, 0));
  EXPECT_GE(most, 1024u);
  EXPECT_TRUE(CheckMessageSizes(Terms(70'000'000'000, most)).ok());
  EXPECT_FALSE(CheckMessageSizes(Terms(70'000'000'000, most + 1)).ok());
  EXPECT_EQ(MostPeers(Terms(uint64_t{1} << 45, 0)), 0u);
  using Positions = std::vector<size_t>;
  EXPECT_EQ(WhoFits({0, 0, 0}, 3), (Positions{0, 1, 2}));
  EXPECT_EQ(WhoFits({0, 2, 0, 1, 0}, 3), (Positions{0, 1, 3}));
  EXPECT_EQ(WhoFits({}, 0), Positions());
}

uint64_t BytesOf(const std::string& message, const SizeTerms& terms) {
  for (const MessageSize& size : MessageSizes(terms)) {
    if (size.message == message) return size.bytes;
  }
  ADD_FAILURE() << message;
  return 0;
}

// Broken: a run whose peers own thousands of experts would begin, and its first plan or header
// would be longer than a message, because it says of each peer which of them it owns.
TEST(MessageSizes, OwnersOfExpertsTakeABitEachForEachPeer) {
  SizeTerms terms = Terms(7'000'000'000, 900);
  EXPECT_TRUE(CheckMessageSizes(terms).ok());
  const uint64_t plan = BytesOf("Plan", terms), header = BytesOf("EntryHeader", terms);
  const uint64_t most = MostPeers(terms);
  terms.experts = 4096;
  EXPECT_GE(BytesOf("Plan", terms), plan + 900 * 512);
  EXPECT_GE(BytesOf("EntryHeader", terms), header + 900 * 512);
  EXPECT_THAT(std::string(CheckMessageSizes(terms).message()), HasSubstr("[run] peers"));
  EXPECT_LT(MostPeers(terms), most);
  EXPECT_GE(MostPeers(terms), 256u) << "a run of a usual size would be refused";
  terms.experts = 128;
  EXPECT_TRUE(CheckMessageSizes(terms).ok()) << CheckMessageSizes(terms);
}

// The records of an exchange in which all have delivered, and each expert has two owners of its
// own. Each expert has ten chunks, and so has the shared part.
v1::MeanRecords RecordsOfExperts(uint32_t experts, size_t peers) {
  const uint32_t chunks = 10 * (experts + 1);
  std::vector<std::string> sets;
  std::string all(BitmapBytes(peers), '\0');
  for (size_t i = 0; i < peers; ++i) SetBit(&all, i);
  sets.push_back(all);
  for (size_t i = 0; i < peers; ++i) {
    for (size_t j = i + 1; j < peers && sets.size() <= experts; ++j) {
      sets.push_back(SingleBit(peers, static_cast<uint32_t>(i)));
      SetBit(&sets.back(), j);
    }
  }
  MeanRecordsBuilder builder;
  for (size_t i = 0; i < peers; ++i) {
    const auto begin = static_cast<uint32_t>(chunks * i / peers);
    const auto end = static_cast<uint32_t>(chunks * (i + 1) / peers);
    builder.BeginShard(begin, std::to_string(1000 + i) + std::string(60, 'p'));
    for (uint32_t c = begin; c < end; ++c) builder.Add(sets[c / 10], {});
  }
  return builder.Take();
}

// Broken: each vote of a run with many experts would have to leave out its records, so every round
// would be averaged again without end, and nobody would have been told beforehand.
TEST(MessageSizes, EachExpertHasASetOfItsOwnInTheRecords) {
  const v1::MeanRecords records = RecordsOfExperts(700, 40);
  ASSERT_EQ(records.sets_size(), 701);
  SizeTerms terms = Terms(uint64_t{7010} * 65536, 40);
  EXPECT_GT(records.ByteSizeLong(), BytesOf("a Vote's records", terms));
  terms.experts = 700;
  EXPECT_LE(records.ByteSizeLong(), BytesOf("a Vote's records", terms));
  EXPECT_LT(BytesOf("a Vote's records", terms), 2 * records.ByteSizeLong());
  // Two peers can be told apart in four ways alone.
  SizeTerms few = Terms(uint64_t{7010} * 65536, 2), none = few;
  few.experts = 700;
  EXPECT_LT(BytesOf("a Vote's records", few), BytesOf("a Vote's records", none) + 700 * 20);
}

// A thousand peers with the longest names, in so many regions.
v1::Plan ThousandByRegion(size_t regions) {
  std::vector<ExchangeContributor> contributors;
  for (size_t i = 0; i < 1000; ++i) {
    ExchangeContributor one;
    const std::string number = std::to_string(1000 + i);
    one.member.set_peer(number + std::string(60, 'p'));
    one.member.set_address(number + std::string(252, 'a'));
    one.member.set_weight_bits(0x3f800000);
    one.member.set_contribution_root(std::string(32, 'r'));
    one.member.set_signature(std::string(64, 's'));
    one.member.set_signing_key(std::string(32, 'k'));
    one.region = "region-" + std::to_string(i % regions);
    contributors.push_back(std::move(one));
  }
  ExchangeTerms terms;
  terms.version = 100000;
  terms.epoch = 3;
  terms.parameters = 7'000'000'000;
  terms.chunk_elements = 65536;
  terms.by_region = true;
  return ReductionPlan(terms, contributors).proto();
}

// Would break: a plan of many regions would be longer than a message, and every round would end in
// broken sessions.
TEST(MessageSizes, APlanThatIsTooLongWithRelaysHasNone) {
  const v1::Plan few = ThousandByRegion(8);
  EXPECT_LE(few.ByteSizeLong(), kMostMessageBytes);
  EXPECT_GT(few.shards(0).relays_size(), 0);
  const v1::Plan many = ThousandByRegion(64);
  EXPECT_LE(many.ByteSizeLong(), kMostMessageBytes);
  EXPECT_EQ(many.shards(0).relays_size(), 0);
  EXPECT_EQ(many.contributors_size(), 1000);
}

}  // namespace
}  // namespace atolld
