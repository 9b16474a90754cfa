// A coordinator and eight parties from the first keys to the sum, by the messages that they send.
#include "membership/run/masked_sums.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "membership/masking/mask_duty.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kSumParties = 8;
constexpr size_t kSumElements = 64;
constexpr absl::Duration kPatience = absl::Seconds(10);

std::string SumName(uint32_t party) { return std::string("party-") + std::to_string(party); }

class MaskedSumsTest : public ::testing::Test {
 protected:
  MaskedSumsTest() : sums_("run", MaskRosterRule{6}, kPatience) {
    for (uint32_t i = 0; i < kSumParties; ++i) {
      keys_.push_back(SigningKey::FromSeed(std::string(32, static_cast<char>(i + 1))).value());
      weights_[SumName(i)] = static_cast<float>(1 + i);
    }
    for (uint32_t i = 0; i < kSumParties; ++i) {
      duties_[SumName(i)] = std::make_unique<MaskDuty>(
          "run", SumName(i), &keys_[i], MaskRosterRule{6}, [this] { return Secret(); },
          [] { return KnownSigningKeys(); });
    }
  }

  std::string Secret() {
    ++drawn_;
    return std::string(MaskSecret().Derive("test", std::to_string(drawn_)).view());
  }

  std::vector<uint32_t> Codes(const std::string& party) const {
    std::vector<uint32_t> codes(kSumElements);
    for (size_t i = 0; i < codes.size(); ++i) {
      codes[i] = static_cast<uint32_t>(i) * static_cast<uint32_t>(party.back() - '0' + 1);
    }
    return codes;
  }

  // Carries out what came, and all that follows from it, but for those who are silent.
  void Handle(MaskedSums::Output out) {
    std::deque<MaskedSums::Output> queue;
    queue.push_back(std::move(out));
    while (!queue.empty()) {
      const MaskedSums::Output next = std::move(queue.front());
      queue.pop_front();
      for (const std::string& event : next.events) events_.push_back(event);
      for (const ShareSuspect& suspect : next.suspects) suspects_.push_back(suspect);
      if (next.news != MaskedSums::News::kNone) news_.push_back(next.news);
      for (const auto& [peer, message] : next.sends) {
        if (message.message_case() == silent_at_[peer]) silent_.insert(peer);
        if (silent_.count(peer) != 0) continue;
        for (const v1::MaskFromParty& answer : Answers(peer, message)) {
          queue.push_back(sums_.OnMessage(now_, peer, answer));
        }
      }
    }
  }

  std::vector<v1::MaskFromParty> Answers(const std::string& peer, const v1::MaskToParty& message) {
    MaskDuty& duty = *duties_.at(peer);
    MaskDuty::Output out = duty.OnMessage(message);
    std::vector<v1::MaskFromParty> answers = out.sends;
    for (v1::MaskFromParty& answer : answers) {
      if (!answer.has_opened() || liars_.count(peer) == 0) continue;
      for (v1::OpenShare& share : *answer.mutable_opened()->mutable_shares()) {
        share.set_value(std::string(32, 'x'));
      }
    }
    if (out.action == MaskDuty::Action::kMask) {
      masked_[peer] = Codes(peer);
      EXPECT_TRUE(duty.party()->Mask(ring_, 0, absl::MakeSpan(masked_[peer])).ok());
      for (v1::MaskFromParty& answer : duty.Masked("", "").sends)
        answers.push_back(std::move(answer));
    }
    if (out.action == MaskDuty::Action::kUnmask) unmasked_.insert(peer);
    if (out.action == MaskDuty::Action::kForget) masked_.erase(peer);
    return answers;
  }

  void Begin() { Handle(sums_.Begin(now_, 1, 3, weights_)); }

  // Nobody else answers in time.
  void Wait() {
    ASSERT_NE(sums_.deadline(), absl::InfiniteFuture());
    now_ = sums_.deadline();
    Handle(sums_.OnDeadline(now_));
  }

  // All that are here have come to the sum of these.
  void Report(const std::vector<std::string>& contributors, uint32_t revision,
              bool ragged = false) {
    std::vector<std::string> voters;
    for (const std::string& peer : sums_.masked()) {
      if (silent_.count(peer) == 0) voters.push_back(peer);
    }
    v1::MaskedSum sum;
    sum.set_revision(revision);
    sum.set_payload_digest(std::string(32, 'd'));
    sum.set_ragged(ragged);
    for (const std::string& peer : contributors) sum.add_contributors(peer);
    for (const std::string& voter : voters) {
      for (const v1::MaskFromParty& message : duties_.at(voter)->Summed(sum).sends) {
        Handle(sums_.OnSum(now_, voter, message.sum(), revision, voters));
      }
    }
  }

  // What is left of the sum of these when `peer` takes the masks off.
  std::vector<uint32_t> Unmasked(const std::string& peer) {
    std::vector<uint32_t> sum(kSumElements);
    for (const std::string& one : duties_.at(peer)->contributors()) {
      AddRing(ring_, masked_.at(one), absl::MakeSpan(sum));
    }
    RemoveMasks(ring_, duties_.at(peer)->masks(), 0, absl::MakeSpan(sum));
    return sum;
  }

  std::vector<uint32_t> PlainSum(const std::vector<std::string>& parties) const {
    std::vector<uint32_t> sum(kSumElements);
    for (const std::string& party : parties) AddRing(ring_, Codes(party), absl::MakeSpan(sum));
    return sum;
  }

  bool Told(MaskedSums::News news) const {
    return std::find(news_.begin(), news_.end(), news) != news_.end();
  }

  void ExpectDiscarded(const std::string& why) {
    EXPECT_TRUE(Told(MaskedSums::News::kDiscarded));
    EXPECT_FALSE(Told(MaskedSums::News::kUnmasked));
    EXPECT_FALSE(sums_.under_way());
    ASSERT_FALSE(events_.empty());
    EXPECT_THAT(events_.back(), HasSubstr(why));
    EXPECT_TRUE(unmasked_.empty());
  }

  const RingForm ring_{4, kSumParties};
  absl::Time now_ = absl::UnixEpoch();
  std::vector<SigningKey> keys_;
  std::map<std::string, float> weights_;
  std::map<std::string, std::unique_ptr<MaskDuty>> duties_;
  MaskedSums sums_;
  uint64_t drawn_ = 0;
  std::map<std::string, v1::MaskToParty::MessageCase> silent_at_;  // from this message on
  std::set<std::string> silent_;
  std::set<std::string> liars_;  // they reveal false shares
  std::vector<ShareSuspect> suspects_;
  std::map<std::string, std::vector<uint32_t>> masked_;
  std::set<std::string> unmasked_;  // who could take the masks off
  std::vector<MaskedSums::News> news_;
  std::vector<std::string> events_;
};

// Broken: eight that all answer would not come to their sum, or would wait for something.
TEST_F(MaskedSumsTest, AllAnswerAndAllUnmask) {
  Begin();
  EXPECT_EQ(sums_.masked().size(), 8U);
  EXPECT_EQ(sums_.attempt().weight_exponent(), 3);  // the largest weight is 8
  Report(sums_.masked(), 1);
  EXPECT_TRUE(Told(MaskedSums::News::kUnmasked));
  EXPECT_EQ(unmasked_.size(), 8U);
  EXPECT_EQ(now_, absl::UnixEpoch());
  const std::vector<std::string> all = duties_.at("party-0")->contributors();
  EXPECT_EQ(Unmasked("party-3"), PlainSum(all));
  EXPECT_TRUE(events_.empty());
}

// Broken: two liars that are no neighbours would end every attempt, and nobody would be named.
TEST_F(MaskedSumsTest, TwoThatRevealFalseSharesAreNamed) {
  liars_ = {"party-2", "party-5"};
  Begin();
  Report(sums_.masked(), 1);
  EXPECT_TRUE(Told(MaskedSums::News::kUnmasked));
  EXPECT_EQ(Unmasked("party-3"), PlainSum(duties_.at("party-0")->contributors()));
  ASSERT_EQ(suspects_.size(), 2U);
  EXPECT_EQ(suspects_[0].peer, "party-2");
  EXPECT_EQ(suspects_[1].peer, "party-5");
  EXPECT_TRUE(suspects_[0].sure && suspects_[1].sure);
  EXPECT_THAT(events_,
              testing::ElementsAre("masks: peer party-2 revealed false shares of 8 of 8 secrets",
                                   "masks: peer party-5 revealed false shares of 8 of 8 secrets"));
}

// Broken: more liars than can be found would be anybody, or the sum be one of false secrets.
TEST_F(MaskedSumsTest, OfTooManyThatRevealFalseSharesNobodyIsNamed) {
  liars_ = {"party-1", "party-4", "party-6"};
  Begin();
  Report(sums_.masked(), 1);
  ExpectDiscarded("more of the others are false than can be found, so nobody can be named");
  EXPECT_TRUE(suspects_.empty());
}

class SilenceTest : public MaskedSumsTest,
                    public ::testing::WithParamInterface<v1::MaskToParty::MessageCase> {
 protected:
  void Go(const std::vector<std::string>& silent) {
    for (const std::string& peer : silent) silent_at_[peer] = GetParam();
    Begin();
    while (sums_.under_way() && !sums_.masking_done()) Wait();
    if (!sums_.under_way()) return;
    Report(sums_.masked(), 1);
    while (sums_.deadline() != absl::InfiniteFuture()) Wait();
  }
};

// Broken: two parties that fall silent at any word would cost the round.
TEST_P(SilenceTest, TwoAreSurvived) {
  Go({"party-1", "party-6"});
  EXPECT_TRUE(Told(MaskedSums::News::kUnmasked));
  const std::vector<std::string> contributors = duties_.at("party-0")->contributors();
  EXPECT_GE(contributors.size(), 6U);
  EXPECT_EQ(Unmasked("party-0"), PlainSum(contributors));
}

// Broken: a sum of five would be unmasked, or the run would wait for three for ever.
TEST_P(SilenceTest, ThreeDiscardTheAttempt) {
  Go({"party-1", "party-4", "party-6"});
  ExpectDiscarded("need 6");
}

INSTANTIATE_TEST_SUITE_P(EachWord, SilenceTest,
                         ::testing::Values(v1::MaskToParty::kBegin, v1::MaskToParty::kRoster,
                                           v1::MaskToParty::kDelivery, v1::MaskToParty::kFrozen,
                                           v1::MaskToParty::kRequest));

// Broken: a party that dies after it has masked, before its chunks are summed, would stay in the
// sum, or its masks would.
TEST_F(MaskedSumsTest, WhoDiesInTheExchangeIsTakenOut) {
  Begin();
  std::vector<std::string> others = sums_.masked();
  others.erase(others.begin() + 2, others.begin() + 4);
  for (const char* const gone : {"party-2", "party-3"}) {
    silent_.insert(gone);
    Handle(sums_.OnGone(now_, gone));
  }
  Report(others, 2);
  EXPECT_TRUE(Told(MaskedSums::News::kUnmasked));
  EXPECT_EQ(duties_.at("party-0")->contributors(), others);
  EXPECT_EQ(Unmasked("party-0"), PlainSum(others));
}

// Broken: a sum with some chunks of an update would be unmasked, or one more try be refused though
// nothing was revealed.
TEST_F(MaskedSumsTest, RaggedSumsAreRedoneOnce) {
  Begin();
  Report(sums_.masked(), 1, true);
  EXPECT_TRUE(Told(MaskedSums::News::kRedo));
  EXPECT_TRUE(sums_.under_way());
  Report(sums_.masked(), 2);
  EXPECT_TRUE(Told(MaskedSums::News::kUnmasked));

  news_.clear();
  unmasked_.clear();
  Handle(sums_.Begin(now_, 2, 4, weights_));
  Report(sums_.masked(), 1, true);
  Report(sums_.masked(), 2, true);
  ExpectDiscarded("parts of the sum");
}

// Broken: what answers an attempt that was discarded would count as an answer to the next one, or
// put its sender out of it.
TEST_F(MaskedSumsTest, StaleAnswersSayNothing) {
  silent_ = {"party-0"};
  Begin();
  const MaskDuty::Output stale = [&] {
    v1::MaskToParty begin;
    *begin.mutable_begin() = sums_.attempt();
    return duties_.at("party-0")->OnMessage(begin);
  }();
  for (uint32_t i = 1; i < kSumParties; ++i) silent_.insert(SumName(i));
  MaskedSums::Output again = sums_.Begin(now_, 1, 3, weights_);
  for (const v1::MaskFromParty& keys : stale.sends) {
    Handle(sums_.OnMessage(now_, "party-0", keys));
  }
  silent_.clear();
  EXPECT_THAT(sums_.WaitingFor(), HasSubstr("the keys of party-0, party-1"));
  Handle(std::move(again));
  EXPECT_EQ(sums_.masked().size(), 8U);
  EXPECT_TRUE(events_.empty());
}

// Broken: after the freeze a voter's other sum would be taken for the one that is unmasked.
TEST_F(MaskedSumsTest, AfterTheFreezeOneSumIsLeft) {
  silent_at_["party-3"] = v1::MaskToParty::kFrozen;
  Begin();
  const std::vector<std::string> all = sums_.masked();
  Report(all, 1);
  EXPECT_TRUE(sums_.frozen());
  EXPECT_THAT(sums_.WaitingFor(), HasSubstr("of party-3"));
  Report(all, 2);
  EXPECT_TRUE(sums_.frozen()) << "the plan is another, the sum is not";
  std::vector<std::string> fewer(all.begin(), all.end() - 1);
  Report(fewer, 3);
  ExpectDiscarded("another sum");
}

// Broken: one secret would serve twice: under one number, or in an attempt after a later one.
TEST_F(MaskedSumsTest, NoAttemptIsTakenTwice) {
  Begin();
  const v1::MaskAttempt first = sums_.attempt();
  const uint64_t drawn = drawn_;
  Handle(sums_.Resend("party-0"));  // the same keys and shares, and nothing is drawn
  EXPECT_EQ(drawn_, drawn);
  Handle(sums_.Begin(now_, 1, 3, weights_));
  EXPECT_GT(sums_.attempt().attempt(), first.attempt());
  EXPECT_EQ(drawn_, drawn + 8);
  v1::MaskToParty again;
  *again.mutable_begin() = first;
  const MaskDuty::Output out = duties_.at("party-0")->OnMessage(again);
  EXPECT_TRUE(out.sends.empty());
  EXPECT_THAT(out.event, HasSubstr("not one to take part in"));
  v1::MaskToParty foreign;
  *foreign.mutable_begin() = first;
  foreign.mutable_begin()->set_run_id("another");
  foreign.mutable_begin()->set_attempt(first.attempt() + (1 << 20));
  EXPECT_TRUE(duties_.at("party-0")->OnMessage(foreign).sends.empty());
}

// Broken: a party would go on with a coordinator that contradicts itself, or keep secrets of an
// attempt that is over.
TEST_F(MaskedSumsTest, ALiarIsToldAndSecretsAreForgotten) {
  Begin();
  v1::MaskToParty lie;
  *lie.mutable_delivery()->mutable_attempt() = sums_.attempt();
  const MaskDuty::Output out = duties_.at("party-0")->OnMessage(lie);
  ASSERT_EQ(out.sends.size(), 1U);
  EXPECT_TRUE(out.sends[0].has_refused());
  EXPECT_EQ(out.action, MaskDuty::Action::kForget);
  EXPECT_THAT(out.event, HasSubstr("two sets of shares"));
  EXPECT_EQ(duties_.at("party-0")->party(), nullptr);
  Handle(sums_.End());
  for (const auto& [peer, duty] : duties_) EXPECT_EQ(duty->party(), nullptr) << peer;
}

TEST_F(MaskedSumsTest, WhereSomebodyLacksTheMeanTheNextAttemptNeedsNone) {
  // Broken: a run that needs all its parties would wait for ever for one that came by a snapshot.
  sums_.Begin(now_, 1, 3, weights_);
  EXPECT_FALSE(sums_.attempt().first_range());
  v1::MaskFromParty refused;
  *refused.mutable_refused() = sums_.attempt();
  sums_.OnMessage(now_, weights_.begin()->first, refused);
  sums_.Begin(now_, 1, 3, weights_);
  EXPECT_TRUE(sums_.attempt().first_range());
  sums_.Begin(now_, 2, 3, weights_);
  EXPECT_FALSE(sums_.attempt().first_range()) << "by then it has the mean";
}

}  // namespace
}  // namespace atolld
