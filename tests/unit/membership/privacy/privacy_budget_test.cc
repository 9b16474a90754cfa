#include "membership/privacy/privacy_budget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "absl/base/casts.h"
#include "tests/unit/membership/run/simulated_peers.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

uint32_t BitsOfFloat(double value) { return absl::bit_cast<uint32_t>(static_cast<float>(value)); }

// Noise 2 by 4 parties, clip 0.5.
v1::PrivacySpec SpecOfFour() {
  v1::PrivacySpec spec;
  spec.set_clip_bits(BitsOfFloat(0.5));
  spec.set_noise_bits(BitsOfFloat(2));
  spec.set_place("party");
  spec.set_parties(4);
  spec.set_sampling_bits(BitsOfFloat(1));
  spec.set_delta(1e-5);
  return spec;
}

// Of contributors with these numbers of parties behind them, each counted by its parties.
v1::EntryHeader HeaderOfParties(const std::vector<uint32_t>& behind) {
  v1::EntryHeader header;
  for (const uint32_t parties : behind) {
    v1::Contributor* const contributor = header.add_contributors();
    contributor->set_peer("p" + std::to_string(header.contributors_size()));
    contributor->set_parties(parties);
    contributor->set_weight_bits(BitsOfFloat(std::max<uint32_t>(1, parties)));
  }
  return header;
}

TEST(PrivacyTerms, PartiesTogetherHaveTheNoiseOfOneTrustedPlace) {
  // Broken: the accountant would count noise that nobody adds.
  const PrivacyTerms terms = PrivacyTermsOf(SpecOfFour());
  EXPECT_DOUBLE_EQ(terms.Deviation(0.5, 0), 2 * 0.5 / 2);
  EXPECT_DOUBLE_EQ(terms.Deviation(0.5, 1), terms.Deviation(0.5, 0));
  // Four parties' sum, whoever hosts them, has deviation 2 x 0.5.
  EXPECT_DOUBLE_EQ(std::sqrt(4.0) * terms.Deviation(0.5, 1), 1);
  EXPECT_DOUBLE_EQ(4 * terms.Deviation(0.5, 4), 1);
  EXPECT_DOUBLE_EQ(std::hypot(3 * terms.Deviation(0.5, 3), terms.Deviation(0.5, 1)), 1);
}

TEST(NoiseOfEntry, FollowsWhoCame) {
  // Broken: a round that half of the parties missed would be counted as hidden by all.
  const PrivacyTerms terms = PrivacyTermsOf(SpecOfFour());
  EXPECT_DOUBLE_EQ(NoiseOfEntry(terms, HeaderOfParties({0, 0, 1, 1}), {}), 2);
  EXPECT_DOUBLE_EQ(NoiseOfEntry(terms, HeaderOfParties({0}), {}), 1);
  EXPECT_DOUBLE_EQ(NoiseOfEntry(terms, HeaderOfParties({3, 1}), {}), 2);
  EXPECT_NEAR(NoiseOfEntry(terms, HeaderOfParties({16}), {}), 4, 1e-12);
  // Who counts twice as much is hidden by half: sqrt((4 + 1 + 1 + 1) / 4) / 2.
  v1::EntryHeader heavy = HeaderOfParties({1, 1, 1, 1});
  heavy.mutable_contributors(0)->set_weight_bits(BitsOfFloat(2));
  EXPECT_DOUBLE_EQ(NoiseOfEntry(terms, heavy, {}), 2 * std::sqrt(7.0 / 4) / 2);
  // A chunk to which only one came counts for all.
  v1::EntryHeader thin = HeaderOfParties({1, 1, 1, 1});
  thin.mutable_records()->add_sets()->set_contributors("\x0f");
  thin.mutable_records()->add_sets()->set_contributors("\x02");
  EXPECT_DOUBLE_EQ(NoiseOfEntry(terms, thin, {}), 1);
  // An update that was clipped to twice the length, with twice the noise of its own.
  ToldUpdates told;
  told["p1"].set_clip_bits(BitsOfFloat(1));
  EXPECT_DOUBLE_EQ(NoiseOfEntry(terms, HeaderOfParties({1, 1, 1, 1}), told),
                   2 * std::sqrt((4 + 1 + 1 + 1) / 4.0) / 2);
}

TEST(NextClip, FollowsTheQuantile) {
  // Broken: the clip would run away from the updates' lengths.
  v1::PrivacySpec spec = SpecOfFour();
  spec.set_quantile_bits(BitsOfFloat(0.5));
  const PrivacyTerms terms = PrivacyTermsOf(spec);
  const v1::EntryHeader header = HeaderOfParties({1, 3});
  ToldUpdates told;
  const auto next = [&](double first, double second) {
    told["p1"].set_within(first);
    told["p2"].set_within(second);
    return NextClip(terms, 2, header, told);
  };
  EXPECT_NEAR(next(0.5, -0.5), 2, 1e-6);                      // 2 of 4
  EXPECT_NEAR(next(0.5, 1.5), 2 * std::exp(-0.1), 1e-6);      // all are shorter
  EXPECT_NEAR(next(-0.5, -1.5), 2 * std::exp(0.1), 1e-6);     // none is
  EXPECT_NEAR(next(1e300, 1e300), 2 * std::exp(-0.1), 1e-6);  // a liar moves it no further
  EXPECT_NEAR(next(std::nan(""), 0), 2, 1e-6);
}

TEST(PrivacyTerms, TheCountOfShortUpdatesIsPaidFor) {
  // Broken: epsilon would leave out what the clip's quantile tells.
  v1::PrivacySpec spec = SpecOfFour();
  spec.set_parties(100);
  spec.set_quantile_bits(BitsOfFloat(0.5));
  const PrivacyTerms terms = PrivacyTermsOf(spec);
  const double count = 10 * terms.CountDeviation(1);  // of 100 parties' sum
  EXPECT_DOUBLE_EQ(count, 5);
  const double update = 10 * terms.Deviation(1, 1);
  // arXiv:1905.03871, theorem 1: z^-2 = z_update^-2 + (2 s)^-2.
  EXPECT_NEAR(1 / (update * update) + 1 / (4 * count * count), 1.0 / 4, 1e-12);
  EXPECT_DOUBLE_EQ(terms.CountDeviation(4), 2 * terms.CountDeviation(1));
}

// A hundred peers of one party each have answered the Train of this number.
struct HundredPeers {
  explicit HundredPeers(uint64_t train) {
    spec.set_parties(100);
    spec.set_quantile_bits(BitsOfFloat(0.5));
    header = HeaderOfParties(std::vector<uint32_t>(100, 1));
    for (const v1::Contributor& contributor : header.contributors()) {
      v1::Ready& ready = told[contributor.peer()];
      ready.set_version(1);
      ready.set_train_number(train);
      ready.set_clip_bits(BitsOfFloat(0.5));
    }
  }
  v1::RoundRecord Measured(const PrivacyBudget& budget) const {
    v1::RoundRecord record;
    budget.Measure(header, told, &record);
    return record;
  }

  v1::PrivacySpec spec = SpecOfFour();
  v1::EntryHeader header;
  ToldUpdates told;
};

TEST(PrivacyBudget, AClipIsNotWhatAPeerSays) {
  // Broken: one peer that names a huge length would end the run, since each round counts as one
  // that hides nobody; or it would make the round look better than it is.
  HundredPeers peers(7);
  PrivacyBudget budget(peers.spec, 2);
  v1::Train train;
  train.set_number(7);
  budget.Tell(&train);
  const double honest = peers.Measured(budget).noise();
  EXPECT_DOUBLE_EQ(honest, 2);
  for (const double lie : {1e30, 5.0, 1e-30, 0.0, -1.0, HUGE_VAL, std::nan("")}) {
    peers.told["p3"].set_clip_bits(BitsOfFloat(lie));
    EXPECT_DOUBLE_EQ(peers.Measured(budget).noise(), honest) << lie;
  }
}

TEST(PrivacyBudget, OneCountMovesTheClipByLittle) {
  // Broken: one peer would steer the clip to 0, or away from the updates' lengths.
  HundredPeers peers(7);
  const PrivacyBudget budget(peers.spec, 2);
  EXPECT_NEAR(peers.Measured(budget).clip(), 0.5, 1e-6);
  // Half of its one party, and the most that a draw of noise of deviation 0.5 can be.
  const double most = (0.5 + 8.58 * 0.5) / 100;
  for (const double lie : {1e300, HUGE_VAL, std::nan(""), -1e300}) {
    peers.told["p3"].set_within(lie);
    const double clip = peers.Measured(budget).clip();
    EXPECT_GE(clip, 0.5 * std::exp(-0.2 * most) - 1e-6) << lie;
    EXPECT_LE(clip, 0.5 * std::exp(0.2 * most) + 1e-6) << lie;
  }
  peers.told["p3"].set_within(1.25);  // as an honest one's noise has it
  EXPECT_NEAR(peers.Measured(budget).clip(), 0.5 * std::exp(-0.2 * 0.0125), 1e-6);
  // Nor does one that says it has a thousand million parties silence the others, all of which were
  // shorter: it counts for a full round's.
  for (auto& [peer, ready] : peers.told) ready.set_within(0.5);
  peers.header.mutable_contributors(2)->set_parties(1000000000);
  EXPECT_NEAR(peers.Measured(budget).clip(), 0.5 * std::exp(-0.2 * (50.0 / 199)), 1e-6);
}

TEST(PrivacyBudget, AnOldUpdateCountsWithTheClipOfItsTime) {
  // Broken: a straggler's update, which was allowed to be longer, would be counted as shorter; or,
  // after a restart, by whatever it says.
  HundredPeers peers(7);
  PrivacyBudget budget(peers.spec, 2), later(peers.spec, 2);
  v1::Train train;
  train.set_number(7);
  budget.Tell(&train);
  v1::RoundRecord record;
  record.set_version(1);
  record.set_noise(2);
  record.set_clip(0.25);
  budget.Remember(record);
  later.Remember(record);
  train.set_number(8);
  budget.Tell(&train);
  EXPECT_EQ(train.clip_bits(), BitsOfFloat(0.25));
  for (auto& [peer, ready] : peers.told) {
    ready.set_version(2);
    ready.set_train_number(8);
  }
  v1::Ready& straggler = peers.told["p3"];
  straggler.set_train_number(7);
  straggler.set_age(1);
  // One of twice the others' length: sqrt((4 + 99) / 100) / 2.
  const double expected = 2 * std::sqrt(103.0 / 100) / 2;
  EXPECT_DOUBLE_EQ(peers.Measured(budget).noise(), expected);
  EXPECT_DOUBLE_EQ(peers.Measured(later).noise(), expected) << "of a process that has told nothing";
  straggler.set_clip_bits(BitsOfFloat(1e30));
  EXPECT_DOUBLE_EQ(peers.Measured(later).noise(), expected);
}

TEST(PrivacyBudget, EndsBeforeItIsSpent) {
  // Broken: a run would spend more than was promised before it stops.
  v1::PrivacySpec spec = SpecOfFour();
  spec.set_epsilon(6);
  PrivacyBudget budget(spec, 3);
  v1::RoundRecord record;
  int rounds = 0;
  while (budget.WhyEnough().empty() && rounds < 100) {
    record.Clear();
    budget.Measure(HeaderOfParties({1, 1, 1}), {}, &record);  // the fewest come each time
    budget.Note(HeaderOfParties({1, 1, 1}), &record);
    EXPECT_EQ(record.epsilon(), budget.spent());
    ++rounds;
  }
  EXPECT_LE(budget.spent(), 6);
  PrivacyAccountant same;
  same.Add(1, 2 * std::sqrt(0.75), rounds);
  EXPECT_NEAR(budget.spent(), same.Epsilon(1e-5), 1e-9);
  EXPECT_GT(same.EpsilonAfter(1, 2 * std::sqrt(0.75), 1, 1e-5), 6) << "it could have gone on";
  EXPECT_THAT(budget.WhyEnough(), HasSubstr("above the [privacy] epsilon of 6"));
}

TEST(PrivacyBudget, CountsWhatNobodyRemembersAsWorst) {
  // Broken: whoever restores a coordinator from an old copy would get spent epsilon back.
  PrivacyBudget known(SpecOfFour(), 2), unknown(SpecOfFour(), 2);
  v1::RoundRecord record;
  for (int round = 0; round < 3; ++round) {
    record.Clear();
    known.Note(HeaderOfParties({1, 1, 1, 1}), &record);
  }
  unknown.NoteUnknown(3);
  EXPECT_GT(unknown.spent(), known.spent());
  PrivacyBudget off(v1::PrivacySpec(), 2);
  off.NoteUnknown(3);
  EXPECT_EQ(off.spent(), 0);
  EXPECT_EQ(off.WhyEnough(), "");
}

// Would break: a run goes on beyond its budget, a restart of the coordinator forgets what is spent,
// or nobody is told.
TEST(RunPrivacy, ARunEndsAtItsBudgetAcrossARestart) {
  SimulatedPeers peers(2, 2, 50);
  v1::PrivacySpec spec = SpecOfFour();
  spec.set_parties(2);
  spec.set_epsilon(6);
  *peers.stored.spec->mutable_privacy() = spec;
  peers.Restart();
  peers.Begin({"a", "b"});
  double last = 0;
  while (!peers.stored.control.stopping() && peers.run->version() < 50) {
    peers.Commit({"a", "b"});
    const v1::RoundRecord& record = peers.stored.rounds.back();
    EXPECT_DOUBLE_EQ(record.noise(), 2);
    EXPECT_GT(record.epsilon(), last);
    last = record.epsilon();
    if (peers.run->version() != 2) continue;
    peers.Restart();
    peers.ComeBack({"a", "b"});
  }
  PrivacyAccountant same;
  same.Add(1, 2, static_cast<double>(peers.run->version()));
  EXPECT_NEAR(last, same.Epsilon(1e-5), 1e-9);
  EXPECT_LE(last, 6);
  EXPECT_GT(same.EpsilonAfter(1, 2, 1, 1e-5), 6);
  EXPECT_TRUE(peers.Said("come far enough: epsilon is"));
  EXPECT_THAT(peers.run->Status(peers.now).stopped_because(),
              HasSubstr("above the [privacy] epsilon of 6"));
  ASSERT_NE(peers.Train("a"), nullptr);
  EXPECT_EQ(peers.Train("a")->clip_bits(), 0u);
}

// Would break: peers would clip to a length that the coordinator no longer counts with.
TEST(RunPrivacy, AMovingClipIsToldWithEachRound) {
  SimulatedPeers peers(2, 2, 50);
  v1::PrivacySpec spec = SpecOfFour();
  spec.set_parties(100);
  spec.set_quantile_bits(BitsOfFloat(0.5));
  *peers.stored.spec->mutable_privacy() = spec;
  peers.Restart();
  peers.Begin({"a", "b"});
  ASSERT_NE(peers.Train("a"), nullptr);
  EXPECT_EQ(peers.Train("a")->clip_bits(), BitsOfFloat(0.5));
  peers.Commit({"a", "b"});  // they tell that half of their updates were within
  EXPECT_NEAR(peers.stored.rounds.back().clip(), 0.5, 1e-6);
  ASSERT_NE(peers.Train("b"), nullptr);
  EXPECT_EQ(peers.Train("b")->clip_bits(), BitsOfFloat(peers.stored.rounds.back().clip()));
}

}  // namespace
}  // namespace atolld
