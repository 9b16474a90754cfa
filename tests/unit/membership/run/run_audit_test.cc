// What a run makes of signatures, and of what auditors find.
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "membership/trust/audit.h"
#include "membership/trust/contribution.h"
#include "tests/unit/membership/run/simulated_peers.h"

namespace atolld {
namespace {

using Names = std::vector<std::string>;

// A run that audits every chunk, its first round voted for.
struct AuditedRun {
  explicit AuditedRun(const Names& peers, float share = 1)
      : names(peers), run(static_cast<uint32_t>(peers.size()), 2) {
    run.stored.spec->mutable_exchange()->set_audit_share_bits(share == 1 ? 0x3f800000 : 0);
    run.settings.draw_nonce = [this] { return std::string(32, static_cast<char>('a' + nonces++)); };
    run.run = std::make_unique<Run>(run.settings, run.stored, run.now);
    for (const std::string& peer : names) {
      run.keys.emplace(peer, SigningKey::FromSeed(std::string(31, 'k') + peer.back()).value());
    }
    run.Begin(names);
  }

  void ReadyAndVote() {
    for (const std::string& peer : names) run.Ready(peer);
    for (const std::string& peer : names) run.Vote(peer);
  }

  const v1::Audit* Order(const std::string& peer) {
    const auto* message = run.Last(peer, &v1::CoordinatorMessage::has_audit);
    return message == nullptr ? nullptr : &message->audit();
  }

  // Answers what it was asked; of chunks that `liar` reduced it says what is told.
  void Answer(const std::string& peer, const std::string& liar, const std::string& of_liar) {
    const std::vector<v1::CoordinatorMessage> inbox = run.inbox[peer];
    for (const v1::CoordinatorMessage& one : inbox) {
      if (one.has_audit()) AnswerOne(peer, one.audit(), liar, of_liar);
    }
  }

  void AnswerOne(const std::string& peer, const v1::Audit& order, const std::string& liar,
                 const std::string& of_liar) {
    v1::PeerMessage message;
    v1::AuditReport* report = message.mutable_audit_report();
    report->set_version(order.version());
    report->set_epoch(order.epoch());
    report->set_revision(order.revision());
    for (const uint32_t chunk : order.chunks()) {
      std::string reducer;
      for (const v1::Shard& shard : run.Plan(peer)->shards()) {
        const bool here = chunk - shard.first_chunk() < shard.chunks();
        if (chunk >= shard.first_chunk() && here) reducer = shard.reducer();
      }
      v1::ChunkVerdict* verdict = report->add_verdicts();
      verdict->set_chunk(chunk);
      verdict->set_outcome(reducer == liar ? of_liar : "right");
      verdict->set_computed_digest(std::string(32, 'c'));
      verdict->set_found_digest(std::string(32, 'f'));
    }
    run.Say(peer, message);
  }

  const Names names;
  int nonces = 0;
  SimulatedPeers run;
};

// Would break: somebody could contribute in another's name, or without standing by it.
TEST(RunAudit, AnUpdateIsSignedByTheKeyOfItsSession) {
  AuditedRun scene({"p1", "p2", "p3"});
  const SigningKey other = SigningKey::FromSeed(std::string(32, 'x')).value();
  scene.run.keys.at("p2") = other;
  const SessionId session = scene.run.sessions.at("p2");
  scene.run.Ready("p1");
  scene.run.Ready("p2");
  ASSERT_EQ(scene.run.ended.count(session), 1u);
  EXPECT_TRUE(absl::IsInvalidArgument(scene.run.ended.at(session)));
  EXPECT_EQ(scene.run.ended.count(scene.run.sessions.at("p1")), 0u);
  // Unsigned: refused where means are audited, taken where they are not.
  for (const float share : {1.0f, 0.0f}) {
    AuditedRun plain({"p1", "p2"}, share);
    plain.run.keys.clear();
    for (const std::string& peer : plain.names) {
      const v1::Hello hello = plain.run.MakeHello(peer);
      v1::Hello anew = hello;
      anew.set_instance(9);
      plain.run.Join(peer, &anew);
      plain.run.WorkerReady(peer);
      plain.run.Synced(peer, 0);
    }
    const SessionId first = plain.run.sessions.at("p1");
    plain.run.Ready("p1");
    EXPECT_EQ(plain.run.ended.count(first), share == 1 ? 1u : 0u);
  }
}

// Would break: a session could change the key under an update that stands.
TEST(RunAudit, AProcessKeepsItsKey) {
  AuditedRun scene({"p1", "p2"});
  v1::Hello hello = scene.run.MakeHello("p1");
  hello.set_signing_key(std::string(32, 'x'));
  scene.run.Join("p1", &hello);
  EXPECT_TRUE(absl::IsInvalidArgument(scene.run.ended.at(scene.run.sessions.at("p1"))));
  hello.set_instance(5);
  scene.run.Join("p1", &hello);
  EXPECT_EQ(scene.run.ended.count(scene.run.sessions.at("p1")), 0u);
  hello.set_signing_key("short");
  hello.set_instance(6);
  scene.run.Join("p1", &hello);
  EXPECT_TRUE(absl::IsInvalidArgument(scene.run.ended.at(scene.run.sessions.at("p1"))));
}

// Would break: an entry would be committed before it was audited, or nobody could draw again.
TEST(RunAudit, ACommitWaitsForItsAuditors) {
  AuditedRun scene({"p1", "p2", "p3"});
  scene.ReadyAndVote();
  EXPECT_EQ(scene.run.run->version(), 0u);
  const std::string commitment = scene.run.Plan("p1")->audit_commitment();
  for (const std::string& peer : scene.names) {
    ASSERT_EQ(scene.run.run->version(), 0u);
    ASSERT_NE(scene.Order(peer), nullptr) << peer;
    EXPECT_EQ(AuditCommitment(scene.Order(peer)->nonce()), commitment);
    scene.Answer(peer, "", "");
  }
  ASSERT_EQ(scene.run.run->version(), 1u);
  EXPECT_EQ(AuditCommitment(scene.run.Committed("p1")->header().audit_nonce()), commitment);
  EXPECT_TRUE(scene.run.evicted.empty());
}

// Would break: what an audit takes would count as the exchange's, with which predictions are
// compared and from which the next one's deadline is made.
TEST(RunAudit, TheAuditsTimeIsToldApart) {
  AuditedRun scene({"p1", "p2", "p3"});
  for (const std::string& peer : scene.names) scene.run.Ready(peer);
  scene.run.now += absl::Seconds(2);
  for (const std::string& peer : scene.names) scene.run.Vote(peer);
  scene.run.now += absl::Seconds(1);
  for (const std::string& peer : scene.names) scene.Answer(peer, "", "");
  ASSERT_EQ(scene.run.run->version(), 1u);
  EXPECT_EQ(scene.run.run->rounds().back().exchange_seconds(), 2);
  EXPECT_EQ(scene.run.run->rounds().back().audit_seconds(), 1);
  EXPECT_TRUE(scene.run.Said("exchange 2.00 s, audit 1.00 s"));
}

// Would break: a reducer that was proved a liar would stay, or its lie would be committed.
TEST(RunAudit, ALiarIsEvictedAndItsShardsAreRedone) {
  AuditedRun scene({"p1", "p2", "p3"});
  scene.ReadyAndVote();
  const std::string before = scene.run.Plan("p1")->audit_commitment();
  for (int again = 0; again < 2; ++again) {
    for (const char* peer : {"p1", "p3"}) scene.Answer(peer, "p2", "wrong");
    scene.Answer("p2", "", "");
  }
  EXPECT_EQ(scene.run.evicted, Names{"p2"});
  EXPECT_EQ(scene.run.StateOf("p2"), "evicted");
  EXPECT_TRUE(scene.run.Said("has lied"));
  EXPECT_EQ(scene.run.run->version(), 0u);
  const v1::Plan& plan = *scene.run.Plan("p1");
  EXPECT_EQ(plan.revision(), 2u);
  EXPECT_NE(plan.audit_commitment(), before);
  bool moved = false;
  for (const v1::Shard& shard : plan.shards()) {
    EXPECT_NE(shard.reducer(), "p2");
    EXPECT_TRUE(shard.holder().empty());
    moved |= shard.attempt() == 2;
  }
  EXPECT_TRUE(moved);
  scene.run.Vote("p1");
  scene.run.Vote("p3");
  for (const char* peer : {"p1", "p3"}) scene.Answer(peer, "", "");
  EXPECT_EQ(scene.run.run->version(), 1u);
}

// Would break: silent auditors would stop the run; or what they find in the end would be lost.
TEST(RunAudit, WhatComesTooLateEvictsAndRewritesNothing) {
  AuditedRun scene({"p1", "p2", "p3"});
  scene.ReadyAndVote();
  scene.run.Tick(absl::Minutes(5));
  ASSERT_EQ(scene.run.run->version(), 1u);
  EXPECT_TRUE(scene.run.Said("could not be audited"));
  const std::string payload = scene.run.Committed("p1")->header().payload_digest();
  // Both of those that were asked in the end.
  v1::PeerMessage message;
  const v1::Audit& order = *scene.Order("p1");
  message.mutable_audit_report()->set_version(order.version());
  message.mutable_audit_report()->set_epoch(order.epoch());
  message.mutable_audit_report()->set_revision(order.revision());
  for (uint32_t chunk = 4; chunk < 8; ++chunk) {  // p2's
    v1::ChunkVerdict* verdict = message.mutable_audit_report()->add_verdicts();
    verdict->set_chunk(chunk);
    verdict->set_outcome("wrong");
    verdict->set_computed_digest(std::string(32, 'c'));
  }
  for (const char* peer : {"p1", "p3"}) scene.run.Say(peer, message);
  EXPECT_EQ(scene.run.evicted, Names{"p2"});
  EXPECT_EQ(scene.run.run->version(), 1u);
  EXPECT_EQ(scene.run.Committed("p3")->header().payload_digest(), payload);
}

// Would break: what a reducer says that it was sent would be believed, or not heard at all.
TEST(RunAudit, ARefusedUpdateIsHeldAgainstBoth) {
  AuditedRun scene({"p1", "p2", "p3"});
  for (const std::string& peer : scene.names) scene.run.Ready(peer);
  v1::PeerMessage message;
  v1::UpdateRefused* refused = message.mutable_update_refused();
  refused->set_version(1);
  refused->set_epoch(scene.run.Plan("p1")->epoch());
  refused->set_contributor("p2");
  refused->set_reason("other bytes");
  scene.run.Say("p1", message);
  scene.run.Say("p1", message);
  const v1::RunStatus status = scene.run.run->Status(scene.run.now);
  for (const v1::PeerStatus& peer : status.peers()) {
    EXPECT_EQ(peer.suspicions(), peer.member().peer() == "p3" ? 0u : 1u);
  }
  EXPECT_TRUE(scene.run.Said("does not take the update of peer p2: other bytes"));
}

}  // namespace
}  // namespace atolld
