// The messages of a model of seven billion parameters, as production code makes them, at their full
// size: of digests, bitmaps and records, without the parameters.
#include <algorithm>
#include <string>
#include <vector>

#include "compression/base/bitmap.h"
#include "daemon/exchange/contribution.h"
#include "daemon/exchange/mean_audit.h"
#include "daemon/exchange/outcome.h"
#include "daemon/replica/transfer/snapshot_pages.h"
#include "gtest/gtest.h"
#include "membership/history/agreement.h"
#include "membership/history/mean_records.h"
#include "membership/planning/message_sizes.h"
#include "membership/planning/reduction_plan.h"
#include "membership/trust/audit.h"

namespace atolld {
namespace {

constexpr uint64_t kSevenBillion = 7'000'000'000;
constexpr uint32_t kDefaultChunk = 65536;
const ChunkGrid kLargeGrid(kSevenBillion, kDefaultChunk);

// Ids and addresses as long as they can be.
v1::Plan LongPlanFor(size_t peers, const std::string& root) {
  std::vector<ExchangeContributor> contributors;
  for (size_t i = 0; i < peers; ++i) {
    ExchangeContributor one;
    const std::string number = std::to_string(1000 + i);
    one.member.set_peer(number + std::string(60, 'p'));
    one.member.set_address(number + std::string(252, 'a'));
    one.member.set_weight_bits(0x3f800000);
    one.member.set_contribution_root(root);
    one.member.set_steps(~uint64_t{0});
    one.member.set_tokens(~uint64_t{0});
    one.member.set_scale_bits(0x3f000000);
    one.member.set_squared_norm_bits(1);
    one.member.set_signature(std::string(64, 's'));
    one.member.set_signing_key(std::string(32, 'k'));
    contributors.push_back(std::move(one));
  }
  ExchangeTerms terms;
  terms.version = 100000;  // rounds make no message longer but by a byte of a number
  terms.epoch = 9;
  terms.parameters = kSevenBillion;
  terms.chunk_elements = kDefaultChunk;
  return ReductionPlan(terms, contributors).proto();
}

std::string LeavesOfAll() {
  const std::vector<Digest> digests(kLargeGrid.chunks(), Sha256({}));
  std::vector<ChunkNorms> norms(kLargeGrid.chunks());
  for (uint32_t c = 0; c < kLargeGrid.chunks(); ++c) norms[c].squared_norm = c;
  return ContributionLeaves(digests, norms);
}

// One died in the middle of each shard, so half of the chunks lack it.
std::vector<ChunkMean> MeansWithoutOne(const ExchangePlan& plan) {
  const size_t peers = plan.contributors().size();
  std::string all(BitmapBytes(peers), '\0');
  for (size_t i = 0; i < peers; ++i) SetBit(&all, i);
  std::string rest = all;
  rest[0] = static_cast<char>(rest[0] ^ 2);
  std::vector<ChunkMean> means(kLargeGrid.chunks());
  for (const ExchangePlan::Shard& shard : plan.shards()) {
    for (uint32_t i = 0; i < shard.chunks; ++i) {
      ChunkMean& mean = means[shard.first_chunk + i];
      mean.attempt = 1;
      mean.contributors = i < shard.chunks / 2 ? all : rest;
    }
  }
  return means;
}

uint64_t MostBytesOf(const std::string& message, uint64_t peers) {
  SizeTerms terms;
  terms.parameters = kSevenBillion;
  terms.chunk_elements = kDefaultChunk;
  terms.peers = peers;
  for (const MessageSize& size : MessageSizes(terms)) {
    if (size.message == message) return size.bytes;
  }
  ADD_FAILURE() << message;
  return 0;
}

// Would break: a run of a large model would stand still at its first exchange: what was one message
// a model, or one a round, is longer than any message may be.
TEST(MessageSizesOfSevenBillion, PlansVotesAndHeadersPass) {
  for (const size_t peers : {3u, 128u, 1000u}) {
    SCOPED_TRACE(peers);
    const v1::Plan plan = LongPlanFor(peers, std::string(32, 'r'));
    EXPECT_LE(plan.ByteSizeLong(), kMostMessageBytes);
    EXPECT_LE(plan.ByteSizeLong(), MostBytesOf("Plan", peers));
    const ExchangePlan made = ExchangePlan::Make(plan, kLargeGrid).value();
    v1::Vote vote;
    *vote.mutable_records() = Records(made, MeansWithoutOne(made));
    EXPECT_TRUE(FitAVote(vote.records()));
    EXPECT_TRUE(CheckMeanRecords(vote.records(), kLargeGrid, peers).ok());
    EXPECT_EQ(vote.records().sets_size(), 2);
    // A bitmap for each chunk that differs would not have passed.
    if (peers > 64) {
      EXPECT_GT(kLargeGrid.chunks() / 2 * BitmapBytes(peers), kMostMeanRecordsBytes);
    }
    v1::RunSpec spec;
    const HeaderTerms terms = {spec, {}, std::string(32, 'h'), [](const std::string&) {
                                 v1::SampleRange range;
                                 range.set_first(~uint64_t{0} / 2);
                                 range.set_count(~uint64_t{0} / 2);
                                 return std::vector<v1::SampleRange>(8, range);
                               }};
    const v1::EntryHeader header = MakeHeader(terms, plan, vote);
    EXPECT_EQ(static_cast<size_t>(header.contributors_size()), peers);
    v1::PeerMessage hello;
    *hello.mutable_hello()->mutable_header() = header;
    EXPECT_LE(hello.ByteSizeLong(), kMostSessionBytes);
    EXPECT_LE(header.ByteSizeLong(), MostBytesOf("EntryHeader", peers));
    v1::ExchangeOpen open;
    open.set_received(std::string(BitmapBytes(kLargeGrid.chunks()), '\xff'));
    for (const auto& shard : made.shards()) open.add_received_attempts(shard.attempt);
    EXPECT_LE(open.ByteSizeLong(), MostBytesOf("ExchangeOpen", peers));
    EXPECT_LE(MostBytesOf("ExchangeOpen", peers), kMostMessageBytes);
  }
}

// Would break: an audit, or an exchange, would end as soon as the leaves of an update are longer
// than a message.
TEST(MessageSizesOfSevenBillion, LeavesAndAuditsPass) {
  const std::string leaves = LeavesOfAll();
  EXPECT_GT(leaves.size(), kMostMessageBytes) << "all at once they would not";
  const MerkleTree pages = PagesOf(leaves);
  const Digest root = ContributionRoot(leaves, pages);
  std::string joined;
  for (const v1::ContributionLeaves& page : LeavesInPages(leaves)) {
    EXPECT_LE(page.ByteSizeLong(), kMostMessageBytes);
    joined += page.leaves();
  }
  EXPECT_TRUE(joined == leaves);
  const v1::Plan plan = LongPlanFor(128, ToBytes(root));
  const ExchangePlan made = ExchangePlan::Make(plan, kLargeGrid).value();
  const ChunkForm form{*FindCodec("fp32"), false};
  KeptInputs kept;
  v1::InputsRequest request;
  const std::vector<uint8_t> longest(form.MaxWireBytes(kDefaultChunk));
  for (const uint32_t chunk : {0u, 50'000u, kLargeGrid.chunks() - 1}) {
    kept.Keep(chunk, 1, {{7, SingleBit(128, 7), false, SharedBytes(longest), true}});
    request.add_chunks(chunk);
  }
  const absl::StatusOr<std::vector<Frame>> frames = kept.Answer(request, made, form, [&](uint32_t) {
    return KeptInputs::Proof{leaves, &pages};
  });
  ASSERT_TRUE(frames.ok());
  ASSERT_EQ(frames->size(), 3u);
  for (const Frame& frame : *frames) {
    v1::InputsPart part;
    ASSERT_TRUE(Unpack(frame, &part).ok());
    EXPECT_LE(FrameBytes(frame), kMostMessageBytes);
    EXPECT_LE(frame.message.size(), 2048u) << "a proof is short";
    const absl::StatusOr<Leaf> leaf =
        ProvenLeaf(ToBytes(root), kLargeGrid.chunks(), part.chunk(), part.leaves(), part.path());
    ASSERT_TRUE(leaf.ok()) << leaf.status();
    EXPECT_EQ(leaf->norms.squared_norm, part.chunk());
  }
  // Everything is audited, and nobody knows anything.
  v1::Audit order;
  v1::AuditReport report;
  for (uint32_t c = 0; c < kLargeGrid.chunks(); ++c) {
    order.add_chunks(c);
    v1::ChunkVerdict* const verdict = report.add_verdicts();
    verdict->set_chunk(c);
    verdict->set_outcome("unknown");
    verdict->set_reason(std::string(kLongestReason, 'x'));
  }
  EXPECT_GT(report.ByteSizeLong(), kMostSessionBytes);
  for (const v1::Audit& page : InPages(order)) EXPECT_LE(page.ByteSizeLong(), kMostSessionBytes);
  for (const v1::AuditReport& page : InPages(report)) {
    EXPECT_LE(page.ByteSizeLong(), kMostSessionBytes);
  }
}

// Would break: nobody could join a run of a large model.
TEST(MessageSizesOfSevenBillion, SnapshotsPass) {
  for (const uint64_t parameters : {kSevenBillion, uint64_t{70'000'000'000}}) {
    v1::SnapshotInfo info;
    info.mutable_genesis()->mutable_manifest()->set_elements(parameters);
    const uint64_t blocks = (parameters * sizeof(float) + kBlockBytes - 1) / kBlockBytes;
    for (const char* name : {"theta", "momentum"}) {
      v1::SnapshotBuffer* const buffer = info.add_buffers();
      buffer->set_name(name);
      buffer->set_elements(parameters);
      for (uint64_t b = 0; b < blocks; ++b) buffer->add_leaves(std::string(32, 'l'));
    }
    SnapshotPages pages;
    ASSERT_TRUE(pages.Begin(WithoutLeaves(info)).ok());
    uint64_t told = 0;
    while (!pages.complete()) {
      const v1::SnapshotLeaves page = LeavesFrom(info, told, kSnapshotLeavesAPage);
      EXPECT_LE(page.ByteSizeLong(), kMostMessageBytes);
      ASSERT_TRUE(pages.Take(page).ok());
      told += page.leaves().size() / 32;
    }
    EXPECT_EQ(told, 2 * blocks);
    // In one message those of 70 billion would not pass.
    if (parameters > kSevenBillion) {
      EXPECT_GT(info.ByteSizeLong(), kMostMessageBytes);
    }
  }
}

}  // namespace
}  // namespace atolld
