#include "membership/history/checkpoint.h"

#include <string>

#include "gtest/gtest.h"

namespace atolld {
namespace {

const std::string kGenesis(32, 'g');

v1::EntryHeader HeaderBy(uint64_t version, const std::vector<std::string>& contributors) {
  v1::EntryHeader header;
  header.set_version(version);
  for (const std::string& peer : contributors) {
    header.add_contributors()->set_peer(peer);
    header.mutable_contributors()->rbegin()->set_tokens(10 * version);
  }
  return header;
}

std::string DigestOf(uint64_t version) { return std::string(32, static_cast<char>(version)); }

HistorySummary Sum(uint64_t versions) {
  HistorySummary summary;
  for (uint64_t v = 1; v <= versions; ++v) {
    summary.Add(HeaderBy(v, v % 2 == 0 ? std::vector<std::string>{"a", "b"}
                                       : std::vector<std::string>{"a"}),
                DigestOf(v));
  }
  return summary;
}

// Would break: after a restart a peer's rounds and tokens are others than before it, or a peer that
// comes back with an old version is taken for a stranger.
TEST(HistorySummary, KnowsDigestsAndWhatContributorsAddUpTo) {
  HistorySummary summary = Sum(4);
  EXPECT_EQ(summary.version(), 4u);
  EXPECT_EQ(summary.digest(3), DigestOf(3));
  EXPECT_EQ(summary.contributors().at("a").rounds, 4u);
  EXPECT_EQ(summary.contributors().at("a").tokens, 100u);
  EXPECT_EQ(summary.contributors().at("b").tokens, 60u);
  summary.Add(HeaderBy(8, {"c"}), DigestOf(8));  // a gap
  EXPECT_EQ(summary.version(), 8u);
  EXPECT_EQ(summary.digest(5), "");
  EXPECT_EQ(summary.digest(7), "");
  EXPECT_EQ(summary.digest(8), DigestOf(8));
  EXPECT_LE(summary.bytes(), 16 * kDigestBytes);
}

// Would break: a checkpoint that was renewed bit by bit is another one than that of all headers.
TEST(HistorySummary, RenewalsAddUpToTheWhole) {
  HistoryCheckpoint stored;
  HistorySummary summary;
  for (const uint64_t until : {2u, 3u, 9u, 10u}) {
    while (summary.version() < until) {
      const uint64_t v = summary.version() + 1;
      summary.Add(HeaderBy(v, {v < 3 ? "a" : "b"}), DigestOf(v));
    }
    const HistoryCheckpoint update = summary.TakeCheckpoint();
    EXPECT_EQ(update.version, until);
    EXPECT_EQ(summary.since_checkpoint(), 0u);
    EXPECT_EQ(update.digests.size(), (until - update.after) * kDigestBytes);
    Renew(update, &stored);
    const HistorySummary read(stored);
    EXPECT_EQ(read.version(), until);
    EXPECT_EQ(read.ProvenDigest(kGenesis), summary.ProvenDigest(kGenesis));
  }
  EXPECT_EQ(stored.contributors.size(), 2u);
  EXPECT_EQ(stored.contributors[0].rounds, 2u);
  const HistoryCheckpoint anew = Sum(1).Whole();  // from the beginning: nothing of the former stays
  Renew(anew, &stored);
  EXPECT_EQ(stored.digests, anew.digests);
  EXPECT_EQ(stored.contributors.size(), 1u);
}

// Would break: a start builds on a checkpoint that a damaged disk or a hand has changed.
TEST(HistorySummary, NothingInACheckpointCanBeChanged) {
  const SigningKey key = *SigningKey::FromSeed(std::string(32, 'k'));
  const SigningKey other = *SigningKey::FromSeed(std::string(32, 'o'));
  for (const bool is_signed : {true, false}) {
    v1::RunSpec spec;
    if (is_signed) spec.set_history_key(key.public_key());
    HistoryCheckpoint good = Sum(5).Whole();
    const Digest digest = Sum(5).ProvenDigest(kGenesis);
    good.proof = is_signed ? SignCheckpoint(key, digest) : ToBytes(digest);
    EXPECT_TRUE(CheckCheckpoint(spec, kGenesis, good).ok());
    EXPECT_TRUE(absl::IsDataLoss(CheckCheckpoint(spec, std::string(32, 'h'), good)));
    std::vector<HistoryCheckpoint> bad(13, good);
    bad[0].version = 4;
    bad[1].digests.resize(4 * kDigestBytes);
    bad[1].version = 4;
    bad[2].digests[70] ^= 1;
    bad[3].digests.pop_back();
    bad[4].contributors[0].rounds += 1;
    bad[5].contributors[1].tokens -= 1;
    bad[6].contributors.pop_back();
    bad[7].proof[3] ^= 1;
    bad[8].proof = is_signed ? SignCheckpoint(other, digest) : "";
    bad[9].contributors[0].steps += 1;
    bad[10].contributors[0].first_version += 1;
    bad[11].contributors[1].last_version += 1;
    bad[12].contributors[1].shares += 0.125;
    for (size_t i = 0; i < bad.size(); ++i) {
      EXPECT_TRUE(absl::IsDataLoss(CheckCheckpoint(spec, kGenesis, bad[i]))) << i;
    }
  }
}

}  // namespace
}  // namespace atolld
