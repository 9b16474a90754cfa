#include "membership/trust/audit_draw.h"

#include <cmath>
#include <string>

#include "absl/strings/escaping.h"
#include "gtest/gtest.h"

namespace atolld {
namespace {

std::string Filled(char c) { return std::string(32, c); }

// Would break: somebody who recomputes a draw from the log would get other chunks.
TEST(AuditDraw, IsAFunctionOfHeaderPayloadAndNonce) {
  const auto drawn = [](char header, char payload, char nonce) {
    return AuditDraw(Filled(header), Filled(payload), Filled(nonce)).Chunks(4096, 0.0625f);
  };
  EXPECT_EQ(drawn('h', 'p', 'n'), drawn('h', 'p', 'n'));
  EXPECT_NE(drawn('h', 'p', 'n'), drawn('H', 'p', 'n'));
  EXPECT_NE(drawn('h', 'p', 'n'), drawn('h', 'P', 'n'));
  EXPECT_NE(drawn('h', 'p', 'n'), drawn('h', 'p', 'N'));
  EXPECT_EQ(absl::BytesToHexString(AuditCommitment("abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

// Would break: a lie would survive with another probability than the documented one; or some chunks
// were safer to lie about than others.
TEST(AuditDraw, TakesEachChunkWithTheShareAlone) {
  constexpr int kRounds = 20000;
  constexpr uint32_t kChunks = 8;
  for (const float share : {1.0f / 16, 0.25f, 0.5f}) {
    int taken[kChunks] = {};
    int pairs = 0;  // both of the first two
    for (int round = 0; round < kRounds; ++round) {
      bool first = false;
      AuditDraw draw(Filled('h'), Filled('p'), std::to_string(round));
      for (const uint32_t chunk : draw.Chunks(kChunks, share)) {
        ++taken[chunk];
        first |= chunk == 0;
        pairs += chunk == 1 && first ? 1 : 0;
      }
    }
    const double deviation = std::sqrt(kRounds * share * (1 - share));
    for (const int count : taken) EXPECT_NEAR(count, kRounds * share, 5 * deviation) << share;
    const double both = share * share;
    EXPECT_NEAR(pairs, kRounds * both, 5 * std::sqrt(kRounds * both * (1 - both))) << share;
  }
  AuditDraw draw(Filled('h'), Filled('p'), Filled('n'));
  EXPECT_TRUE(draw.Chunks(1000, 0).empty());
  EXPECT_EQ(draw.Chunks(1000, 1).size(), 1000u);
}

// Would break: one peer would do all the auditing, or one could be the auditor that it likes.
TEST(AuditDraw, SpreadsAuditorsEvenly) {
  AuditDraw draw(Filled('h'), Filled('p'), Filled('n'));
  std::map<std::string, int> chosen;
  for (int i = 0; i < 300; ++i) ++chosen[draw.Auditor({{"p1", 1}, {"p2", 1}, {"p3", 1}})];
  for (const char* peer : {"p1", "p2", "p3"}) EXPECT_EQ(chosen[peer], 100) << peer;
  EXPECT_EQ(draw.Auditor({}), "");
  std::map<std::string, int> first;
  for (int i = 0; i < 600; ++i) {
    ++first[AuditDraw(Filled('h'), Filled('p'), std::to_string(i))
                .Auditor({{"p1", 1}, {"p2", 1}, {"p3", 1}})];
  }
  for (const char* peer : {"p1", "p2", "p3"}) EXPECT_NEAR(first[peer], 200, 60) << peer;
}

// Would break: a peer on a slow line would audit as much as the others, who wait for it.
TEST(AuditDraw, GivesMoreToTheStronger) {
  AuditDraw draw(Filled('h'), Filled('p'), Filled('n'));
  std::map<std::string, int> chosen;
  for (int i = 0; i < 220; ++i) ++chosen[draw.Auditor({{"p1", 10}, {"p2", 10}, {"p3", 2}})];
  EXPECT_EQ(chosen["p1"], 100);
  EXPECT_EQ(chosen["p2"], 100);
  EXPECT_EQ(chosen["p3"], 20);
}

}  // namespace
}  // namespace atolld
