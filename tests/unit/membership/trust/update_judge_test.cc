#include "membership/trust/update_judge.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "absl/base/casts.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace atolld {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

float ScaleOf(const ExchangeContributor& contributor) {
  const uint32_t bits = contributor.member.scale_bits();
  return bits == 0 ? 1 : absl::bit_cast<float>(bits);
}

// p0, p1, ... whose updates have these norms, and these distances.
std::vector<ExchangeContributor> ContributorsWith(const std::vector<double>& norms,
                                                  const std::vector<double>& distances = {}) {
  std::vector<ExchangeContributor> contributors;
  for (size_t i = 0; i < norms.size(); ++i) {
    v1::PlanMember& member = contributors.emplace_back().member;
    member.set_peer("p" + std::to_string(i));
    member.set_squared_norm_bits(absl::bit_cast<uint64_t>(norms[i] * norms[i]));
    if (!distances.empty()) {
      member.set_squared_distance_bits(absl::bit_cast<uint64_t>(distances[i] * distances[i]));
    }
  }
  return contributors;
}

JudgeSettings ClippingAt(double clip) {
  JudgeSettings settings;
  settings.clip = clip;
  settings.offenders.outsized = 10;
  return settings;
}

v1::EntryHeader HeaderOf(const std::vector<ExchangeContributor>& contributors) {
  v1::EntryHeader header;
  for (const ExchangeContributor& one : contributors) {
    v1::Contributor* contributor = header.add_contributors();
    contributor->set_peer(one.member.peer());
    contributor->set_scale_bits(one.member.scale_bits());
  }
  return header;
}

// Rounds in which all have these norms.
std::vector<std::string> CommitNorms(UpdateJudge* judge, const std::vector<double>& norms) {
  std::vector<ExchangeContributor> contributors = ContributorsWith(norms);
  judge->Scale(&contributors);
  return judge->NoteCommit(HeaderOf(contributors));
}

// Broken: the owner of an expert would be an offender among peers that train the shared part alone,
// whose updates have fewer values.
TEST(UpdateJudge, UpdatesOfDifferentExpertsAreComparedByValue) {
  UpdateJudge judge(ClippingAt(1), {});
  std::vector<ExchangeContributor> contributors = ContributorsWith({1, 1, 20, 20});
  contributors[0].share = contributors[1].share = 1.0 / 400;
  judge.Scale(&contributors);
  for (const ExchangeContributor& one : contributors) EXPECT_EQ(ScaleOf(one), 1.0f);
  EXPECT_THAT(judge.NoteCommit(HeaderOf(contributors)), IsEmpty());
  contributors[1].share = 1.0 / 1600;
  judge.Scale(&contributors);
  EXPECT_EQ(ScaleOf(contributors[1]), 0.5f);
}

// Broken: updates of a large fragment would be scaled down to the length of a small one's.
TEST(UpdateJudge, LengthsOfOtherFragmentsAreNoReference) {
  for (const bool remembers : {true, false}) {
    JudgeSettings settings = ClippingAt(1);
    settings.remembers = remembers;
    UpdateJudge judge(settings, {});
    for (int i = 0; i < 4; ++i) CommitNorms(&judge, {1, 1, 1});
    std::vector<ExchangeContributor> contributors = ContributorsWith({20, 20, 40});
    judge.Scale(&contributors);
    EXPECT_EQ(ScaleOf(contributors[0]) < 1, remembers);
    EXPECT_LE(ScaleOf(contributors[2]), 0.5f);
    EXPECT_EQ(judge.Record().medians.empty(), !remembers);
  }
}

// Broken: an update of no real norm would be averaged, or an honest one refused.
TEST(UpdateJudge, RefusesNormsThatNoUpdateHas) {
  const UpdateJudge judge(ClippingAt(1), {});
  const double infinity = std::numeric_limits<double>::infinity();
  const auto check = [&](double norm, double distance) {
    v1::Ready ready;
    ready.set_squared_norm_bits(absl::bit_cast<uint64_t>(norm));
    ready.set_squared_distance_bits(absl::bit_cast<uint64_t>(distance));
    return judge.Check(ready, 10);
  };
  EXPECT_TRUE(check(0, 0).ok());
  EXPECT_TRUE(check(1e77, 4e77).ok());
  for (const double bad : {-1.0, infinity, std::nan(""), 1e80}) {
    EXPECT_EQ(check(bad, 0).code(), absl::StatusCode::kInvalidArgument) << bad;
    EXPECT_EQ(check(1, bad).code(), absl::StatusCode::kInvalidArgument) << bad;
  }
  EXPECT_THAT(std::string(check(infinity, 0).message()), HasSubstr("10 values"));
}

// Broken: one long update would carry the mean away, or short ones would be stretched.
TEST(UpdateJudge, ScalesDownToTheMedianLength) {
  UpdateJudge judge(ClippingAt(1), {});
  std::vector<ExchangeContributor> round = ContributorsWith({2, 1, 8, 4});
  EXPECT_THAT(judge.Scale(&round), IsEmpty());
  EXPECT_EQ(ScaleOf(round[0]), 1);  // the lower median itself
  EXPECT_EQ(ScaleOf(round[1]), 1);
  EXPECT_EQ(ScaleOf(round[2]), 0.25f);
  EXPECT_EQ(ScaleOf(round[3]), 0.5f);
  EXPECT_EQ(round[1].member.scale_bits(), 0u) << "1 is said by 0";

  UpdateJudge wider(ClippingAt(2), {});
  wider.Scale(&round);
  EXPECT_EQ(ScaleOf(round[2]), 0.5f);
  EXPECT_EQ(ScaleOf(round[3]), 1);

  UpdateJudge none(ClippingAt(0), {});
  none.Scale(&round);
  EXPECT_EQ(ScaleOf(round[2]), 1);
}

// Broken: those who hand over nothing would leave another's length without a measure, or have
// everybody's scaled down to nothing.
TEST(UpdateJudge, ZerosAreNoMeasure) {
  UpdateJudge judge(ClippingAt(1), {});
  std::vector<ExchangeContributor> round = ContributorsWith({0, 0, 0, 1, 100});
  judge.Scale(&round);
  EXPECT_EQ(ScaleOf(round[3]), 1);
  EXPECT_EQ(ScaleOf(round[4]), 0.01f);
  round = ContributorsWith({0, 0});
  judge.Scale(&round);
  EXPECT_EQ(ScaleOf(round[0]), 1);
  // One that is next to nothing is held to the rounds before.
  for (int i = 0; i < 5; ++i) CommitNorms(&judge, {1, 1});
  round = ContributorsWith({1e-20, 1});
  judge.Scale(&round);
  EXPECT_EQ(ScaleOf(round[1]), 0.25f);
  // So are two that are long together.
  round = ContributorsWith({100, 100});
  judge.Scale(&round);
  EXPECT_FLOAT_EQ(ScaleOf(round[1]), 0.04f);
}

// Broken: one that hands over next to nothing in the first round would have the others' updates
// taken for hopeless, and no round would ever be committed.
TEST(UpdateJudge, LengthsThatNoScaleCanSayAreNoMeasure) {
  UpdateJudge judge(ClippingAt(1), {});
  std::vector<ExchangeContributor> round = ContributorsWith({1e-40, 1});
  EXPECT_THAT(judge.Scale(&round), IsEmpty());
  EXPECT_EQ(ScaleOf(round[0]), 1);
  EXPECT_EQ(ScaleOf(round[1]), 1);
  round = ContributorsWith({0x1p-99, 1});  // seen, so it is the lower of two
  EXPECT_THAT(judge.Scale(&round), IsEmpty());
  EXPECT_EQ(ScaleOf(round[1]), 0x1p-99f);
}

// Broken: a scale too small to be said would be read as 1, and 1e38 would be in the mean.
TEST(UpdateJudge, WhatNoScaleCanMendDoesNotContribute) {
  UpdateJudge judge(ClippingAt(1), {});
  std::vector<ExchangeContributor> round = ContributorsWith({1e-3, 1e-3, 1e38, 1e20});
  EXPECT_THAT(judge.Scale(&round), ElementsAre("p2"));
  EXPECT_GT(ScaleOf(round[3]), 0);
  EXPECT_LT(ScaleOf(round[3]), 1e-20f);
}

// Broken: centred clipping would be clipping, or a reducer that lacks the centre would be asked.
TEST(UpdateJudge, MeasuresFromTheCentreWhereAllHoldIt) {
  JudgeSettings settings = ClippingAt(1);
  settings.from_centre = true;
  settings.least = 2;
  UpdateJudge judge(settings, {});
  std::vector<ExchangeContributor> round = ContributorsWith({8, 8, 8}, {1, 2, 4});
  judge.Scale(&round);
  EXPECT_EQ(ScaleOf(round[2]), 0.5f);
  // Somebody holds no centre: it does not contribute where enough others do; else all are measured
  // from zeros.
  round = ContributorsWith({8, 8, 16}, {1, 0, 4});
  EXPECT_THAT(judge.Choose(round, 2), ElementsAre(0, 2));
  EXPECT_THAT(judge.Choose(round, 3), ElementsAre(0, 1, 2));
  round[1].member.set_address("p2:1");
  EXPECT_THAT(judge.Choose(round, 2), ElementsAre(0, 1, 2)) << "nobody else can reduce";
  round[2].member.set_address("p3:1");
  EXPECT_THAT(judge.Choose(round, 2), ElementsAre(0, 2));
  judge.Scale(&round);
  EXPECT_EQ(ScaleOf(round[0]), 1);
  EXPECT_EQ(ScaleOf(round[2]), 0.5f);
  for (const ExchangeContributor& one : round) EXPECT_EQ(one.member.squared_distance_bits(), 0u);
}

// Broken: the same peers would be left out of each exchange of a rule that takes only so many.
TEST(UpdateJudge, WhoHasWaitedLongestGoesFirst) {
  JudgeSettings settings = ClippingAt(1);
  settings.most = 2;
  const UpdateJudge judge(settings, {});
  std::vector<ExchangeContributor> round = ContributorsWith({1, 1, 1, 1});
  EXPECT_THAT(judge.Choose(round, 1), ElementsAre(0, 1));
  round[2].age = 1;
  EXPECT_THAT(judge.Choose(round, 1), ElementsAre(0, 2));
  round[3].age = 2;
  EXPECT_THAT(judge.Choose(round, 1), ElementsAre(2, 3));
}

// Broken: a slow machine would lose its place for the way that the others have gone meanwhile.
TEST(UpdateJudge, ALateUpdateMayBeLongerForEachEntryThatItMissed) {
  const auto offences = [](double norm, uint32_t age) {
    UpdateJudge judge(ClippingAt(1), {});
    CommitNorms(&judge, {1, 1, 1});
    std::vector<ExchangeContributor> round = ContributorsWith({1, norm, 1});
    round[1].age = age;
    judge.Scale(&round);
    EXPECT_LT(ScaleOf(round[1]), 1);
    return judge.NoteCommit(HeaderOf(round)).size();
  };
  EXPECT_EQ(offences(12, 0), 1u);
  EXPECT_EQ(offences(12, 1), 0u);
  EXPECT_EQ(offences(21, 1), 1u);
  EXPECT_EQ(offences(95, 1000000), 1u) << "an age is its peer's word";
}

// Broken: a liar would be clipped for ever and never named, or an accident would cost a peer its
// place, or a restart would forgive.
TEST(UpdateJudge, RepeatedOffendersAreLeftOutForAWhile) {
  UpdateJudge judge(ClippingAt(1), {});
  for (int i = 0; i < 3; ++i) EXPECT_THAT(CommitNorms(&judge, {1, 1, 1}), IsEmpty());
  EXPECT_THAT(CommitNorms(&judge, {1, 11, 1}),
              ElementsAre(HasSubstr("offence of peer p1: an update 11")));
  EXPECT_THAT(CommitNorms(&judge, {1, 9, 1}), IsEmpty()) << "long, not outsized";
  CommitNorms(&judge, {1, 20, 1});
  EXPECT_THAT(judge.Offenders(), IsEmpty());
  EXPECT_THAT(CommitNorms(&judge, {1, 20, 1}),
              ElementsAre(HasSubstr("offence"), HasSubstr("left out")));
  EXPECT_THAT(judge.Offenders(), ElementsAre("p1"));
  v1::PeerStatus status;
  judge.Show("p1", &status);
  EXPECT_EQ(status.updates_clipped(), 4u);
  EXPECT_THAT(status.offence(), HasSubstr("left out for 13 rounds: an update 20"));

  UpdateJudge restarted(ClippingAt(1), judge.Record());
  EXPECT_THAT(restarted.Offenders(), ElementsAre("p1"));
  std::vector<ExchangeContributor> round = ContributorsWith({100, 100});
  restarted.Scale(&round);
  EXPECT_FLOAT_EQ(ScaleOf(round[0]), 0.04f) << "the running median is remembered";
  for (int i = 0; i < 12; ++i) CommitNorms(&restarted, {1, 1});
  EXPECT_THAT(restarted.Offenders(), ElementsAre("p1"));
  EXPECT_THAT(CommitNorms(&restarted, {1, 1}), ElementsAre("peer p1 is let in again"));
}

// Broken: in a run that diverges honest peers would be named, and left out, for its growing
// updates.
TEST(UpdateJudge, WhoIsAsLongAsTheOthersIsNoOffender) {
  UpdateJudge judge(ClippingAt(1), {});
  for (int i = 0; i < 3; ++i) EXPECT_THAT(CommitNorms(&judge, {1, 1, 1}), IsEmpty());
  EXPECT_THAT(CommitNorms(&judge, {300, 301, 299}), IsEmpty());
  EXPECT_THAT(CommitNorms(&judge, {300, 1, 4000}),
              ElementsAre(HasSubstr("offence of peer p2: an update 13")));
  // By default no length is.
  JudgeSettings settings;
  settings.clip = 1;
  UpdateJudge mild(settings, {});
  for (int i = 0; i < 9; ++i) EXPECT_THAT(CommitNorms(&mild, {1, 1, 1e9}), IsEmpty());
  v1::PeerStatus status;
  mild.Show("p2", &status);
  EXPECT_EQ(status.updates_clipped(), 9u);
}

// Broken: one reducer that lies could have an honest peer left out.
TEST(UpdateJudge, NoSingleReducersWordMakesAnOffence) {
  UpdateJudge judge(ClippingAt(1), {});
  v1::Plan plan;
  for (const char* name : {"a", "b", "c"}) {
    plan.add_contributors()->set_peer(name);
    v1::Shard* shard = plan.add_shards();
    shard->set_reducer(name);
    shard->set_chunks(1);
  }
  v1::UpdateRefused report;
  report.set_contributor("c");
  report.set_reason("block scale is NaN");
  EXPECT_FALSE(judge.NoteReport("a", report)) << "no plan";
  judge.NotePlan(plan);
  EXPECT_FALSE(judge.NoteReport("a", report));
  EXPECT_FALSE(judge.NoteReport("a", report)) << "the same word again";
  EXPECT_FALSE(judge.NoteReport("c", report)) << "of itself";
  EXPECT_FALSE(judge.NoteReport("stranger", report));
  EXPECT_THAT(judge.NoteGivenUp(), IsEmpty());
  judge.NotePlan(plan);
  EXPECT_FALSE(judge.NoteReport("a", report)) << "of an attempt that is over";
  EXPECT_TRUE(judge.NoteReport("b", report));
  EXPECT_THAT(judge.NoteCommit({}), ElementsAre(HasSubstr("block scale is NaN")));
  // Where only one averages, its word is all there is.
  plan.mutable_shards(0)->set_chunks(0);
  plan.mutable_shards(2)->set_chunks(0);
  judge.NotePlan(plan);
  EXPECT_TRUE(judge.NoteReport("b", report));
  EXPECT_THAT(judge.NoteGivenUp(), ElementsAre(HasSubstr("offence of peer c")));
  v1::PeerStatus status;
  judge.Show("c", &status);
  EXPECT_EQ(status.updates_refused(), 2u);
  judge.NotePlan(plan);
  report.set_contributor("nobody");
  EXPECT_FALSE(judge.NoteReport("b", report));
}

// Broken: a reducer that calls the relays unreachable would have the only word about everybody.
TEST(UpdateJudge, WhoeverHasTheOthersRelievedHasNotTheOnlyWord) {
  UpdateJudge judge(ClippingAt(1), {});
  v1::Plan plan;
  for (const char* name : {"a", "b", "c"}) plan.add_contributors()->set_peer(name);
  v1::Shard* const shard = plan.add_shards();
  shard->set_reducer("a");
  shard->set_chunks(1);
  shard->add_relays()->set_peer("b");
  judge.NotePlan(plan);
  shard->clear_relays();
  judge.NotePlan(plan);
  v1::UpdateRefused report;
  report.set_contributor("c");
  EXPECT_FALSE(judge.NoteReport("a", report));
  EXPECT_TRUE(judge.NoteReport("b", report));
  judge.NoteCommit({});
  // One update is refused once, however many peers come to average it.
  judge.NotePlan(plan);
  EXPECT_TRUE(judge.NoteReport("a", report)) << "it is the only one";
  shard->add_relays()->set_peer("b");
  judge.NotePlan(plan);
  EXPECT_FALSE(judge.NoteReport("b", report));
}

// Broken: an old offender would be left out in favour of a peer whose updates are refused again and
// again, and the round would never close.
TEST(UpdateJudge, WhoseUpdatesAreRefusedInThisRoundIsLeftOutFirst) {
  JudgedPeer old;
  old.peer = "old";
  old.offences = 0xff;
  JudgeRecord record;
  record.peers = {old};
  JudgeSettings settings = ClippingAt(1);
  settings.offenders.offences = 3;
  settings.offenders.rounds = 16;
  UpdateJudge judge(settings, record);
  EXPECT_THAT(judge.Offenders(), ElementsAre("old"));
  for (int i = 0; i < 2; ++i) judge.NoteRefused("new", "too long");
  EXPECT_THAT(judge.Offenders(), ElementsAre("old"));
  judge.NoteRefused("new", "too long");
  EXPECT_THAT(judge.Offenders(), ElementsAre("new", "old"));
  judge.NoteCommit({});
  EXPECT_THAT(judge.Offenders(), ElementsAre("old"));
}

// Broken: a peer is left out for five rounds, and without it the first of them never ends.
TEST(UpdateJudge, ARoundThatFailsAgainAndAgainLeavesNobodyOutForARecord) {
  JudgedPeer old;
  old.peer = "old";
  old.offences = 0xff;
  JudgeRecord record;
  record.peers = {old};
  JudgeSettings settings = ClippingAt(1);
  settings.offenders.offences = 3;
  settings.offenders.rounds = 16;
  UpdateJudge judge(settings, record);
  for (uint32_t i = 0; i < UpdateJudge::kAttemptsUntilLetIn; ++i) {
    EXPECT_THAT(judge.Offenders(), ElementsAre("old")) << i;
    judge.NoteGivenUp();
  }
  EXPECT_THAT(judge.Offenders(), IsEmpty());
  for (int i = 0; i < 3; ++i) judge.NoteRefused("old", "too long");
  EXPECT_THAT(judge.Offenders(), ElementsAre("old")) << "what it does in this round counts";
  judge.NoteCommit({});
  EXPECT_THAT(judge.Offenders(), ElementsAre("old"));
}

}  // namespace
}  // namespace atolld
