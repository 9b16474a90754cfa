#include "membership/trust/contribution.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "absl/base/casts.h"
#include "gtest/gtest.h"

namespace atolld {
namespace {

// Would break: a root could be passed off as another peer's, or as of another entry or run; or an
// honest one would be refused.
TEST(ContributionProof, HoldsForOnePeerEntryRunAndRoot) {
  const SigningKey key = SigningKey::FromSeed(std::string(32, 'k')).value();
  v1::Ready ready;
  ready.set_version(7);
  ready.set_contribution_root(std::string(32, 'r'));
  SignContribution(key, "run", "p1", &ready);
  const v1::PlanMember member = PlanMemberOf("p1", "p1:1", key.public_key(), ready);
  const ContributionProof proof = {member.peer(), member.contribution_root(), member.signing_key(),
                                   member.signature()};
  EXPECT_TRUE(CheckContributionProof("run", 7, proof).ok());
  EXPECT_FALSE(CheckContributionProof("other", 7, proof).ok());
  EXPECT_FALSE(CheckContributionProof("run", 8, proof).ok());
  ContributionProof other = proof;
  other.peer = "p2";
  EXPECT_FALSE(CheckContributionProof("run", 7, other).ok());
  other = proof;
  other.root = std::string(32, 'R');
  EXPECT_FALSE(CheckContributionProof("run", 7, other).ok());
  other = proof;
  other.signing_key = SigningKey::FromSeed(std::string(32, 'K')).value().public_key();
  EXPECT_FALSE(CheckContributionProof("run", 7, other).ok());
  EXPECT_FALSE(CheckContributionProof("run", 7, {"p1", proof.root, "", ""}).ok());
}

// Would break: every contributor of a large run would be told what only those need that average; or
// one would not know whom to send to, or for which of its updates it is asked.
TEST(BriefPlan, TellsWhatAContributorNeeds) {
  v1::Plan plan;
  plan.set_version(7);
  plan.set_epoch(2);
  plan.set_revision(3);
  plan.set_parameters(1000);
  plan.set_deadline_milliseconds(500);
  plan.set_audit_commitment(std::string(32, 'c'));
  plan.add_lost("p9");
  for (int i = 1; i <= 100; ++i) {
    v1::PlanMember* const member = plan.add_contributors();
    member->set_peer("p" + std::to_string(i));
    member->set_address("192.168.100." + std::to_string(i) + ":7000");
    member->set_weight_bits(0x3f800000);
    member->set_contribution_root(std::string(4, static_cast<char>(i)) + std::string(28, 'r'));
    member->set_signature(std::string(64, 's'));
    member->set_signing_key(std::string(32, 'k'));
    member->set_squared_norm_bits(1);
    member->set_squared_distance_bits(1);
  }
  const auto add_shard = [&](uint32_t chunks, const std::string& reducer) {
    v1::Shard* const shard = plan.add_shards();
    shard->set_chunks(chunks);
    shard->set_reducer(reducer);
    return shard;
  };
  add_shard(2, "p1");
  add_shard(1, "p2")->set_holder("p3");
  add_shard(1, "x1")->add_relays()->set_peer("p4");
  add_shard(0, "p5");
  EXPECT_EQ(ServersOf(plan), (std::set<std::string>{"p1", "p3", "p4", "x1"}));
  const v1::Plan brief = BriefPlans(plan).For("p7");
  EXPECT_TRUE(IsBrief(brief));
  EXPECT_FALSE(IsBrief(plan));
  EXPECT_TRUE(brief.from_centre());
  EXPECT_EQ(brief.revision(), 3u);
  EXPECT_EQ(brief.shards_size(), 4);
  EXPECT_EQ(brief.contributor_count(), 100u);
  ASSERT_EQ(brief.contributors_size(), 4) << "p1, p3, p4 and itself";
  EXPECT_EQ(brief.contributors(0).address(), "192.168.100.1:7000");
  EXPECT_EQ(brief.contributors(3).peer(), "p7");
  EXPECT_EQ(brief.positions(3), 6u);
  EXPECT_EQ(brief.contributors(3).root_mark(), RootMark(plan.contributors(6).contribution_root()));
  EXPECT_NE(brief.contributors(3).root_mark(), brief.contributors(2).root_mark());
  EXPECT_LT(brief.ByteSizeLong(), 500u);
  const BriefPlans plans(plan);
  EXPECT_EQ(plans.servers(), ServersOf(plan));
  // One that stands between those that serve, and one that is lost.
  EXPECT_EQ(plans.For("p2").contributors(1).peer(), "p2");
  EXPECT_EQ(plans.For("p2").positions(1), 1u);
  EXPECT_EQ(plans.For("p2").positions(2), 2u);
  EXPECT_EQ(plans.For("p2").lost_size(), 0);
  EXPECT_EQ(plans.For("p9").lost(0), "p9");
  EXPECT_EQ(plans.For("x1").contributors_size(), 3) << "an aggregator contributes nothing";
}

// -----------------------------------------------------------------------------------------------

// Would break: stale updates count as much as fresh ones.
TEST(ContributionWeight, FallsWithAge) {
  v1::RunSpec spec;
  const auto weight = [&](uint64_t tokens, uint32_t age) {
    v1::Ready ready;
    ready.set_tokens(tokens);
    ready.set_age(age);
    return ContributionWeight(spec, ready, 0);
  };
  EXPECT_EQ(weight(1000, 0), 1000.0f);
  EXPECT_EQ(weight(1000, 1), 800.0f);
  EXPECT_EQ(weight(1000, 4), 500.0f);
  spec.mutable_federation()->set_staleness_bits(absl::bit_cast<uint32_t>(1.0f));
  EXPECT_EQ(weight(1000, 1), 500.0f);
  spec.mutable_federation()->set_staleness_bits(0);
  EXPECT_EQ(weight(1000, 4), 1000.0f);
}

v1::RunSpec WeighedBy(const std::string& weights, float fairness = 0) {
  v1::RunSpec spec;
  spec.mutable_data()->set_private_(true);
  spec.mutable_federation()->set_weights(weights);
  spec.mutable_federation()->set_fairness_bits(absl::bit_cast<uint32_t>(fairness));
  return spec;
}

// Broken: a party would count by another thing than the run says.
TEST(PartyWeight, IsByTokensSamplesOneOrLoss) {
  EXPECT_EQ(PartyWeight(WeighedBy(""), 640, 10, 3), 640);
  EXPECT_EQ(PartyWeight(WeighedBy("samples"), 640, 10, 3), 10);
  EXPECT_EQ(PartyWeight(WeighedBy("equal"), 640, 10, 3), 1);
  EXPECT_DOUBLE_EQ(PartyWeight(WeighedBy("loss", 2), 640, 10, 3), 9);
  // No loss makes a weight of nothing, nor one that drowns all others.
  EXPECT_GT(PartyWeight(WeighedBy("loss", 1), 640, 10, 0), 0);
  EXPECT_GT(PartyWeight(WeighedBy("loss", 1), 640, 10, std::nan("")), 0);
  EXPECT_EQ(PartyWeight(WeighedBy("loss", 1), 640, 10, 1e300), 64);
}

// Broken: a peer of several parties would count as one of them, or as many as it likes.
TEST(PartyWeight, OfSeveralPartiesIsTheirSumAndBounded) {
  v1::Ready ready;
  ready.set_tokens(6400);
  ready.set_own_samples(100);
  ready.set_parties(5);
  ready.set_party_weight(5);
  EXPECT_EQ(ContributionWeight(WeighedBy("equal"), ready, 0), 5.0f);
  ready.set_party_weight(1000);
  EXPECT_EQ(ContributionWeight(WeighedBy("equal"), ready, 0), 5.0f);
  EXPECT_EQ(ContributionWeight(WeighedBy("samples"), ready, 0), 100.0f);
  ready.set_party_weight(1e9);
  EXPECT_EQ(ContributionWeight(WeighedBy("loss", 1), ready, 0), 5 * 64.0f);
  ready.set_party_weight(7.5);
  EXPECT_EQ(ContributionWeight(WeighedBy("loss", 1), ready, 0), 7.5f);
}

// Broken: with a high fairness all weights would be the same largest float, or sums of them no
// number, and no attempt of the run would ever have an equal vote.
TEST(PartyWeight, ALossToAHighPowerKeepsItsShare) {
  v1::Ready ready;
  std::vector<double> weights;
  for (const double loss : {5.5, 5.6, 64.0, 1e-9}) {
    ready.set_base_loss(loss);
    weights.push_back(ContributionWeight(WeighedBy("loss", 60), ready, 0));
  }
  EXPECT_GT(weights[0], 1e44);
  const std::vector<float> two = HeldWeights({weights[0], weights[1]});
  EXPECT_NEAR(two[1] / two[0], std::pow(5.6 / 5.5, 60), 1e-5);
  EXPECT_LE(two[1], 1.0f);
  EXPECT_GE(two[1], 0.5f);
  for (const float weight : HeldWeights(weights)) EXPECT_TRUE(weight > 0 && std::isfinite(weight));
  const std::vector<float> small = HeldWeights({weights[3], weights[3]});
  EXPECT_EQ(small[0], small[1]);
  // What every run so far counts by stays the same bits.
  EXPECT_EQ(HeldWeights({640.0, 1e12, 0.125}), (std::vector<float>{640, 1e12f, 0.125}));
  ready.set_parties(1000000);
  ready.set_party_weight(1e300);
  EXPECT_TRUE(std::isfinite(ContributionWeight(WeighedBy("loss", 100), ready, 0)));
}

// Broken: FedNova would not be FedNova: tau_eff / tau_i with tau_eff = sum p_i tau_i.
TEST(FederationScales, FedNovaBringsAllToTheSameNumberOfSteps) {
  v1::RunSpec spec;
  spec.mutable_federation()->set_normalised(true);
  const std::vector<WeighedUpdate> updates = {{100, 10, 1, 2}, {300, 30, 9, 2}};
  const std::vector<double> scales = FederationScales(spec, updates);
  // tau_eff = 0.25 x 10 + 0.75 x 30 = 25.
  EXPECT_DOUBLE_EQ(scales[0], 2.5);
  EXPECT_DOUBLE_EQ(scales[1], 25.0 / 30);
  EXPECT_EQ(FederationScales(v1::RunSpec(), updates), (std::vector<double>{1, 1}));
}

// Broken: the weighted mean times the scale would be another step than q-FedAvg's, which this
// computes as the paper writes it.
TEST(FederationScales, QFedAvgIsThePapersStep) {
  const double q = 2, rate = 0.1, big_l = 1 / rate;
  v1::RunSpec spec = WeighedBy("loss", static_cast<float>(q));
  spec.mutable_inner()->set_optimizer("sgd");
  spec.mutable_inner()->set_learning_rate(rate);
  const double d[] = {0.5, -0.25, 0.125}, loss[] = {2.0, 3.0, 0.5};
  double deltas = 0, h = 0;
  std::vector<WeighedUpdate> updates;
  for (int k = 0; k < 3; ++k) {
    deltas += std::pow(loss[k], q) * big_l * d[k];
    h += q * std::pow(loss[k], q - 1) * big_l * big_l * d[k] * d[k] + big_l * std::pow(loss[k], q);
    updates.push_back({PartyWeight(spec, 0, 0, loss[k]), 5, d[k] * d[k], loss[k]});
  }
  const std::vector<double> scales = FederationScales(spec, updates);
  double sum = 0, weights = 0;
  for (int k = 0; k < 3; ++k) {
    sum += updates[k].weight * scales[k] * d[k];
    weights += updates[k].weight;
  }
  EXPECT_NEAR(sum / weights, deltas / h, 1e-12);
  EXPECT_LT(scales[0], 1);
  // Of an adaptive inner rule no rate is known that bounds the curvature.
  spec.mutable_inner()->set_optimizer("adamw");
  EXPECT_EQ(FederationScales(spec, updates), (std::vector<double>{1, 1, 1}));
}

v1::EntryHeader HeaderOf(const std::vector<std::vector<float>>& weights_steps_scales) {
  v1::EntryHeader header;
  for (const std::vector<float>& one : weights_steps_scales) {
    v1::Contributor* const contributor = header.add_contributors();
    contributor->set_weight_bits(absl::bit_cast<uint32_t>(one[0]));
    contributor->set_steps(static_cast<uint64_t>(one[1]));
    if (one[2] != 1) contributor->set_scale_bits(absl::bit_cast<uint32_t>(one[2]));
  }
  return header;
}

// Broken: what an entry cut off a huge update would come back in the next ones; or what encoding
// has lost would be carried over in part where nothing was cut.
TEST(CarriedShare, IsTheCutWithoutFedNovasFactor) {
  v1::RunSpec spec;
  const v1::EntryHeader cut = HeaderOf({{100, 10, 1}, {100, 10, 0.25f}});
  EXPECT_EQ(CarriedShare(spec, cut, 0), 1.0f);
  EXPECT_EQ(CarriedShare(spec, cut, 1), 0.25f);
  // tau_eff = 25: factors 2.5 and 0.8333, the second update cut to a half beside that.
  spec.mutable_federation()->set_normalised(true);
  const v1::EntryHeader nova = HeaderOf({{100, 10, 2.5f}, {300, 30, 25.0f / 60}});
  EXPECT_EQ(CarriedShare(spec, nova, 0), 1.0f);
  EXPECT_NEAR(CarriedShare(spec, nova, 1), 0.5, 1e-6);
  const v1::EntryHeader whole = HeaderOf({{100, 10, 2.5f}, {300, 30, 25.0f / 30}});
  EXPECT_EQ(CarriedShare(spec, whole, 1), 1.0f);
  // Of a mean of parties the steps are those of all.
  v1::EntryHeader parties = HeaderOf({{100, 100, 2.5f}, {300, 30, 25.0f / 30}});
  parties.mutable_contributors(0)->set_parties(10);
  EXPECT_EQ(CarriedShare(spec, parties, 0), 1.0f);
}

std::vector<float> Capped(float cap, std::vector<float> weights) {
  CapWeights(cap, &weights);
  return weights;
}

// Would break: one peer that claims much is the mean.
TEST(CapWeights, BoundsByTheMedian) {
  EXPECT_EQ(Capped(4, {10, 1e30f, 12, 8, 11}), (std::vector<float>{10, 44, 12, 8, 11}));
  EXPECT_EQ(Capped(4, {10, 40, 12}), (std::vector<float>{10, 40, 12}));
}

// Would break: of two peers the liar makes the bound.
TEST(CapWeights, OfTwoMiddleOnesTheLowerCounts) {
  EXPECT_EQ(Capped(4, {1e30f, 10}), (std::vector<float>{40, 10}));
  EXPECT_EQ(Capped(2, {1e30f, 10, 30, 1e30f}), (std::vector<float>{60, 10, 30, 60}));
}

// Would break: a run without a bound has one; a bound of nobody.
TEST(CapWeights, ZeroIsNoBound) {
  EXPECT_EQ(Capped(0, {1, 1e30f}), (std::vector<float>{1, 1e30f}));
  EXPECT_TRUE(Capped(4, {}).empty());
}

v1::RunSpec Spec(uint32_t batch, uint32_t context) {
  v1::RunSpec spec;
  spec.mutable_inner()->set_batch(batch);
  spec.mutable_model()->set_context(context);
  return spec;
}

absl::Status Claims(const v1::RunSpec& spec, uint32_t steps, uint64_t tokens, uint64_t samples) {
  v1::Ready ready;
  ready.set_steps(steps);
  ready.set_tokens(tokens);
  return CheckClaims(spec, ready, samples);
}

// Would break: an update counts for samples that nobody gave its peer.
TEST(CheckClaims, StepsNeedSamples) {
  const v1::RunSpec spec = Spec(4, 8);
  EXPECT_TRUE(Claims(spec, 5, 5 * 4 * 8, 20).ok());
  EXPECT_TRUE(Claims(spec, 3, 3 * 4 * 8, 20).ok());  // it stopped before their end
  const absl::Status status = Claims(spec, 6, 5 * 4 * 8, 20);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "an update of 6 steps, 24 samples; it holds 20");
}

// Would break: tokens, and with them the weight, are whatever a peer says.
TEST(CheckClaims, TokensNeedSteps) {
  const v1::RunSpec spec = Spec(4, 8);
  EXPECT_EQ(Claims(spec, 5, 6 * 4 * 8, 20).message(), "an update of 192 tokens; 5 steps have 160");
  constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();
  EXPECT_FALSE(Claims(spec, 5, kMost, 20).ok());
  EXPECT_FALSE(Claims(spec, std::numeric_limits<uint32_t>::max(), 1, 20).ok());
}

// Broken: with private data, of which nobody knows how much there is, figures would contradict each
// other; or a peer would count for as many parties as it says where it is one.
TEST(CheckClaims, OfPrivateDataFiguresMustAgree) {
  v1::RunSpec spec = Spec(4, 8);
  v1::Ready ready;
  ready.set_steps(5);
  ready.set_tokens(15 * 8);
  ready.set_own_samples(15);
  ready.set_parties(3);
  EXPECT_FALSE(CheckClaims(spec, ready, 20).ok());
  spec.mutable_data()->set_private_(true);
  EXPECT_TRUE(CheckClaims(spec, ready, 0).ok());
  ready.set_tokens(15 * 8 + 1);
  EXPECT_EQ(CheckClaims(spec, ready, 0).message(), "an update of 121 tokens; 15 samples have 120");
  ready.set_own_samples(21);
  EXPECT_EQ(CheckClaims(spec, ready, 0).message(), "an update of 21 samples; 5 steps have 20");
  ready.set_parties(1000001);
  EXPECT_FALSE(CheckClaims(spec, ready, 0).ok());
}

// Would break: stub models, which have no context, cannot train.
TEST(CheckClaims, WhatTheSpecDoesNotNameIsNotChecked) {
  EXPECT_TRUE(Claims(Spec(4, 0), 5, 1000000, 20).ok());
  EXPECT_TRUE(Claims(Spec(0, 0), 5, 1000000, 0).ok());
}

// Would break: in the modes whose updates are late an old one counts like a new one, or loses
// twice.
TEST(WeighAges, TakesAPowerOfEOfLateUpdatesAlone) {
  v1::RunSpec spec;
  v1::Ready ready;
  ready.set_tokens(1000);
  ready.set_age(4);
  std::vector<float> weights = HeldWeights({ContributionWeight(spec, ready, 0)});
  EXPECT_EQ(weights[0], 500);  // 1000 / (1 + 0.25 x 4)
  const std::vector<uint32_t> ages = {4};
  WeighAges(spec, ages, &weights);
  EXPECT_EQ(weights[0], 500);
  for (const char* kind : {"delayed", "async"}) {
    spec.mutable_mode()->set_kind(kind);
    spec.mutable_mode()->set_age_decay_bits(0);
    weights = HeldWeights({ContributionWeight(spec, ready, 0)});
    WeighAges(spec, ages, &weights);
    EXPECT_EQ(weights[0], 1000) << kind;
    spec.mutable_mode()->set_age_decay_bits(absl::bit_cast<uint32_t>(0.5f));
    WeighAges(spec, ages, &weights);
    EXPECT_FLOAT_EQ(weights[0], 135.335283f) << kind;  // 1000 / e^2
    spec.mutable_mode()->set_age_decay_bits(absl::bit_cast<uint32_t>(100.0f));
    WeighAges(spec, ages, &weights);
    EXPECT_EQ(weights[0], std::numeric_limits<float>::min()) << kind;  // a header takes no 0
  }
}

}  // namespace
}  // namespace atolld
