#include "daemon/exchange/exchange_plan.h"

#include <functional>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "membership/trust/contribution.h"

namespace atolld {
namespace {

// Contributors a, b, c, d; a reduces chunks 0 and 1, b the rest; in the first shard c relays for
// itself and d.
v1::Plan Plan(uint32_t revision) {
  v1::Plan plan;
  plan.set_version(1);
  plan.set_epoch(1);
  plan.set_revision(revision);
  plan.set_parameters(8);
  for (const char* name : {"a", "b", "c", "d"}) {
    v1::PlanMember* member = plan.add_contributors();
    member->set_peer(name);
    member->set_address(std::string(name) + ":1");
    member->set_weight_bits(0x3f800000);
  }
  for (uint32_t i = 0; i < 2; ++i) {
    v1::Shard* shard = plan.add_shards();
    shard->set_first_chunk(2 * i);
    shard->set_chunks(2);
    shard->set_reducer(i == 0 ? "a" : "b");
    shard->set_attempt(1);
  }
  v1::Relay* relay = plan.mutable_shards(0)->add_relays();
  relay->set_peer("c");
  relay->set_members("\x0c");
  return plan;
}

absl::StatusOr<ExchangePlan> Make(const v1::Plan& plan) {
  return ExchangePlan::Make(plan, ChunkGrid(8, 2));
}

ExchangePlan Made(const v1::Plan& plan) { return Make(plan).value(); }

// Would break: chunks would be sent where nobody waits for them, or awaited from where nobody
// sends: a round that hangs.
TEST(ExchangePlan, SaysWhoSendsWhatToWhom) {
  v1::Plan proto = Plan(1);
  const ExchangePlan plan = Made(proto);
  const ExchangePlan::Shard& shard = plan.shards()[0];
  const std::vector<std::string> collectors = {"a", "a", "c", "c"};
  const std::vector<std::string> targets = {"", "a", "a", "c"};
  for (uint32_t i = 0; i < 4; ++i) {
    EXPECT_EQ(plan.CollectorOf(shard, i), collectors[i]) << i;
    EXPECT_EQ(plan.TargetOf(shard, i), targets[i]) << i;
    EXPECT_EQ(plan.SourceOf(shard, plan.contributors()[i].peer), targets[i]) << i;
  }
  EXPECT_EQ(plan.SourceOf(shard, "guest"), "a");
  EXPECT_EQ(plan.servers(), (std::set<std::string>{"a", "b", "c"}));
  EXPECT_EQ(plan.AddressOf("c"), "c:1");

  // The reducer is in the group: its chunk goes to the relay, the means still begin with it.
  proto.mutable_shards(0)->mutable_relays(0)->set_members("\x0d");
  const ExchangePlan inside = Made(proto);
  EXPECT_EQ(inside.TargetOf(inside.shards()[0], 0), "c");
  EXPECT_EQ(inside.SourceOf(inside.shards()[0], "a"), "");

  proto.add_lost("c");
  const ExchangePlan lost = Made(proto);
  EXPECT_EQ(lost.TargetOf(lost.shards()[0], 3), "a");

  proto.mutable_shards(0)->set_holder("d");
  const ExchangePlan held = Made(proto);
  for (uint32_t i = 0; i < 4; ++i) EXPECT_EQ(held.TargetOf(held.shards()[0], i), "");
  for (const char* peer : {"a", "b", "c", "guest"}) {
    EXPECT_EQ(held.SourceOf(held.shards()[0], peer), "d");
  }
  EXPECT_EQ(held.SourceOf(held.shards()[0], "d"), "");
  EXPECT_EQ(held.servers(), (std::set<std::string>{"b", "d"}));
}

struct Fault {
  const char* what;
  std::function<void(v1::Plan*)> make;
};

// Would break: a plan that no honest coordinator writes would crash a peer, or make it count a
// contributor twice.
TEST(ExchangePlan, RefusesRelaysAndHoldersThatMakeNoSense) {
  const std::vector<Fault> faults = {
      {"no contributor",
       [](v1::Plan* p) { p->mutable_shards(0)->mutable_relays(0)->set_peer("x"); }},
      {"no address", [](v1::Plan* p) { p->mutable_contributors(2)->clear_address(); }},
      {"is its reducer",
       [](v1::Plan* p) {
         p->mutable_shards(0)->mutable_relays(0)->set_peer("a");
         p->mutable_shards(0)->mutable_relays(0)->set_members("\x0d");
       }},
      {"too short", [](v1::Plan* p) { p->mutable_shards(0)->mutable_relays(0)->clear_members(); }},
      {"too long",
       [](v1::Plan* p) {
         p->mutable_shards(0)->mutable_relays(0)->set_members(std::string("\x0c\x00", 2));
       }},
      {"beyond the contributors",
       [](v1::Plan* p) { p->mutable_shards(0)->mutable_relays(0)->set_members("\x1c"); }},
      {"a key and nothing signed",
       [](v1::Plan* p) { p->mutable_contributors(1)->set_signing_key("k"); }},
      {"outside its group",
       [](v1::Plan* p) { p->mutable_shards(0)->mutable_relays(0)->set_members("\x08"); }},
      {"groups overlap",
       [](v1::Plan* p) {
         v1::Relay* relay = p->mutable_shards(0)->add_relays();
         relay->set_peer("b");
         relay->set_members("\x0a");
       }},
      {"a relay twice",
       [](v1::Plan* p) { *p->mutable_shards(0)->add_relays() = p->shards(0).relays(0); }},
      {"unknown holder", [](v1::Plan* p) { p->mutable_shards(0)->set_holder("x"); }},
      {"holder without address",
       [](v1::Plan* p) {
         p->mutable_contributors(3)->clear_address();
         p->mutable_shards(0)->set_holder("d");
       }},
      {"lost holder",
       [](v1::Plan* p) {
         p->mutable_shards(0)->set_holder("d");
         p->add_lost("d");
       }},
  };
  EXPECT_TRUE(Make(Plan(1)).ok());
  for (const Fault& fault : faults) {
    v1::Plan plan = Plan(1);
    fault.make(&plan);
    EXPECT_TRUE(absl::IsInvalidArgument(Make(plan).status())) << fault.what;
  }
}

// Would break: two revisions that mean different things by (chunk, attempt) would be mixed.
TEST(ExchangePlan, RefusesARevisionThatBreaksItsLaw) {
  const ExchangePlan first = Made(Plan(1));
  v1::Plan next = Plan(2);
  const auto follows = [&] { return first.CheckSuccessor(Made(next)).ok(); };
  EXPECT_TRUE(follows());
  next.mutable_shards(0)->set_reducer("b");
  EXPECT_FALSE(follows());
  next.mutable_shards(0)->set_attempt(2);
  EXPECT_TRUE(follows());
  next.mutable_contributors(1)->set_weight_bits(0x40000000);
  EXPECT_FALSE(follows());
  next = Plan(2);
  next.mutable_contributors(1)->set_signature("another");
  EXPECT_FALSE(follows());
  next = Plan(2);
  next.mutable_shards(0)->set_chunks(3);
  next.mutable_shards(1)->set_first_chunk(3);
  next.mutable_shards(1)->set_chunks(1);
  EXPECT_FALSE(follows());
  next = Plan(2);
  next.mutable_shards(0)->clear_relays();
  EXPECT_TRUE(follows());
}

// Would break: a holder could be taken away while its clients believe that the attempt goes on, and
// the shard would be reduced anew under the same name.
TEST(ExchangePlan, KeepsAHolderUntilANewAttempt) {
  v1::Plan held = Plan(2);
  held.mutable_shards(0)->set_holder("d");
  EXPECT_TRUE(Made(Plan(1)).CheckSuccessor(Made(held)).ok());
  const ExchangePlan second = Made(held);
  v1::Plan next = held;
  next.set_revision(3);
  next.mutable_shards(0)->set_holder("b");
  EXPECT_TRUE(second.CheckSuccessor(Made(next)).ok());
  next.mutable_shards(0)->clear_holder();
  EXPECT_FALSE(second.CheckSuccessor(Made(next)).ok());
  next.mutable_shards(0)->set_attempt(2);
  next.mutable_shards(0)->set_reducer("d");
  EXPECT_TRUE(second.CheckSuccessor(Made(next)).ok());
}

// Would break: a peer that is told a plan in brief could not follow it when it is to serve or
// audit, or would believe other roots than the ones whose marks it was told.
TEST(ExchangePlan, ABriefPlanIsFollowedByTheWholeOne) {
  v1::Plan proto = Plan(1);
  for (v1::PlanMember& member : *proto.mutable_contributors()) {
    member.set_contribution_root(std::string(32, member.peer()[0]));
  }
  // Another plan than the one above: c relays nothing, so it is not named.
  proto.mutable_shards(0)->clear_relays();
  proto.add_lost("c");
  ExchangePlan brief = Made(BriefPlans(proto).For("d"));
  const ExchangePlan whole = Made(proto);
  EXPECT_TRUE(brief.brief());
  ASSERT_EQ(brief.contributors().size(), 4u);
  EXPECT_EQ(brief.IndexOf("d"), 3u);
  EXPECT_EQ(brief.IndexOf("c"), std::nullopt);
  EXPECT_EQ(brief.contributors()[3].root, "");
  EXPECT_EQ(brief.AddressOf("a"), "a:1");
  EXPECT_EQ(brief.TargetOf(brief.shards()[1], 3), "b");
  EXPECT_TRUE(brief.CheckSuccessor(whole).ok());
  EXPECT_TRUE(whole.CheckSuccessor(brief).ok());
  v1::Plan other = proto;
  other.mutable_contributors(3)->set_contribution_root(std::string(32, 'x'));
  EXPECT_FALSE(brief.CheckSuccessor(Made(other)).ok());
  EXPECT_FALSE(whole.CheckSuccessor(Made(other)).ok());
  brief.Complete(whole);
  EXPECT_FALSE(brief.brief());
  EXPECT_EQ(brief.contributors()[3].root, std::string(32, 'd'));
  EXPECT_TRUE(brief.contributors()[2].lost);
  v1::Plan astray = BriefPlans(proto).For("d");
  astray.set_positions(2, 4);
  EXPECT_FALSE(Make(astray).ok()) << "of four";
  astray.set_positions(2, 1);
  EXPECT_FALSE(Make(astray).ok()) << "b's";
}

}  // namespace
}  // namespace atolld
