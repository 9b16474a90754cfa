// Peers that mask their updates, each with a replica and files of its own, and a coordinator whose
// messages the test carries: each test says what goes otherwise than it should.
#include "daemon/peer/mask_link.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/base/casts.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "compression/base/bitmap.h"
#include "compression/ring_sum_codec.h"
#include "membership/history/header.h"
#include "membership/history/mean_records.h"
#include "membership/masking/mask_round.h"
#include "membership/masking/masked_terms.h"
#include "membership/trust/contribution.h"
#include "tests/sim/sim_world.h"
#include "tests/unit/daemon/replica/state/test_run.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kMaskingPeers = 4;

std::string MaskingPeer(uint32_t i) { return absl::StrCat("p", i); }

// One peer at version 0, with an update of values that are all i + 1 thousandths.
struct MaskingScene {
  // `privacy`: of the run, beside masks.
  MaskingScene(SimWorld& world, uint32_t i, const std::string& pinned = "",
               const v1::PrivacySpec& privacy = {})
      : env(world.AddProcess(MaskingPeer(i)).env()), key(TestKey(static_cast<char>('a' + i))) {
    TestRun run;
    run.codec = "fp32";
    EXPECT_TRUE(CreateReplica(env.files, "/r", run).ok());
    if (!pinned.empty()) {
      EXPECT_TRUE(WriteFileDurably(env.files, "/r/mask_keys", BytesOf(pinned)).ok());
    }
    ReplicaKeeper::Events events;
    events.on_offer = [] {};
    events.on_digest = [](uint64_t, const Digest&) {};
    events.on_refused = [](const absl::Status& why) { ADD_FAILURE() << why; };
    events.on_committed = [this](const v1::EntryHeader& header) {
      own->OnCommitted(header);
      link->OnMoved();
    };
    keeper = std::make_unique<ReplicaKeeper>(env, "/r", RetentionPolicy(), std::move(events));
    EXPECT_TRUE(keeper->Load().ok());
    spec = keeper->genesis().spec();
    *spec.mutable_privacy() = privacy;
    spec.mutable_privacy()->set_masked(true);
    spec.mutable_inner()->set_learning_rate(1e-3);
    spec.mutable_inner()->set_steps(10);
    own = std::make_unique<OwnUpdate>(env, MaskingPeer(i), "/r", *keeper);
    own->Follow(spec);
    MaskLink::Events hears;
    hears.send = [this](const v1::PeerMessage& message) { said.push_back(message.mask()); };
    hears.sign = [this, i](v1::Ready* ready) {
      SignContribution(key, spec.run_id(), MaskingPeer(i), ready);
    };
    hears.on_unmasked = [this](ExchangeOutcome outcome) { unmasked.push_back(std::move(outcome)); };
    hears.on_over = [this] { ++over; };
    hears.on_shown = [this] { ++shown; };
    link = std::make_unique<MaskLink>(env, MaskingPeer(i), "/r", *keeper, *own, std::move(hears));
    EXPECT_TRUE(link->Load(&key).ok());
    link->Follow(spec);
    Hold(i);
  }

  void Hold(uint32_t i) {
    OwnUpdate::Encoded encoded;
    const float value = 1e-3F * static_cast<float>(i + 1);
    encoded.plain = OwnUpdate::Plain{
        std::make_shared<const std::vector<float>>(keeper->grid().elements(), value), Rounding()};
    v1::Ready ready;
    ready.set_tokens(100 * (i + 1));
    own->Hold(std::move(encoded), std::move(ready));
  }

  const Env env;
  const SigningKey key;
  std::unique_ptr<ReplicaKeeper> keeper;
  std::unique_ptr<OwnUpdate> own;
  std::unique_ptr<MaskLink> link;
  v1::RunSpec spec;
  std::vector<v1::MaskFromParty> said;
  std::vector<ExchangeOutcome> unmasked;
  int over = 0;
  int shown = 0;
};

class MaskLinkTest : public ::testing::Test {
 protected:
  static std::string LineOf(uint32_t i) {
    const SigningKey key = TestKey(static_cast<char>('a' + i));
    return absl::StrCat(MaskingPeer(i), " ", absl::BytesToHexString(key.public_key()), "\n");
  }

  void Make(const std::string& pinned_of_first = "") {
    v1::PrivacySpec privacy;
    privacy.set_roster(roster_);
    privacy.set_closed(closed_);
    std::string all;
    for (uint32_t i = 0; i < kMaskingPeers; ++i) absl::StrAppend(&all, LineOf(i));
    for (uint32_t i = 0; i < kMaskingPeers; ++i) {
      const std::string pinned = listed_ ? all : i == 0 ? pinned_of_first : "";
      peers_.push_back(std::make_unique<MaskingScene>(world_, i, pinned, privacy));
    }
  }

  v1::MaskAttempt Attempt(uint64_t number = 1) const {
    v1::MaskAttempt attempt;
    attempt.set_run_id("test-run");
    attempt.set_version(1);
    attempt.set_attempt(number);
    attempt.set_weight_exponent(WeightExponentOf({100, 200, 300, 400}));
    return attempt;
  }

  // Says it, and gives what the peer has answered.
  std::vector<v1::MaskFromParty> Tell(uint32_t i, const v1::MaskToParty& message) {
    peers_[i]->said.clear();
    peers_[i]->link->OnMessage(message);
    world_.RunFor(absl::Seconds(1));
    return peers_[i]->said;
  }

  // From the keys to masked updates that stand.
  void MaskAll(const v1::MaskAttempt& attempt) {
    round_ = std::make_unique<MaskRound>(attempt, MaskRosterRule());
    v1::MaskToParty message;
    *message.mutable_begin() = attempt;
    for (uint32_t i = 0; i < kMaskingPeers; ++i) {
      const std::vector<v1::MaskFromParty> keys = Tell(i, message);
      ASSERT_EQ(keys.size(), 1u);
      ASSERT_TRUE(round_->OnKeys(MaskingPeer(i), keys[0].keys()).ok());
    }
    *message.mutable_roster() = round_->FreezeRoster().value();
    for (uint32_t i = 0; i < kMaskingPeers; ++i) {
      const std::vector<v1::MaskFromParty> shares = Tell(i, message);
      ASSERT_EQ(shares.size(), 1u);
      ASSERT_TRUE(shares[0].has_shares()) << shares[0].ShortDebugString();
      ASSERT_TRUE(round_->OnShares(MaskingPeer(i), shares[0].shares()).ok());
    }
    const std::map<std::string, v1::MaskDelivery> deliveries = round_->FreezeMasking().value();
    for (const auto& [peer, delivery] : deliveries) {
      *message.mutable_delivery() = delivery;
      deliveries_[peer] = message;
      const auto i = static_cast<uint32_t>(peer.back() - '0');
      const std::vector<v1::MaskFromParty> masked = Tell(i, message);
      ASSERT_EQ(masked.size(), 1u);
      ASSERT_TRUE(masked[0].has_masked()) << masked[0].ShortDebugString();
      EXPECT_TRUE(
          CheckContributionProof("test-run", 1,
                                 {peer, masked[0].masked().contribution_root(),
                                  peers_[i]->key.public_key(), masked[0].masked().signature()})
              .ok());
    }
  }

  // Of the updates that stand.
  v1::Plan Plan(uint32_t revision = 1) const {
    v1::Plan plan;
    plan.set_version(1);
    plan.set_epoch(1);
    plan.set_revision(revision);
    plan.set_parameters(peers_[0]->keeper->grid().elements());
    for (uint32_t i = 0; i < kMaskingPeers; ++i) {
      v1::PlanMember* const member = plan.add_contributors();
      member->set_peer(MaskingPeer(i));
      member->set_address(absl::StrCat(MaskingPeer(i), ":1"));
      member->set_weight_bits(absl::bit_cast<uint32_t>(100.0F * static_cast<float>(i + 1)));
      member->set_contribution_root(ToBytes(peers_[i]->own->contribution()->root));
    }
    v1::Shard* const shard = plan.add_shards();
    shard->set_chunks(peers_[0]->keeper->grid().chunks());
    shard->set_reducer("p0");
    shard->set_attempt(1);
    return plan;
  }

  // What its exchange comes to, if the chunks of these are in it; `ragged` has its first alone.
  ExchangeOutcome Outcome(const v1::Plan& plan, const std::set<uint32_t>& in,
                          std::set<uint32_t> ragged = {}) const {
    const ChunkGrid& grid = peers_[0]->keeper->grid();
    MeanRecordsBuilder records;
    records.BeginShard(0, "p0");
    std::vector<SharedBytes> sums;
    for (uint32_t c = 0; c < grid.chunks(); ++c) {
      std::vector<WeightedChunk> pieces;
      std::string bitmap(BitmapBytes(kMaskingPeers), '\0');
      for (uint32_t i = 0; i < kMaskingPeers; ++i) {
        if (in.count(i) == 0 || (c > 0 && ragged.count(i) != 0)) continue;
        pieces.push_back({peers_[i]->own->contribution()->chunks[c].span(), 1});
        SetBit(&bitmap, i);
      }
      std::vector<uint8_t> sum(MaskedSumCodec().MaxEncodedBytes(grid.Elements(c)));
      EXPECT_TRUE(
          MaskedSumCodec().EncodeSum(pieces, 1, grid.Elements(c), absl::MakeSpan(sum)).ok());
      sums.emplace_back(std::move(sum));
      records.Add(bitmap, {});
    }
    ExchangeOutcome outcome;
    outcome.revision = plan.revision();
    outcome.payload = JoinPayload(sums);
    outcome.payload_digest = TreeDigest(outcome.payload.span());
    outcome.records = records.Take();
    return outcome;
  }

  // The peer's exchange has come to this; gives what it says of it.
  std::vector<v1::MaskFromParty> Sum(uint32_t i, const v1::Plan& plan,
                                     const ExchangeOutcome& outcome) {
    peers_[i]->said.clear();
    peers_[i]->link->OnSum(outcome, ExchangePlan::Make(plan, peers_[i]->keeper->grid()).value());
    world_.RunFor(absl::Seconds(1));
    return peers_[i]->said;
  }

  // The secrets of a sum over these, which all of them reveal.
  v1::MaskToParty Unmasking(const std::set<uint32_t>& contributors) {
    std::set<std::string> complete;
    for (const uint32_t i : contributors) complete.insert(MaskingPeer(i));
    v1::MaskToParty message;
    *message.mutable_frozen() = round_->FreezeContributors(complete).value();
    for (const uint32_t i : contributors) {
      const std::vector<v1::MaskFromParty> agreed = Tell(i, message);
      EXPECT_EQ(agreed.size(), 1u);
      EXPECT_TRUE(round_->OnAgreed(MaskingPeer(i), agreed.at(0).agreed()).ok());
    }
    *message.mutable_request() = round_->FreezeConsent().value();
    for (const uint32_t i : contributors) {
      const std::vector<v1::MaskFromParty> opened = Tell(i, message);
      EXPECT_EQ(opened.size(), 1u);
      EXPECT_TRUE(round_->OnUnmaskShares(MaskingPeer(i), opened.at(0).opened()).ok());
    }
    *message.mutable_unmasking() = round_->Finish().value();
    return message;
  }

  uint32_t roster_ = 0;  // of the run
  bool closed_ = false;
  bool listed_ = false;  // everybody has everybody's line
  SimWorld world_{1};
  std::vector<std::unique_ptr<MaskingScene>> peers_;
  std::unique_ptr<MaskRound> round_;
  std::map<std::string, v1::MaskToParty> deliveries_;
};

// Broken: peers would vote for different means, for the masked sum itself, or for another mean than
// that of the updates.
TEST_F(MaskLinkTest, WhatIsVotedForIsTheMeanOfThoseWhoAreIn) {
  Make();
  MaskAll(Attempt());
  const v1::Plan plan = Plan();
  const std::set<uint32_t> in = {0, 1, 3};
  const ExchangeOutcome outcome = Outcome(plan, in);
  for (uint32_t i = 0; i < kMaskingPeers; ++i) {
    EXPECT_TRUE(peers_[i]->link->CheckPlan(plan).ok()) << peers_[i]->link->CheckPlan(plan);
    const std::vector<v1::MaskFromParty> said = Sum(i, plan, outcome);
    ASSERT_EQ(said.size(), 1u);
    const v1::MaskedSum& sum = said[0].sum();
    EXPECT_EQ(sum.payload_digest(), ToBytes(outcome.payload_digest));
    EXPECT_EQ(sum.contributors_size(), 3);
    EXPECT_FALSE(sum.ragged());
    EXPECT_TRUE(peers_[i]->unmasked.empty());
  }
  const v1::MaskToParty unmasking = Unmasking(in);
  for (uint32_t i = 0; i < kMaskingPeers; ++i) {  // of the one that is left out too
    Tell(i, unmasking);
    ASSERT_EQ(peers_[i]->unmasked.size(), 1u);
    EXPECT_EQ(peers_[i]->unmasked[0].payload_digest, peers_[0]->unmasked[0].payload_digest);
    EXPECT_EQ(peers_[i]->unmasked[0].revision, 1u);
  }
  const Codec& fp32 = **FindCodec("fp32");
  const ChunkGrid& grid = peers_[0]->keeper->grid();
  const auto chunks = SplitPayload(grid, fp32, peers_[0]->unmasked[0].payload).value();
  std::vector<float> mean(grid.Elements(1));
  ASSERT_TRUE(fp32.Decode(chunks[1].span(), absl::MakeSpan(mean)).ok());
  const double expected = (100 * 1e-3 + 200 * 2e-3 + 400 * 4e-3) / 700;
  for (const float value : mean) ASSERT_NEAR(value, expected, 1e-6);
  EXPECT_NEAR(peers_[0]->unmasked[0].squared_mean,
              static_cast<double>(grid.elements()) * expected * expected, 1e-6);
  // From now on a stranger cannot take the place of one of them.
  EXPECT_THAT(FileBytes(peers_[0]->env.files, "/r/mask_keys"), HasSubstr("p3 "));
}

// Broken: a voter that dies after the secrets came would leave the others without a vote under the
// plan that follows.
TEST_F(MaskLinkTest, TheSameSumUnderALaterRevisionNeedsNoNewSecrets) {
  Make();
  MaskAll(Attempt());
  Sum(0, Plan(), Outcome(Plan(), {0, 1, 2, 3}));
  Tell(0, Unmasking({0, 1, 2, 3}));
  ASSERT_EQ(peers_[0]->unmasked.size(), 1u);
  EXPECT_TRUE(Sum(0, Plan(2), Outcome(Plan(2), {0, 1, 2, 3})).empty());
  ASSERT_EQ(peers_[0]->unmasked.size(), 2u);
  EXPECT_EQ(peers_[0]->unmasked[1].revision, 2u);
  EXPECT_EQ(peers_[0]->unmasked[1].payload_digest, peers_[0]->unmasked[0].payload_digest);
  // Over others it is not what the secrets are for.
  const std::vector<v1::MaskFromParty> other = Sum(0, Plan(3), Outcome(Plan(3), {0, 1, 2}));
  ASSERT_EQ(other.size(), 1u);
  EXPECT_TRUE(other[0].has_refused());
  EXPECT_EQ(peers_[0]->unmasked.size(), 2u);
  EXPECT_EQ(peers_[0]->over, 1);
}

// Broken: a sum in which parts of an update are missing would be unmasked to noise.
TEST_F(MaskLinkTest, ARaggedSumIsToldAsSuch) {
  Make();
  MaskAll(Attempt());
  const std::vector<v1::MaskFromParty> said = Sum(1, Plan(), Outcome(Plan(), {0, 1, 2, 3}, {2}));
  ASSERT_EQ(said.size(), 1u);
  EXPECT_TRUE(said[0].sum().ragged());
  EXPECT_EQ(said[0].sum().contributors_size(), 3);
}

// Broken: a mean would be divided by other weights than are in the sum, and nobody would see it.
TEST_F(MaskLinkTest, APlanOfOtherWeightsThanWereMaskedIsRefused) {
  Make();
  MaskAll(Attempt());
  v1::Plan plan = Plan();
  plan.mutable_contributors(2)->set_weight_bits(absl::bit_cast<uint32_t>(301.0F));
  EXPECT_TRUE(peers_[1]->link->CheckPlan(plan).ok());
  const absl::Status refused = peers_[2]->link->CheckPlan(plan);
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("masked with 300"));
  plan = Plan();
  plan.mutable_contributors(2)->set_scale_bits(absl::bit_cast<uint32_t>(0.5F));
  EXPECT_FALSE(peers_[2]->link->CheckPlan(plan).ok());
  EXPECT_FALSE(peers_[2]->link->CheckPlan(BriefPlans(Plan()).For("p2")).ok());
}

// Broken: a Session that breaks would cost the peer its place in the round, or have it mask twice
// under one secret.
TEST_F(MaskLinkTest, WhatIsSaidAgainIsAnsweredAlike) {
  Make();
  MaskAll(Attempt());
  const std::string root = ToBytes(peers_[3]->own->contribution()->root);
  v1::MaskToParty begin;
  *begin.mutable_begin() = Attempt();
  EXPECT_TRUE(Tell(3, begin).at(0).has_keys());
  const std::vector<v1::MaskFromParty> again = Tell(3, deliveries_["p3"]);
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].masked().contribution_root(), root);
  EXPECT_EQ(ToBytes(peers_[3]->own->contribution()->root), root);
  Sum(3, Plan(), Outcome(Plan(), {0, 1, 2, 3}));
  peers_[3]->said.clear();
  peers_[3]->link->Repeat();
  ASSERT_EQ(peers_[3]->said.size(), 1u);
  EXPECT_TRUE(peers_[3]->said[0].has_sum());
}

// Broken: an attempt that failed would cost the peer its update, or what it masked for one would be
// summed in another.
TEST_F(MaskLinkTest, AnAttemptThatIsDiscardedLeavesTheUpdate) {
  Make();
  MaskAll(Attempt());
  const std::string root = ToBytes(peers_[0]->own->contribution()->root);
  v1::MaskToParty discarded;
  *discarded.mutable_discarded() = Attempt();
  for (uint32_t i = 0; i < kMaskingPeers; ++i) {
    Tell(i, discarded);
    EXPECT_EQ(peers_[i]->own->contribution(), nullptr);
    EXPECT_NE(peers_[i]->own->plain(), nullptr);
    EXPECT_EQ(peers_[i]->over, 1);
    EXPECT_FALSE(peers_[i]->link->under_way());
  }
  MaskAll(Attempt(2));
  EXPECT_NE(ToBytes(peers_[0]->own->contribution()->root), root);
  // Nor is there a way back to the first one.
  v1::MaskToParty first;
  *first.mutable_begin() = Attempt(1);
  EXPECT_TRUE(Tell(0, first).at(0).has_refused());
}

// Broken: the coordinator would wait for somebody who has nothing to add, or cannot.
TEST_F(MaskLinkTest, WhoHasNoUpdateOrAnotherVersionRefuses) {
  Make();
  v1::MaskToParty begin;
  *begin.mutable_begin() = Attempt();
  peers_[0]->own->Drop();
  ASSERT_EQ(Tell(0, begin).size(), 1u);
  EXPECT_TRUE(peers_[0]->said[0].has_refused());
  begin.mutable_begin()->set_version(2);
  EXPECT_TRUE(Tell(1, begin).at(0).has_refused());
  EXPECT_FALSE(peers_[1]->link->under_way());
}

// Broken: whoever trains anew would stay in a sum with an update that it no longer has.
TEST_F(MaskLinkTest, AnUpdateThatIsGoneEndsTheAttempt) {
  Make();
  MaskAll(Attempt());
  peers_[2]->own->Drop();
  peers_[2]->said.clear();
  peers_[2]->link->GiveUp(absl::CancelledError("another update is trained"));
  ASSERT_EQ(peers_[2]->said.size(), 1u);
  EXPECT_TRUE(peers_[2]->said[0].has_refused());
  EXPECT_FALSE(peers_[2]->link->under_way());
  EXPECT_EQ(peers_[2]->shown, 0) << "another is trained already";
}

// Broken: a party's update would be in two unmasked sums over different parties, and their
// difference is the update of one who is in one of them alone.
TEST_F(MaskLinkTest, OnceItsContributorsWereToldAnUpdateIsInNoOtherSum) {
  Make();
  MaskAll(Attempt());
  const std::set<uint32_t> in = {0, 1, 3};
  const ExchangeOutcome outcome = Outcome(Plan(), in);
  for (uint32_t i = 0; i < kMaskingPeers; ++i) Sum(i, Plan(), outcome);
  const v1::MaskToParty unmasking = Unmasking(in);
  Tell(0, unmasking);  // the others do not hear of it
  v1::MaskToParty discarded;
  *discarded.mutable_discarded() = Attempt();
  for (uint32_t i = 0; i < kMaskingPeers; ++i) {
    Tell(i, discarded);
    EXPECT_EQ(peers_[i]->shown, static_cast<int>(in.count(i))) << i;
    EXPECT_EQ(peers_[i]->own->plain() == nullptr, in.count(i) > 0) << i;
  }
  v1::MaskToParty begin;
  *begin.mutable_begin() = Attempt(2);
  EXPECT_TRUE(Tell(0, begin).at(0).has_refused());
  EXPECT_TRUE(Tell(2, begin).at(0).has_keys()) << "it is in no sum";
  // What is trained instead is another one.
  peers_[0]->Hold(5);
  *begin.mutable_begin() = Attempt(3);
  EXPECT_TRUE(Tell(0, begin).at(0).has_keys());
}

// Broken: each commit, of which a peer hears before it has it, would cost all their updates; or one
// that another coordinator has made of others would leave this peer's for a second sum.
TEST_F(MaskLinkTest, AnEntryThatIsOnItsWayMayHaveTakenTheUpdate) {
  Make();
  MaskAll(Attempt());
  const std::set<uint32_t> in = {0, 1, 2, 3};
  for (uint32_t i = 0; i < kMaskingPeers; ++i) Sum(i, Plan(), Outcome(Plan(), in));
  Unmasking(in);
  TestRun run;
  run.codec = "fp32";
  v1::MaskToParty discarded, begin;
  *discarded.mutable_discarded() = Attempt();
  *begin.mutable_begin() = Attempt(2);
  for (const uint32_t i : {0, 1}) {  // the entry is of p1 and p2
    MaskingScene& peer = *peers_[i];
    absl::StatusOr<OwnedReplica> replica = OpenReplica(peer.env.files, "/r");
    ASSERT_TRUE(replica.ok()) << replica.status();
    const v1::EntryHeader header = run.NextHeader(**replica, run.Payload(1));
    ASSERT_TRUE(peer.keeper->Announce(header));
    Tell(i, discarded);
    EXPECT_NE(peer.own->plain(), nullptr);
    EXPECT_TRUE(Tell(i, begin).at(0).has_refused());
    peer.keeper->Prepare(run.Payload(1),
                         [](const absl::Status& status) { EXPECT_TRUE(status.ok()) << status; });
    world_.RunFor(absl::Seconds(1));
    ASSERT_TRUE(peer.keeper->Announce(header));  // its mean is there by now
    world_.RunFor(absl::Seconds(1));
    ASSERT_EQ(peer.keeper->version(), 1u);
    EXPECT_EQ(peer.own->plain(), nullptr);
    EXPECT_EQ(peer.shown, i == 0 ? 1 : 0);
  }
}

// Broken: the others can unmask a sum with this peer's update without asking it, and a coordinator
// that died before it could say so would leave the update for another sum.
TEST_F(MaskLinkTest, WhoCannotKnowWhetherItWasInASumTakesItThatItWas) {
  Make();
  MaskAll(Attempt());
  peers_[1]->said.clear();
  peers_[1]->link->Forget();  // a new epoch: its coordinator knows of no attempt
  EXPECT_TRUE(peers_[1]->said.empty());
  EXPECT_EQ(peers_[1]->own->plain(), nullptr);
  EXPECT_EQ(peers_[1]->shown, 1);
  v1::MaskToParty begin;
  *begin.mutable_begin() = Attempt(2);
  EXPECT_TRUE(Tell(2, begin).at(0).has_refused()) << "nobody said how the first one ended";
  EXPECT_EQ(peers_[2]->shown, 1);
  // Before its update was told to be masked nobody had it.
  Tell(3, begin);
  peers_[3]->Hold(3);
  *begin.mutable_begin() = Attempt(3);
  EXPECT_TRUE(Tell(3, begin).at(0).has_keys());
  peers_[3]->link->Forget();
  EXPECT_NE(peers_[3]->own->plain(), nullptr);
  EXPECT_EQ(peers_[3]->shown, 1) << "of the first attempt";
}

// Broken: a later life of this peer would train an update again that others may have seen.
TEST_F(MaskLinkTest, AnUpdateIsCountedBeforeAnybodyHearsThatItIsMasked) {
  Make();
  MaskAll(Attempt());
  EXPECT_EQ(FileBytes(peers_[0]->env.files, "/r/mask_shown"), "1 1\n");
  v1::MaskToParty discarded;
  *discarded.mutable_discarded() = Attempt();
  for (uint32_t i = 0; i < kMaskingPeers; ++i) Tell(i, discarded);
  world_.disk("p1").FailNextWrites(100, absl::ResourceExhaustedError("the disk is full"));
  peers_[1]->Hold(1);
  round_ = std::make_unique<MaskRound>(Attempt(2), MaskRosterRule());
  v1::MaskToParty message;
  *message.mutable_begin() = Attempt(2);
  for (uint32_t i = 0; i < kMaskingPeers; ++i) {
    ASSERT_TRUE(round_->OnKeys(MaskingPeer(i), Tell(i, message).at(0).keys()).ok());
  }
  *message.mutable_roster() = round_->FreezeRoster().value();
  for (uint32_t i = 0; i < kMaskingPeers; ++i) {
    ASSERT_TRUE(round_->OnShares(MaskingPeer(i), Tell(i, message).at(0).shares()).ok());
  }
  const std::map<std::string, v1::MaskDelivery> deliveries = round_->FreezeMasking().value();
  *message.mutable_delivery() = deliveries.at("p1");
  EXPECT_TRUE(Tell(1, message).at(0).has_refused()) << "its disk is full";
  *message.mutable_delivery() = deliveries.at("p0");
  EXPECT_TRUE(Tell(0, message).at(0).has_masked());
  EXPECT_EQ(FileBytes(peers_[0]->env.files, "/r/mask_shown"), "1 1\n") << "the same update";
}

// Broken: a coordinator that discards sum after sum would get as many of the same data.
TEST_F(MaskLinkTest, SoManySumsOfOneVersionAndNoMore) {
  Make();
  v1::MaskToParty begin;
  uint64_t attempt = 0;
  for (uint32_t i = 0; i < kMostSumsOfAVersion; ++i) {
    MaskAll(Attempt(++attempt));
    for (const auto& peer : peers_) {
      peer->link->Forget();
      peer->Hold(i);
    }
  }
  *begin.mutable_begin() = Attempt(++attempt);
  EXPECT_TRUE(Tell(0, begin).at(0).has_refused());
  EXPECT_EQ(world_.LogCount("16 updates to version 1 may have been in unmasked sums"), 1u);
}

// Broken: in a run of many a coordinator would make a roster of this party and two of its own.
TEST_F(MaskLinkTest, ARosterBelowTheRunsIsRefused) {
  roster_ = 4;
  Make();
  round_ = std::make_unique<MaskRound>(Attempt(), MaskRosterRule());
  v1::MaskToParty message;
  *message.mutable_begin() = Attempt();
  for (uint32_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(round_->OnKeys(MaskingPeer(i), Tell(i, message).at(0).keys()).ok());
  }
  *message.mutable_roster() = round_->FreezeRoster().value();
  EXPECT_TRUE(Tell(0, message).at(0).has_refused());
  EXPECT_EQ(world_.LogCount("this run's masks are for 4 to 255 parties, not 3"), 1u);
  MaskAll(Attempt(2));  // of four
}

// Broken: where the parties are known beforehand, somebody whom nobody knows would take part.
TEST_F(MaskLinkTest, InAClosedRunWhoIsNotListedTakesNoPart) {
  closed_ = true;
  std::string listed;
  for (uint32_t i = 1; i < kMaskingPeers; ++i) {
    if (i != 2) absl::StrAppend(&listed, LineOf(i));
  }
  Make(listed);
  round_ = std::make_unique<MaskRound>(Attempt(), MaskRosterRule());
  v1::MaskToParty message;
  *message.mutable_begin() = Attempt();
  for (uint32_t i = 0; i < kMaskingPeers; ++i) {
    ASSERT_TRUE(round_->OnKeys(MaskingPeer(i), Tell(i, message).at(0).keys()).ok());
  }
  *message.mutable_roster() = round_->FreezeRoster().value();
  EXPECT_TRUE(Tell(0, message).at(0).has_refused());
  EXPECT_EQ(world_.LogCount("p2 is not in this party's list"), 1u);
  EXPECT_EQ(world_.LogCount("/r/mask_keys lists 0 beside this one"), kMaskingPeers - 1);
}

// Broken: a list that people have made would grow by whoever the coordinator brings.
TEST_F(MaskLinkTest, AClosedListStaysAsItIs) {
  closed_ = true;
  listed_ = true;
  Make();
  MaskAll(Attempt());
  const std::set<uint32_t> in = {0, 1, 2, 3};
  const std::string before = FileBytes(peers_[0]->env.files, "/r/mask_keys");
  Sum(0, Plan(), Outcome(Plan(), in));
  Tell(0, Unmasking(in));
  ASSERT_EQ(peers_[0]->unmasked.size(), 1u);
  EXPECT_EQ(FileBytes(peers_[0]->env.files, "/r/mask_keys"), before);
}

// Broken: a coordinator could put a key of its own in a party's place, after the first round in
// which they met.
TEST_F(MaskLinkTest, AThirdWithOtherKeysEndsTheAttemptAndIsNamed) {
  // One of four may be new, two may not.
  Make(absl::StrCat("p2 ", std::string(64, 'e'), "\np3 ", std::string(64, 'f'), "\n"));
  round_ = std::make_unique<MaskRound>(Attempt(), MaskRosterRule());
  v1::MaskToParty message;
  *message.mutable_begin() = Attempt();
  for (uint32_t i = 0; i < kMaskingPeers; ++i) {
    ASSERT_TRUE(round_->OnKeys(MaskingPeer(i), Tell(i, message).at(0).keys()).ok());
  }
  *message.mutable_roster() = round_->FreezeRoster().value();
  EXPECT_TRUE(Tell(0, message).at(0).has_refused());
  EXPECT_TRUE(Tell(1, message).at(0).has_shares());
  EXPECT_EQ(world_.LogCount("peer p2 signs its mask keys with another key than its line in "
                            "/r/mask_keys has"),
            1u);
}

// Broken: a coordinator that has one party of its own would read the other's update from their sum.
TEST_F(MaskLinkTest, TwoAreTooFewForASum) {
  Make();
  round_ = std::make_unique<MaskRound>(Attempt(), MaskRosterRule());
  v1::MaskToParty message;
  *message.mutable_begin() = Attempt();
  for (uint32_t i = 0; i < 2; ++i) {
    ASSERT_TRUE(round_->OnKeys(MaskingPeer(i), Tell(i, message).at(0).keys()).ok());
  }
  *message.mutable_roster() = round_->FreezeRoster().value();
  EXPECT_TRUE(Tell(0, message).at(0).has_refused());
}

}  // namespace
}  // namespace atolld
