// Rounds whose updates are masked, with parties that do what the coordinator's words ask of them.
#include <gmock/gmock.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "membership/masking/mask_duty.h"
#include "membership/masking/masked_terms.h"
#include "membership/trust/contribution.h"
#include "tests/unit/membership/run/simulated_peers.h"

namespace atolld {
namespace {

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

using Told = v1::MaskToParty::MessageCase;

// Of eight, more than two thirds are six.
const std::vector<std::string>& EightParties() {
  static const std::vector<std::string> names = {"a", "b", "c", "d", "e", "f", "g", "h"};
  return names;
}

class RunMasksTest : public ::testing::Test {
 protected:
  RunMasksTest() : RunMasksTest(8, 4) {}
  RunMasksTest(uint32_t peers, uint32_t quorum) : peers_(peers, quorum) {
    names_.assign(EightParties().begin(), EightParties().begin() + peers);
    peers_.stored.spec->mutable_data()->set_private_(true);
    peers_.stored.spec->mutable_privacy()->set_masked(true);
    Restart();
    for (size_t i = 0; i < names_.size(); ++i) {
      peers_.keys.emplace(names_[i],
                          SigningKey::FromSeed(std::string(32, static_cast<char>(i + 1))).value());
      StartParty(names_[i]);
    }
    peers_.Begin(names_);
  }

  void StartParty(const std::string& name) {
    duties_[name] = std::make_unique<MaskDuty>(
        "r1", name, &peers_.keys.at(name), MaskRosterRule(),
        [this] { return std::string(MaskSecret().Derive("run", std::to_string(++drawn_)).view()); },
        [] { return KnownSigningKeys(); });
  }

  void Restart() {
    peers_.Restart();
    heard_.clear();
  }

  bool Here(const std::string& name) const {
    return peers_.sessions.count(name) > 0 && silent_.count(name) == 0;
  }

  // All that was sent about masks is answered, and what is sent for that.
  void Pump() {
    for (bool more = true; more;) {
      more = false;
      for (const std::string& name : names_) {
        while (heard_[name] < peers_.inbox[name].size()) {
          const v1::CoordinatorMessage message = peers_.inbox[name][heard_[name]++];
          if (!message.has_mask()) continue;
          more = true;
          Hear(name, message.mask());
        }
      }
    }
  }

  void Hear(const std::string& name, const v1::MaskToParty& message) {
    if (message.has_discarded()) unmasked_.erase(name);
    if (message.has_unmasking()) told_unmasking_.insert(name);
    const auto silent_at = silent_at_.find(name);
    if (silent_at != silent_at_.end() && message.message_case() == silent_at->second) {
      silent_.insert(name);
    }
    if (!Here(name)) return;
    const MaskDuty::Output out = duties_.at(name)->OnMessage(message);
    Say(name, out.sends);
    if (out.action == MaskDuty::Action::kUnmask) unmasked_.insert(name);
    if (out.action != MaskDuty::Action::kMask) return;
    v1::Ready ready;
    ready.set_version(duties_.at(name)->party()->attempt().version());
    ready.set_contribution_root(RootOf(name));
    SignContribution(peers_.keys.at(name), "r1", name == forger_ ? "somebody" : name, &ready);
    Say(name, duties_.at(name)->Masked(ready.contribution_root(), ready.signature()).sends);
  }

  std::string RootOf(const std::string& name) const {
    std::string root = name + std::to_string(duties_.at(name)->party()->attempt().attempt());
    root.resize(32, '.');
    return root;
  }

  void Say(const std::string& name, const std::vector<v1::MaskFromParty>& messages) {
    for (const v1::MaskFromParty& one : messages) {
      v1::PeerMessage message;
      *message.mutable_mask() = one;
      if (one.has_opened() && lie_) lie_(name, message.mutable_mask()->mutable_opened());
      if (peers_.sessions.count(name) > 0) peers_.Say(name, message);
    }
  }

  void ReadyAll() {
    for (const std::string& name : names_) {
      if (Here(name)) peers_.Ready(name);
    }
    Pump();
  }

  std::vector<std::string> Voters() const {
    std::vector<std::string> voters;
    for (const std::string& name : names_) {
      const v1::Plan* const plan = Here(name) ? peers_.WholePlan(name) : nullptr;
      if (plan == nullptr) continue;
      const auto& lost = plan->lost();
      const bool named =
          std::any_of(plan->contributors().begin(), plan->contributors().end(),
                      [&](const v1::PlanMember& member) { return member.peer() == name; });
      if (named && std::find(lost.begin(), lost.end(), name) == lost.end()) voters.push_back(name);
    }
    return voters;
  }

  // It has come to the sum of these; by default of all in its plan that are not lost.
  void Sum(const std::string& name, const std::vector<std::string>* of = nullptr,
           bool ragged = false, char digest = 'd') {
    const v1::Plan plan = *peers_.WholePlan(name);
    v1::MaskedSum sum;
    sum.set_revision(plan.revision());
    sum.set_payload_digest(std::string(32, digest));
    sum.set_ragged(ragged);
    for (const v1::PlanMember& member : plan.contributors()) {
      const bool lost =
          std::find(plan.lost().begin(), plan.lost().end(), member.peer()) != plan.lost().end();
      if (of == nullptr && !lost) sum.add_contributors(member.peer());
    }
    if (of != nullptr) *sum.mutable_contributors() = {of->begin(), of->end()};
    Say(name, duties_.at(name)->Summed(sum).sends);
  }

  void SumAll(const std::vector<std::string>* of = nullptr, bool ragged = false) {
    for (const std::string& name : Voters()) Sum(name, of, ragged);
    Pump();
  }

  void VoteAll() {
    for (const std::string& name : Voters()) {
      if (unmasked_.count(name) > 0) peers_.Vote(name);
    }
    Pump();
  }

  void Wait(absl::Duration passed) {
    peers_.Tick(passed);
    Pump();
  }

  std::vector<std::string> Planned(const std::string& name) const {
    std::vector<std::string> planned;
    for (const v1::PlanMember& member : peers_.WholePlan(name)->contributors()) {
      planned.push_back(member.peer());
    }
    return planned;
  }

  SimulatedPeers peers_;
  std::vector<std::string> names_;
  std::map<std::string, std::unique_ptr<MaskDuty>> duties_;
  uint64_t drawn_ = 0;
  std::map<std::string, size_t> heard_;
  std::map<std::string, Told> silent_at_;  // from this word on
  std::set<std::string> silent_;
  std::set<std::string> unmasked_;  // who has the masks of the attempt under way
  std::set<std::string> told_unmasking_;
  std::string forger_;  // signs for somebody else
  std::function<void(const std::string& name, v1::UnmaskShares* shares)> lie_;
};

// Broken: a round with masks would not come to its commit, or a plan would not have the roots by
// which masked updates are checked.
TEST_F(RunMasksTest, ARoundIsCommitted) {
  ReadyAll();
  ASSERT_NE(peers_.Plan("a"), nullptr);
  const v1::Plan plan = *peers_.WholePlan("a");
  ASSERT_EQ(plan.contributors_size(), 8);
  for (const v1::PlanMember& member : plan.contributors()) {
    EXPECT_EQ(member.contribution_root(), RootOf(member.peer()));
    EXPECT_EQ(member.squared_norm_bits(), 0u);
    EXPECT_EQ(CheckContributionProof("r1", 1,
                                     {member.peer(), member.contribution_root(),
                                      member.signing_key(), member.signature()}),
              absl::OkStatus());
  }
  EXPECT_EQ(peers_.phase(), "exchanging");
  SumAll();
  EXPECT_EQ(unmasked_.size(), 8u);
  VoteAll();
  ASSERT_EQ(peers_.run->version(), 1u);
  EXPECT_THAT(ContributorsOf(peers_.stored.headers[0]), ElementsAreArray(names_));
  EXPECT_EQ(peers_.now, absl::UnixEpoch()) << "nobody waited for anything";
  for (const std::string& name : names_) {
    EXPECT_EQ(duties_.at(name)->party(), nullptr) << name << " keeps the secrets of what is over";
  }
  EXPECT_EQ(peers_.run->Status(peers_.now).noise().unknown(), "masks hide the lengths of updates");
}

// Broken: the next round would not have masks of its own.
TEST_F(RunMasksTest, TheNextRoundHasOtherMasks) {
  for (uint64_t version = 1; version <= 2; ++version) {
    ReadyAll();
    SumAll();
    VoteAll();
    ASSERT_EQ(peers_.run->version(), version);
    for (const std::string& name : names_) peers_.Synced(name, version);
  }
  EXPECT_EQ(drawn_, 16u);
}

// Broken: a vote for what nobody can know yet would count.
TEST_F(RunMasksTest, NobodyVotesBeforeTheMasksAreOff) {
  ReadyAll();
  for (const std::string& name : Voters()) peers_.Vote(name);
  EXPECT_EQ(peers_.run->version(), 0u);
  SumAll();
  VoteAll();
  EXPECT_EQ(peers_.run->version(), 1u);
}

// Broken: a party that has died would hold the round up for ever, or cost it.
TEST_F(RunMasksTest, TwoThatSayNothingAreLeftOut) {
  silent_at_ = {{"c", Told::kBegin}, {"f", Told::kBegin}};
  ReadyAll();
  EXPECT_EQ(peers_.Plan("a"), nullptr);
  EXPECT_EQ(peers_.phase(), "exchanging");
  EXPECT_THAT(peers_.reason(), HasSubstr("masks: waiting for the keys of c, f"));
  EXPECT_EQ(peers_.run->WaitingFor(), peers_.reason());
  EXPECT_GT(peers_.run->NextWake(peers_.now), peers_.now);
  EXPECT_LE(peers_.run->NextWake(peers_.now), peers_.now + absl::Seconds(10));
  Wait(absl::Seconds(10));
  ASSERT_NE(peers_.Plan("a"), nullptr);
  EXPECT_EQ(Planned("a").size(), 6u);
  SumAll();
  VoteAll();
  ASSERT_EQ(peers_.run->version(), 1u);
  EXPECT_EQ(peers_.stored.headers[0].contributors_size(), 6);
}

// Broken: one whose death is known would still be waited for, or be in a plan that it cannot carry
// out.
TEST_F(RunMasksTest, WhoDiesBeforeItsUpdateIsNotWaitedFor) {
  silent_at_ = {{"c", Told::kDelivery}};
  ReadyAll();
  EXPECT_THAT(peers_.reason(), HasSubstr("masks: waiting for the masked updates of c"));
  peers_.Die("c");
  Pump();
  ASSERT_NE(peers_.Plan("a"), nullptr);
  EXPECT_EQ(Planned("a").size(), 7u);
  SumAll();
  VoteAll();
  EXPECT_EQ(peers_.run->version(), 1u);
  EXPECT_EQ(peers_.now, absl::UnixEpoch());
}

// Broken: whoever dies once the contributors are signed would take its update out of a sum that is
// already being unmasked, or stop that.
TEST_F(RunMasksTest, WhoDiesAfterTheFreezeStaysInTheSum) {
  silent_at_ = {{"c", Told::kFrozen}};
  ReadyAll();
  const std::vector<std::string> all = Planned("a");
  silent_.clear();
  SumAll();
  EXPECT_THAT(peers_.reason(), HasSubstr("signatures under the contributors of c"));
  EXPECT_TRUE(unmasked_.empty());
  peers_.Die("c");
  Pump();
  EXPECT_EQ(unmasked_.size(), 7u);
  EXPECT_EQ(peers_.WholePlan("a")->revision(), 2u);
  for (const std::string& name : Voters()) Sum(name, &all);  // the same under the new plan
  VoteAll();
  EXPECT_EQ(peers_.run->version(), 1u);
  EXPECT_FALSE(peers_.Said("discarded"));
}

// Broken: parties that were never in the roster would count against its threshold.
TEST_F(RunMasksTest, WhoIsNotInTheRosterCostsNothing) {
  silent_at_ = {{"c", Told::kBegin}, {"d", Told::kBegin}, {"f", Told::kBegin}};
  ReadyAll();
  Wait(absl::Seconds(10));
  ASSERT_NE(peers_.Plan("a"), nullptr) << "five are above two thirds of five";
  EXPECT_EQ(Planned("a").size(), 5u);
}

// Broken: a sum of fewer than two thirds would be unmasked, or the run would never try again, or
// try without a pause.
TEST_F(RunMasksTest, BelowItsThresholdAnAttemptIsDiscarded) {
  silent_at_ = {{"c", Told::kRoster}, {"d", Told::kRoster}, {"f", Told::kRoster}};
  ReadyAll();
  EXPECT_EQ(drawn_, 8u);
  const uint64_t epoch = peers_.stored.epoch;
  Wait(absl::Seconds(10));
  EXPECT_TRUE(peers_.Said("round 1: this attempt's masks are discarded: 5 parties sealed shares"));
  EXPECT_EQ(peers_.stored.epoch, epoch) << "no exchange was given up";
  EXPECT_THAT(peers_.reason(), HasSubstr("the last attempt was discarded"));
  EXPECT_NE(peers_.phase(), "exchanging");
  EXPECT_GT(peers_.run->NextWake(peers_.now), peers_.now);
  silent_at_.clear();
  silent_.clear();
  Wait(absl::Seconds(4));
  EXPECT_EQ(drawn_, 8u);
  Wait(absl::Seconds(1));
  EXPECT_EQ(drawn_, 16u) << "each has a secret of its own for the next attempt";
  SumAll();
  VoteAll();
  EXPECT_EQ(peers_.run->version(), 1u);
}

const v1::PeerStatus& Shown(const v1::RunStatus& status, const std::string& peer) {
  for (const v1::PeerStatus& one : status.peers()) {
    if (one.member().peer() == peer) return one;
  }
  static const v1::PeerStatus none;
  return none;
}

// Broken: two liars that are no neighbours would end every attempt, or nobody would learn of them.
TEST_F(RunMasksTest, WhoRevealsFalseSharesIsNamed) {
  lie_ = [](const std::string& name, v1::UnmaskShares* shares) {
    if (name != "b" && name != "e") return;
    for (v1::OpenShare& share : *shares->mutable_shares()) share.set_value(std::string(32, 'x'));
  };
  ReadyAll();
  SumAll();
  VoteAll();
  EXPECT_EQ(peers_.run->version(), 1u);
  EXPECT_TRUE(peers_.Said("round 1: masks: peer b revealed false shares of 8 of 8 secrets"));
  const v1::RunStatus status = peers_.run->Status(peers_.now);
  for (const char* peer : {"b", "e"}) {
    EXPECT_THAT(Shown(status, peer).offence(), HasSubstr("revealed false shares"));
    EXPECT_EQ(Shown(status, peer).updates_refused(), 1u);
  }
  EXPECT_EQ(Shown(status, "a").offence(), "");
}

// Broken: an attempt that failed for false shares would be made again with the same, for ever.
TEST_F(RunMasksTest, AnAttemptThatFailedForFalseSharesIsMadeWithoutTheNamed) {
  lie_ = [](const std::string& name, v1::UnmaskShares* shares) {
    for (v1::OpenShare& share : *shares->mutable_shares()) {
      const bool false_one = share.of() == "d" && (name == "a" || name == "c" || name == "f");
      if (false_one) share.set_value(std::string(32, 'x'));
    }
  };
  ReadyAll();
  SumAll();
  EXPECT_TRUE(peers_.Said("masks: peer d has a secret that no shares give back"));
  EXPECT_TRUE(peers_.Said("do not give back the secret of d"));
  EXPECT_EQ(peers_.run->version(), 0u);
  EXPECT_EQ(Shown(peers_.run->Status(peers_.now), "d").offence(), "") << "it may be the others";
  ReadyAll();
  Wait(absl::Seconds(5));
  EXPECT_TRUE(peers_.Said("the next masked sum is made without d"));
  ASSERT_NE(peers_.Plan("a"), nullptr);
  EXPECT_THAT(Planned("a"), ElementsAreArray({"a", "b", "c", "e", "f", "g", "h"}));
  SumAll();
  VoteAll();
  EXPECT_EQ(peers_.run->version(), 1u);
}

// Broken: an update would be unmasked in parts, or the round be lost though nothing was revealed.
TEST_F(RunMasksTest, ARaggedSumIsRedoneElsewhere) {
  ReadyAll();
  SumAll(nullptr, true);
  EXPECT_TRUE(unmasked_.empty());
  ASSERT_EQ(peers_.WholePlan("a")->revision(), 2u);
  for (const v1::Shard& shard : peers_.WholePlan("a")->shards()) EXPECT_EQ(shard.attempt(), 2u);
  SumAll();
  VoteAll();
  EXPECT_EQ(peers_.run->version(), 1u);
}

// Broken: a second ragged sum would be unmasked, or redone for ever.
TEST_F(RunMasksTest, RaggedAgainTheExchangeIsGivenUp) {
  ReadyAll();
  const uint64_t epoch = peers_.stored.epoch;
  SumAll(nullptr, true);
  SumAll(nullptr, true);
  EXPECT_TRUE(peers_.Said("round 1: this attempt's masks are discarded"));
  EXPECT_EQ(peers_.stored.epoch, epoch + 1);
  ReadyAll();
  EXPECT_THAT(peers_.reason(), HasSubstr("the last attempt was discarded"));
  Wait(absl::Seconds(5));
  SumAll();
  VoteAll();
  EXPECT_EQ(peers_.run->version(), 1u);
}

// Broken: a coordinator that starts again would ask for secrets of an attempt that it has
// forgotten, or give the next one a number that was there.
TEST_F(RunMasksTest, ARestartInMidAttemptBeginsAnother) {
  silent_at_ = {{"c", Told::kRoster}};
  ReadyAll();
  const uint64_t attempt = duties_.at("a")->party()->attempt().attempt();
  Restart();
  silent_at_.clear();
  silent_.clear();
  peers_.ComeBack(names_);
  ReadyAll();
  EXPECT_EQ(drawn_, 16u);
  EXPECT_GT(duties_.at("a")->party()->attempt().attempt(), attempt);
  SumAll();
  VoteAll();
  EXPECT_EQ(peers_.run->version(), 1u);
}

// Broken: a party whose Session broke would miss a word, and be waited for in vain.
TEST_F(RunMasksTest, WhoComesBackIsToldAgain) {
  silent_at_ = {{"c", Told::kRoster}};
  ReadyAll();
  peers_.Break("c");
  silent_at_.clear();
  silent_.clear();
  peers_.ComeBack({"c"});
  Pump();
  EXPECT_EQ(drawn_, 8u) << "the same attempt, with the same secrets";
  ASSERT_NE(peers_.Plan("c"), nullptr);
  EXPECT_EQ(Planned("a").size(), 8u);
  peers_.Break("c");
  peers_.ComeBack({"c"});
  Pump();
  SumAll();
  VoteAll();
  EXPECT_EQ(peers_.run->version(), 1u);
  EXPECT_EQ(peers_.stored.headers[0].contributors_size(), 8);
}

// Broken: another process, which has no secrets, would be waited for, or its update be taken for
// the masked one.
TEST_F(RunMasksTest, AnotherProcessIsOutOfTheAttempt) {
  silent_at_ = {{"c", Told::kDelivery}};
  ReadyAll();
  silent_at_.clear();
  silent_.clear();
  peers_.Break("c");
  StartParty("c");
  v1::Hello hello = peers_.Returning("c", nullptr);
  hello.set_pid(8);
  peers_.Join("c", &hello);
  Pump();
  ASSERT_NE(peers_.Plan("a"), nullptr);
  EXPECT_EQ(Planned("a").size(), 7u);
  SumAll();
  VoteAll();
  EXPECT_EQ(peers_.run->version(), 1u);
}

// Broken: an update under another's name would be planned for.
TEST_F(RunMasksTest, WhoHasNotSignedItsUpdateIsRefused) {
  forger_ = "c";
  ReadyAll();
  EXPECT_TRUE(peers_.Said("peer c was refused"));
  ASSERT_NE(peers_.Plan("a"), nullptr);
  EXPECT_EQ(Planned("a").size(), 7u);
}

// Broken: masks by a key that nobody knows to be the party's would hide who is in the sum.
TEST_F(RunMasksTest, MaskKeysAreOfTheHellosKey) {
  duties_["c"] = std::make_unique<MaskDuty>(
      "r1", "c", &peers_.keys.at("d"), MaskRosterRule(),
      [this] { return std::string(MaskSecret().Derive("run", std::to_string(++drawn_)).view()); },
      [] { return KnownSigningKeys(); });
  ReadyAll();
  EXPECT_TRUE(peers_.Said("signed by another key than the one that its Hello names"));
  ASSERT_NE(peers_.Plan("a"), nullptr);
  EXPECT_EQ(Planned("a").size(), 7u);
}

// Broken: those who cannot finish would hold the others up for ever.
TEST_F(RunMasksTest, WhoComesToNoSumIsLeftOut) {
  ReadyAll();
  silent_ = {"c", "f"};
  SumAll();
  EXPECT_TRUE(unmasked_.empty());
  const uint64_t milliseconds = peers_.WholePlan("a")->deadline_milliseconds();
  Wait(absl::Milliseconds(static_cast<int64_t>(milliseconds)) + absl::Seconds(1));
  EXPECT_TRUE(peers_.Said("without the masked sums of c, f"));
  ASSERT_EQ(peers_.WholePlan("a")->revision(), 2u);
  SumAll();
  EXPECT_EQ(unmasked_.size(), 6u);
  VoteAll();
  ASSERT_EQ(peers_.run->version(), 1u);
}

// Broken: secrets that are for one sum would take the masks off another.
TEST_F(RunMasksTest, ALateSumThatDiffersDiscards) {
  silent_at_ = {{"c", Told::kFrozen}};
  ReadyAll();
  SumAll();
  Sum("a");  // said again
  EXPECT_FALSE(peers_.Said("discarded"));
  const uint64_t epoch = peers_.stored.epoch;
  Sum("a", nullptr, false, 'x');
  EXPECT_TRUE(peers_.Said("peer a has come to another sum than the one that is unmasked"));
  EXPECT_EQ(peers_.stored.epoch, epoch + 1);
  Wait(absl::Seconds(30));
  EXPECT_TRUE(told_unmasking_.empty());
}

// Broken: a pause would cut an attempt off, or another would begin in spite of it.
TEST_F(RunMasksTest, APauseLetsTheAttemptEnd) {
  silent_at_ = {{"c", Told::kBegin}};
  ReadyAll();
  ASSERT_EQ(peers_.Order(RunOrder::Verb::kPause), absl::OkStatus());
  EXPECT_EQ(peers_.phase(), "exchanging");
  Wait(absl::Seconds(10));
  SumAll();
  VoteAll();
  EXPECT_EQ(peers_.run->version(), 1u);
  EXPECT_EQ(peers_.phase(), "paused");
}

// Broken: a Ready would tell what masks are to hide.
TEST_F(RunMasksTest, AReadyTellsNothingOfItsUpdate) {
  v1::PeerMessage message;
  message.mutable_ready()->set_version(1);
  message.mutable_ready()->set_steps(5);
  message.mutable_ready()->set_tokens(100);
  message.mutable_ready()->set_state_digest(std::string(32, 's'));
  message.mutable_ready()->set_train_number(peers_.trains.at("b"));
  message.mutable_ready()->set_squared_norm_bits(1);
  peers_.Say("b", message);
  EXPECT_TRUE(peers_.Said("peer b was refused"));
}

// Broken: sum after sum of the same round's data would be unmasked, as long as a coordinator can
// make them come to nothing.
TEST_F(RunMasksTest, SoManySumsOfOneVersionAreUnmaskedAndNoMore) {
  ReadyAll();
  uint32_t sums = 0;
  for (; sums < 3 * kMostSumsOfAVersion; ++sums) {
    told_unmasking_.clear();
    SumAll();
    if (told_unmasking_.empty()) break;
    Sum("a", nullptr, false, 'e');  // it comes to another one, and nobody votes
    Pump();
    ReadyAll();
    Wait(absl::Seconds(5));
  }
  EXPECT_EQ(peers_.run->version(), 0u);
  EXPECT_EQ(sums, kMostSumsOfAVersion);
  EXPECT_THAT(peers_.reason(), HasSubstr("masks: 16 sums of version 1 may have been unmasked"));
}

class RosterTest : public RunMasksTest {
 protected:
  RosterTest() : RunMasksTest(8, 4) {
    peers_.stored.spec->mutable_privacy()->set_roster(7);
    Restart();
    peers_.ComeBack(names_);
  }
};

// Broken: of a run of many three would be enough for a sum, two of which may be the coordinator's.
TEST_F(RosterTest, FewerThanTheRunAsksForShareNoMasks) {
  for (const char* const gone : {"c", "d"}) peers_.Die(gone);
  ReadyAll();
  EXPECT_EQ(drawn_, 0u);
  EXPECT_THAT(peers_.reason(),
              HasSubstr("masks: 6 updates are ready, and a masked sum has at least 7"));
  peers_.ComeBack({"c"});
  silent_at_ = {{"e", Told::kBegin}};
  ReadyAll();
  Wait(absl::Seconds(10));
  EXPECT_TRUE(peers_.Said("6 parties announced keys, and the masks need 7"));
}

// Broken: whoever cannot reach the others would be planned around, and the sum, which needs it,
// would never begin.
TEST_F(RosterTest, NobodyWhoIsNeededIsPlannedAround) {
  peers_.Die("h");
  v1::PeerMessage doubt;
  doubt.mutable_reached()->set_reason("no answer");
  for (const std::string& name : names_) {
    doubt.mutable_reached()->set_peer(name);
    if (name != "c" && name != "h") peers_.Say("c", doubt);
  }
  ReadyAll();
  SumAll();
  VoteAll();
  EXPECT_EQ(peers_.run->version(), 1u) << peers_.reason();
}

class FewMasksTest : public RunMasksTest {
 protected:
  FewMasksTest() : RunMasksTest(4, 2) {}
};

// Broken: two would be summed, of whom each knows the other's update; or the run would wait without
// a word.
TEST_F(FewMasksTest, TwoAreTooFew) {
  for (const char* const gone : {"c", "d"}) peers_.Die(gone);
  ReadyAll();
  EXPECT_EQ(drawn_, 0u);
  EXPECT_THAT(peers_.reason(),
              HasSubstr("masks: 2 updates are ready, and a masked sum has at least 3"));
  EXPECT_EQ(peers_.phase(), "waiting");
}

}  // namespace
}  // namespace atolld
