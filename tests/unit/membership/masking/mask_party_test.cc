// What an honest party refuses to a coordinator that lies.
#include "membership/masking/mask_party.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/unit/membership/masking/masked_parties.h"

namespace atolld {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string WordsOf(const absl::Status& status) { return std::string(status.message()); }

v1::MaskFrozen FrozenOf(const MaskedParties& /*parties*/, const v1::MaskRoster& roster,
                        const std::vector<uint32_t>& contributors) {
  v1::MaskFrozen frozen;
  *frozen.mutable_attempt() = roster.attempt();
  for (const uint32_t party : contributors) frozen.add_contributors(MaskedParties::Name(party));
  return frozen;
}

// Signatures of these parties under these contributors, as the parties themselves would give them.
v1::UnmaskRequest RequestOf(const MaskedParties& parties, const v1::MaskRoster& roster,
                            const v1::MaskFrozen& frozen, const std::vector<uint32_t>& signers) {
  const std::vector<std::string> contributors(frozen.contributors().begin(),
                                              frozen.contributors().end());
  v1::UnmaskRequest request;
  *request.mutable_attempt() = roster.attempt();
  for (const uint32_t signer : signers) {
    v1::MaskConsent* const consent = request.add_consents();
    consent->set_peer(MaskedParties::Name(signer));
    consent->set_signature(SignContributors(parties.signing_key(signer), roster, contributors));
  }
  return request;
}

// Broken: with both secrets of one party its update would be laid open: here the coordinator says
// first that party 3 has contributed, and then that it has not.
TEST(MaskPartyTest, NeverRevealsBothSecretsOfOneParty) {
  MaskedParties parties;
  ASSERT_TRUE(parties.Begin().ok());
  const v1::MaskRoster roster = parties.round().roster();
  const v1::MaskFrozen with = FrozenOf(parties, roster, {0, 1, 2, 3, 4, 5, 6, 7});
  const v1::MaskFrozen without = FrozenOf(parties, roster, {0, 1, 2, 4, 5, 6, 7});
  MaskParty& honest = parties.party(0);
  ASSERT_TRUE(honest.OnFrozen(with).ok());
  const auto shares = honest.OnRequest(RequestOf(parties, roster, with, {0, 1, 2, 4, 5, 6}));
  ASSERT_TRUE(shares.ok()) << shares.status();
  for (const v1::OpenShare& share : shares->shares()) EXPECT_TRUE(share.contributed());
  EXPECT_THAT(WordsOf(honest.OnFrozen(without).status()), HasSubstr("two sets of contributors"));
  EXPECT_TRUE(honest.over());
  const auto again = honest.OnRequest(RequestOf(parties, roster, without, {0, 1, 2, 4, 5, 6}));
  EXPECT_EQ(again.status().code(), absl::StatusCode::kFailedPrecondition);
}

// Broken: shares would be revealed for contributors that others were told nothing of.
TEST(MaskPartyTest, RevealsNothingBeforeEnoughHaveSignedTheSame) {
  const std::vector<uint32_t> all = {0, 1, 2, 3, 4, 5, 6, 7};
  {
    MaskedParties parties;
    ASSERT_TRUE(parties.Begin().ok());
    const v1::MaskRoster roster = parties.round().roster();
    const v1::MaskFrozen frozen = FrozenOf(parties, roster, all);
    ASSERT_TRUE(parties.party(0).OnFrozen(frozen).ok());
    const auto few =
        parties.party(0).OnRequest(RequestOf(parties, roster, frozen, {0, 1, 2, 3, 4}));
    EXPECT_THAT(WordsOf(few.status()), HasSubstr("5 parties signed"));
  }
  {
    MaskedParties parties;
    ASSERT_TRUE(parties.Begin().ok());
    const v1::MaskRoster roster = parties.round().roster();
    const v1::MaskFrozen frozen = FrozenOf(parties, roster, all);
    ASSERT_TRUE(parties.party(0).OnFrozen(frozen).ok());
    v1::UnmaskRequest request = RequestOf(parties, roster, frozen, {0, 0, 0, 1, 2, 3});
    EXPECT_THAT(WordsOf(parties.party(0).OnRequest(request).status()), HasSubstr("4 parties"));
  }
  {
    MaskedParties parties;
    ASSERT_TRUE(parties.Begin().ok());
    const v1::MaskRoster roster = parties.round().roster();
    ASSERT_TRUE(parties.party(0).OnFrozen(FrozenOf(parties, roster, all)).ok());
    const v1::MaskFrozen other = FrozenOf(parties, roster, {0, 1, 2, 3, 4, 5, 6});
    const v1::UnmaskRequest request = RequestOf(parties, roster, other, {0, 1, 2, 3, 4, 5});
    EXPECT_THAT(WordsOf(parties.party(0).OnRequest(request).status()), HasSubstr("has not signed"));
  }
}

// Broken: a coordinator that names few contributors, or leaves this party out of what it is asked
// to unmask, would learn of a sum of few.
TEST(MaskPartyTest, RefusesContributorsThatAreTooFewOrWithoutIt) {
  const std::vector<std::vector<uint32_t>> wrong = {
      {0, 1, 2, 3, 4}, {1, 2, 3, 4, 5, 6, 7}, {1, 0, 2, 3, 4, 5, 6}, {0, 1, 2, 3, 4, 9}};
  for (const std::vector<uint32_t>& contributors : wrong) {
    MaskedParties parties;
    ASSERT_TRUE(parties.Begin().ok());
    const v1::MaskRoster roster = parties.round().roster();
    EXPECT_FALSE(parties.party(0).OnFrozen(FrozenOf(parties, roster, contributors)).ok());
    EXPECT_TRUE(parties.party(0).over());
  }
}

// Broken: the coordinator could put a key of its own in a party's place, and take that party's
// masks off itself.
TEST(MaskPartyTest, RefusesARosterWithAForeignKey) {
  MaskedParties parties;
  MaskedParties others(2);
  ASSERT_TRUE(others.Begin().ok());
  v1::MaskRoster roster;
  for (uint32_t i = 0; i < 8; ++i) *roster.add_parties() = parties.party(i).keys();
  *roster.mutable_attempt() = parties.party(0).attempt();
  roster.set_threshold(6);
  const KnownSigningKeys nobody;
  ASSERT_TRUE(CheckMaskRoster(roster, MaskRosterRule{6}, nobody).ok());

  v1::MaskRoster changed = roster;
  changed.mutable_parties(3)->set_masking_key(std::string(32, 'k'));
  EXPECT_THAT(WordsOf(parties.party(0).OnRoster(changed).status()), HasSubstr("not signed"));
  EXPECT_TRUE(parties.party(0).over());

  changed = roster;  // of another attempt, though signed by the right key
  *changed.mutable_parties(3) = others.party(3).keys();
  EXPECT_THAT(WordsOf(parties.party(1).OnRoster(changed).status()), HasSubstr("not signed"));

  // Signed by a key that somebody made for this; the real one is known.
  changed = roster;
  const SigningKey foreign = SigningKey::FromSeed(std::string(32, 'f')).value();
  SignMaskKeys(foreign, roster.attempt(), changed.mutable_parties(3));
  EXPECT_TRUE(CheckMaskRoster(changed, MaskRosterRule{6}, nobody).ok());
  KnownSigningKeys known;
  for (const int i : {3, 4, 5}) {
    known[absl::StrCat("party-", i)] = parties.signing_key(i).public_key();
  }
  EXPECT_THAT(Strangers(changed, known), ElementsAre("party-3"));
  // Broken: one party that was installed anew would end all sums, or a third of the parties could
  // be the coordinator's.
  for (const int i : {4, 5}) {
    EXPECT_TRUE(CheckMaskRoster(changed, MaskRosterRule{6}, known).ok()) << i;
    const SigningKey another = SigningKey::FromSeed(std::string(32, static_cast<char>(i))).value();
    SignMaskKeys(another, roster.attempt(), changed.mutable_parties(i));
  }
  EXPECT_THAT(WordsOf(CheckMaskRoster(changed, MaskRosterRule{6}, known)),
              HasSubstr("party-3, party-4, party-5 are signed by other keys"));

  changed = roster;
  changed.set_threshold(5);  // two thirds of eight are more
  EXPECT_THAT(WordsOf(parties.party(2).OnRoster(changed).status()), HasSubstr("at least 6"));

  changed = roster;
  *changed.mutable_parties(4) = roster.parties(3);
  EXPECT_FALSE(CheckMaskRoster(changed, MaskRosterRule{6}, nobody).ok());

  changed = roster;
  changed.mutable_parties()->RemoveLast();
  changed.mutable_parties()->RemoveLast();
  EXPECT_THAT(WordsOf(parties.party(7).OnRoster(changed).status()),
              HasSubstr("not have this party's"));
}

// Broken: a second roster or delivery under the same masks would be answered, and two differently
// masked updates under one key tell their difference.
TEST(MaskPartyTest, NothingIsAttemptedAgainUnderTheSameMasks) {
  MaskedParties parties;
  ASSERT_TRUE(parties.Begin().ok());
  const v1::MaskRoster roster = parties.round().roster();
  MaskParty& honest = parties.party(0);
  EXPECT_TRUE(honest.OnRoster(roster).ok());  // the same again, after a lost answer
  std::vector<uint32_t> codes(10);
  EXPECT_TRUE(honest.Mask(parties.ring(), 0, absl::MakeSpan(codes)).ok());
  ASSERT_TRUE(honest.OnFrozen(FrozenOf(parties, roster, {0, 1, 2, 3, 4, 5})).ok());
  EXPECT_EQ(honest.Mask(parties.ring(), 1, absl::MakeSpan(codes)).code(),
            absl::StatusCode::kFailedPrecondition);
  v1::MaskDelivery second;
  *second.mutable_attempt() = roster.attempt();
  EXPECT_THAT(WordsOf(honest.OnDelivery(second)), HasSubstr("two sets of shares"));
  EXPECT_TRUE(honest.over());
  EXPECT_FALSE(honest.OnRoster(roster).ok());

  MaskParty& other = parties.party(1);
  v1::MaskRoster changed = roster;
  changed.set_threshold(7);
  EXPECT_THAT(WordsOf(other.OnRoster(changed).status()), HasSubstr("two rosters"));
}

// Broken: shares that somebody has changed on the way, or that are for another, would be taken.
TEST(MaskPartyTest, RefusesSharesThatAreNotForIt) {
  MaskedParties parties;
  for (uint32_t i = 0; i < 8; ++i) {
    ASSERT_TRUE(parties.round().OnKeys(MaskedParties::Name(i), parties.party(i).keys()).ok());
  }
  const v1::MaskRoster roster = parties.round().FreezeRoster().value();
  for (uint32_t i = 0; i < 8; ++i) {
    const v1::MaskShares shares = parties.party(i).OnRoster(roster).value();
    ASSERT_TRUE(parties.round().OnShares(MaskedParties::Name(i), shares).ok());
  }
  const auto deliveries = parties.round().FreezeMasking().value();
  v1::MaskDelivery changed = deliveries.at("party-0");
  std::string* const sealed = changed.mutable_shares(2)->mutable_sealed();
  sealed->front() = static_cast<char>(sealed->front() ^ 1);
  EXPECT_THAT(WordsOf(parties.party(0).OnDelivery(changed)), HasSubstr("does not open"));
  EXPECT_FALSE(parties.party(1).OnDelivery(deliveries.at("party-2")).ok());
  v1::MaskDelivery few = deliveries.at("party-3");
  while (few.shares_size() > 4) few.mutable_shares()->RemoveLast();
  EXPECT_THAT(WordsOf(parties.party(3).OnDelivery(few)), HasSubstr("only 5 parties"));
}

}  // namespace
}  // namespace atolld
