#include "membership/trust/audit.h"

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "gtest/gtest.h"
#include "tests/unit/membership/history/records_text.h"

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
  constexpr int kTrials = 20000;
  constexpr uint32_t kChunks = 8;
  for (const float share : {1.0f / 16, 0.25f, 0.5f}) {
    int taken[kChunks] = {};
    int pairs = 0;  // both of the first two
    for (int round = 0; round < kTrials; ++round) {
      bool first = false;
      AuditDraw draw(Filled('h'), Filled('p'), std::to_string(round));
      for (const uint32_t chunk : draw.Chunks(kChunks, share)) {
        ++taken[chunk];
        first |= chunk == 0;
        pairs += chunk == 1 && first ? 1 : 0;
      }
    }
    const double deviation = std::sqrt(kTrials * share * (1 - share));
    for (const int count : taken) EXPECT_NEAR(count, kTrials * share, 5 * deviation) << share;
    const double both = share * share;
    EXPECT_NEAR(pairs, kTrials * both, 5 * std::sqrt(kTrials * both * (1 - both))) << share;
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

// -----------------------------------------------------------------------------------------------

using Names = std::vector<std::string>;

// Two shards of one chunk, of p1 and p2; everything is audited.
struct AuditScene {
  explicit AuditScene(const Names& peers, bool relayed = false) {
    plan.set_version(5);
    plan.set_epoch(2);
    plan.set_revision(1);
    for (uint32_t i = 0; i < 2; ++i) {
      v1::Shard* shard = plan.add_shards();
      shard->set_first_chunk(i);
      shard->set_chunks(1);
      shard->set_reducer(i == 0 ? "p1" : "p2");
      if (relayed && i == 0) shard->add_relays()->set_peer("p3");
    }
    const std::vector<std::string> partials(relayed ? 1 : 0, "\x0c");
    *vote.mutable_records() = RecordsOf({{"p1", {{1, "\x0f", partials}}}, {"p2", {{1, "\x0f"}}}});
    vote.set_payload_digest(std::string(32, 'd'));
    terms.previous_header_digest = std::string(32, 'h');
    terms.nonce = std::string(32, 'n');
    terms.share = 1;
    terms.auditors = {peers.begin(), peers.end()};
  }
  AuditJudge Make() const { return AuditJudge(terms, plan, vote); }
  v1::Plan plan;
  v1::Vote vote;
  AuditJudge::Terms terms;
};

v1::AuditReport Says(uint32_t chunk, const std::string& outcome, char computed = 'c') {
  v1::AuditReport report;
  report.set_version(5);
  report.set_epoch(2);
  report.set_revision(1);
  v1::ChunkVerdict* verdict = report.add_verdicts();
  verdict->set_chunk(chunk);
  verdict->set_outcome(outcome);
  if (outcome != "wrong") return report;
  verdict->set_computed_digest(std::string(32, computed));
  verdict->set_found_digest(std::string(32, 'f'));
  return report;
}

// Who was asked for chunk 0, apart from chunk 1, which p1 or another calls right.
Names AskedFor(AuditJudge* audit, uint32_t chunk) {
  Names asked;
  for (const auto& [peer, order] : audit->TakeOrders()) {
    for (const uint32_t one : order.chunks()) {
      if (one == chunk) asked.push_back(peer);
      if (one != chunk) audit->OnReport(peer, Says(one, "right"));
    }
  }
  return asked;
}

// Would break: the peer on the slowest line would recompute as much as the others, or nothing.
TEST(Audit, WhoAveragesLittleAuditsLittle) {
  AuditScene scene({"p1", "p2", "p3", "p4"});
  scene.plan.mutable_shards(0)->set_chunks(400);
  scene.plan.mutable_shards(1)->set_first_chunk(400);
  scene.plan.mutable_shards(1)->set_chunks(400);
  *scene.vote.mutable_records() = RecordsOf({{"p1", {{400, "\x0f"}}}, {"p2", {{400, "\x0f"}}}});
  std::map<std::string, int> asked;
  for (const auto& [peer, order] : scene.Make().TakeOrders()) asked[peer] = order.chunks_size();
  EXPECT_EQ(asked["p1"] + asked["p2"] + asked["p3"] + asked["p4"], 800);
  // 8 : 8 : 1 : 1, as far as nobody is its own auditor.
  for (const char* fast : {"p1", "p2"}) EXPECT_NEAR(asked[fast], 356, 40) << fast;
  for (const char* slow : {"p3", "p4"}) EXPECT_NEAR(asked[slow], 44, 10) << slow;
}

// Would break: a reducer would audit itself, or a mean that is right would cost more than one.
TEST(Audit, OneAuditorOfAnotherPeerIsEnough) {
  const AuditScene scene({"p1", "p2", "p3", "p4"});
  AuditJudge audit = scene.Make();
  const auto orders = audit.TakeOrders();
  int chunks = 0;
  for (const auto& [peer, order] : orders) {
    EXPECT_EQ(order.nonce(), scene.terms.nonce);
    for (const uint32_t chunk : order.chunks()) {
      EXPECT_NE(peer, chunk == 0 ? "p1" : "p2");
      ++chunks;
      EXPECT_FALSE(audit.complete());
      audit.OnReport("p1", Says(0, "right"));  // it was not asked that
      audit.OnReport(peer, Says(chunk, "right"));
    }
  }
  EXPECT_EQ(chunks, 2);
  EXPECT_TRUE(audit.complete());
  const AuditJudge::Result result = audit.Judge();
  EXPECT_TRUE(result.liars.empty());
  EXPECT_TRUE(result.suspects.empty());
  EXPECT_TRUE(result.redo.empty());
  EXPECT_TRUE(result.events.empty());
}

// Would break: a lie that was seen would be committed, or its reducer would stay.
TEST(Audit, TwoThatRecomputeTheSameOtherMeanNameTheLiar) {
  AuditJudge audit = AuditScene({"p1", "p2", "p3", "p4"}).Make();
  Names asked = AskedFor(&audit, 0);
  ASSERT_EQ(asked.size(), 1u);
  audit.OnReport(asked[0], Says(0, "wrong"));
  EXPECT_FALSE(audit.complete());
  for (const std::string& peer : AskedFor(&audit, 0)) audit.OnReport(peer, Says(0, "wrong"));
  ASSERT_TRUE(audit.complete());
  const AuditJudge::Result result = audit.Judge();
  ASSERT_EQ(result.liars.count("p1"), 1u);
  EXPECT_NE(result.liars.at("p1").find("chunk 0"), std::string::npos);
  EXPECT_EQ(result.redo, std::set<std::string>{"p1"});
  EXPECT_TRUE(result.suspects.empty());
}

// Would break: one peer could have any other put out.
TEST(Audit, AFalseAccuserHarmsNobody) {
  AuditJudge audit = AuditScene({"p1", "p2", "p3", "p4"}).Make();
  const Names accuser = AskedFor(&audit, 0);
  audit.OnReport(accuser[0], Says(0, "wrong"));
  const Names others = AskedFor(&audit, 0);
  EXPECT_EQ(others.size(), 2u);
  for (const std::string& peer : others) audit.OnReport(peer, Says(0, "right"));
  ASSERT_TRUE(audit.complete());
  const AuditJudge::Result result = audit.Judge();
  EXPECT_TRUE(result.liars.empty());
  EXPECT_TRUE(result.redo.empty());
  EXPECT_EQ(result.suspects.count("p1"), 0u);
  EXPECT_EQ(result.suspects.count(accuser[0]), 1u);
  EXPECT_EQ(result.accusers, std::set<std::string>{accuser[0]});
}

// Would break: where nothing decides somebody would be put out all the same, or what is in doubt
// would be committed.
TEST(Audit, TwoAccountsAreBothSuspectedAndTheShardIsRedone) {
  for (const bool third : {false, true}) {
    AuditJudge audit =
        third ? AuditScene({"p1", "p2", "p3"}).Make() : AuditScene({"p1", "p2"}).Make();
    const Names accuser = AskedFor(&audit, 0);
    audit.OnReport(accuser[0], Says(0, "wrong"));
    for (const std::string& peer : AskedFor(&audit, 0)) audit.OnReport(peer, Says(0, "right"));
    ASSERT_TRUE(audit.complete());
    const AuditJudge::Result result = audit.Judge();
    EXPECT_TRUE(result.liars.empty());
    EXPECT_EQ(result.redo, std::set<std::string>{"p1"});
    EXPECT_EQ(result.suspects.count("p1"), 1u);
    EXPECT_EQ(result.suspects.count(accuser[0]), 1u);
    EXPECT_EQ(result.suspects.size(), 2u);
  }
}

// Would break: a word that is not known would save a liar, or accuse an honest reducer.
TEST(Audit, AnUnknownOutcomeIsNeitherRightNorWrong) {
  for (const bool lied : {false, true}) {
    AuditJudge audit = AuditScene({"p1", "p2", "p3", "p4"}).Make();
    const Names first = AskedFor(&audit, 0);
    audit.OnReport(first[0], Says(0, "maybe"));
    EXPECT_FALSE(audit.complete());
    const Names others = AskedFor(&audit, 0);
    EXPECT_EQ(others.size(), 2u);
    for (const std::string& peer : others) audit.OnReport(peer, Says(0, lied ? "wrong" : "right"));
    ASSERT_TRUE(audit.complete());
    const AuditJudge::Result result = audit.Judge();
    EXPECT_EQ(result.liars.count("p1"), lied ? 1u : 0u);
    EXPECT_EQ(result.redo.count("p1"), lied ? 1u : 0u);
    EXPECT_TRUE(result.suspects.empty());
    EXPECT_TRUE(result.accusers.empty());
  }
}

// Would break: two accusers that made their accounts up apart from each other would be believed; or
// one honest auditor's word would not save an honest reducer.
TEST(Audit, AccusersThatDisagreeNameNobody) {
  for (int scene = 0; scene < 2; ++scene) {
    AuditJudge audit = AuditScene({"p1", "p2", "p3", "p4"}).Make();
    audit.OnReport(AskedFor(&audit, 0)[0], Says(0, "wrong", 'a'));
    const Names others = AskedFor(&audit, 0);
    audit.OnReport(others[0], Says(0, "wrong", scene == 0 ? 'b' : 'a'));
    audit.OnReport(others[1], Says(0, scene == 0 ? "wrong" : "right", 'c'));
    ASSERT_TRUE(audit.complete());
    EXPECT_TRUE(audit.Judge().liars.empty());
    EXPECT_EQ(audit.Judge().redo, std::set<std::string>{"p1"});
  }
}

// Would break: a reducer that gives its inputs to nobody would never be audited; or one that one
// auditor could not reach would be suspected.
TEST(Audit, InputsThatAreNotGivenOutAreNoWayOut) {
  AuditJudge audit = AuditScene({"p1", "p2", "p3", "p4"}).Make();
  Names asked = AskedFor(&audit, 0);
  audit.OnReport(asked[0], Says(0, "unknown"));
  for (const std::string& peer : AskedFor(&audit, 0)) audit.OnReport(peer, Says(0, "unknown"));
  ASSERT_TRUE(audit.complete());
  EXPECT_EQ(audit.Judge().redo, std::set<std::string>{"p1"});
  EXPECT_TRUE(audit.Judge().liars.empty());

  AuditJudge other = AuditScene({"p1", "p2", "p3", "p4"}).Make();
  asked = AskedFor(&other, 0);
  other.OnReport(asked[0], Says(0, "unknown"));
  const Names rest = AskedFor(&other, 0);
  other.OnReport(rest[0], Says(0, "right"));
  other.OnReport(rest[1], Says(0, "unknown"));
  ASSERT_TRUE(other.complete());
  EXPECT_TRUE(other.Judge().redo.empty());
  EXPECT_TRUE(other.Judge().suspects.empty());
}

// Would break: a reducer could lie, leave before it is voted on, and have its means served by
// somebody honest.
TEST(Audit, WhatTheGoneLeftWithOthersIsRedone) {
  AuditScene scene({"p2", "p3", "p4"});
  scene.plan.mutable_shards(0)->set_holder("p3");
  AuditJudge audit = scene.Make();
  EXPECT_TRUE(AskedFor(&audit, 0).empty());
  ASSERT_TRUE(audit.complete());
  EXPECT_EQ(audit.Judge().redo, std::set<std::string>{"p1"});
  EXPECT_TRUE(audit.Judge().suspects.empty());

  AuditScene relayed({"p1", "p2", "p3", "p4", "p5"}, true);
  AuditJudge other = relayed.Make();
  AskedFor(&other, 0);
  other.OnLost("p3");
  for (const char* peer : {"p2", "p4", "p5"}) other.OnReport(peer, Says(0, "unknown"));
  for (const std::string& peer : AskedFor(&other, 0)) other.OnReport(peer, Says(0, "unknown"));
  ASSERT_TRUE(other.complete());
  EXPECT_EQ(other.Judge().redo, std::set<std::string>{"p3"});
  EXPECT_TRUE(other.Judge().suspects.empty()) << "its reducer cannot help that";
}

// Would break: a peer that died would be called a liar, or a run would wait for it for ever; or a
// reducer could lie as it likes by leaving before anybody asks.
TEST(Audit, TheDeadAreNotAccusedAndNotWaitedFor) {
  AuditJudge audit = AuditScene({"p1", "p2", "p3", "p4"}).Make();
  AskedFor(&audit, 0);
  audit.OnLost("p1");
  ASSERT_TRUE(audit.complete());
  EXPECT_EQ(audit.Judge().redo, std::set<std::string>{"p1"});
  EXPECT_TRUE(audit.Judge().liars.empty());
  EXPECT_TRUE(audit.Judge().suspects.empty());
  ASSERT_EQ(audit.Judge().events.size(), 1u);

  AuditJudge answered = AuditScene({"p1", "p2", "p3", "p4"}).Make();
  answered.OnReport(AskedFor(&answered, 0)[0], Says(0, "right"));
  answered.OnLost("p1");
  EXPECT_TRUE(answered.Judge().redo.empty()) << "somebody has seen that it was right";

  AuditJudge other = AuditScene({"p1", "p2", "p3", "p4"}).Make();
  const Names first = AskedFor(&other, 0);
  other.OnLost(first[0]);
  const Names second = AskedFor(&other, 0);
  EXPECT_EQ(second.size(), 2u);
  EXPECT_EQ(other.OrderOf(second[0]).chunks_size(), 1);
  EXPECT_EQ(other.OrderOf(first[0]).chunks_size(), 0);
  other.OnReport(second[0], Says(0, "right"));
  EXPECT_FALSE(other.complete());
  other.OnReport(second[1], Says(0, "right"));
  EXPECT_TRUE(other.complete());
}

// Would break: silent auditors would hold up a commit for ever.
TEST(Audit, EndsAtItsSecondDeadline) {
  AuditJudge audit = AuditScene({"p1", "p2", "p3", "p4"}).Make();
  const Names silent = AskedFor(&audit, 0);
  EXPECT_TRUE(audit.OnDeadline());
  const Names others = AskedFor(&audit, 0);
  EXPECT_EQ(others.size(), 2u);
  EXPECT_FALSE(audit.OnDeadline());
  EXPECT_TRUE(audit.complete());
  EXPECT_TRUE(audit.Judge().redo.empty());
  EXPECT_EQ(audit.Judge().events.size(), 1u);
  // What they say after all counts as evidence, though nothing waits for it.
  audit.OnReport(silent[0], Says(0, "wrong"));
  EXPECT_TRUE(audit.Judge().liars.empty());
  audit.OnReport(others[1], Says(0, "wrong"));
  EXPECT_EQ(audit.Judge().liars.count("p1"), 1u);
  EXPECT_TRUE(audit.TakeOrders().empty());
}

// Would break: a reducer would be put out for what a relay before it has made up.
TEST(Audit, BehindARelayNobodyIsNamed) {
  AuditJudge audit = AuditScene({"p1", "p2", "p3", "p4", "p5"}, true).Make();
  const Names asked = AskedFor(&audit, 0);
  EXPECT_NE(asked[0], "p3");
  audit.OnReport(asked[0], Says(0, "wrong"));
  for (const std::string& peer : AskedFor(&audit, 0)) audit.OnReport(peer, Says(0, "wrong"));
  ASSERT_TRUE(audit.complete());
  const AuditJudge::Result result = audit.Judge();
  EXPECT_TRUE(result.liars.empty());
  EXPECT_EQ(result.suspects.count("p1"), 1u);
  EXPECT_EQ(result.suspects.count("p3"), 1u);
  EXPECT_EQ(result.redo, (std::set<std::string>{"p1", "p3"}));
}

}  // namespace
}  // namespace atolld
