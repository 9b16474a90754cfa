// Attempts under a network that delays, repeats and loses, with parties that die, come back and
// lie, and a coordinator that asks for too much: by seeds, each of which repeats bit by bit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "membership/masking/mask_duty.h"
#include "membership/run/masked_sums.h"

namespace atolld {
namespace {

constexpr uint32_t kSwarmParties = 6;
constexpr uint32_t kSwarmThreshold = 5;  // more than two thirds of six
constexpr size_t kSwarmElements = 16;
constexpr absl::Duration kSwarmPatience = absl::Seconds(10);

// One attempt after the other, until one ends with a sum or `attempts` are over.
class MaskedSwarm {
 public:
  explicit MaskedSwarm(uint32_t seed)
      : random_(seed), sums_("swarm", MaskRosterRule{kSwarmThreshold}, kSwarmPatience) {
    for (uint32_t i = 0; i < kSwarmParties; ++i) {
      keys_.push_back(SigningKey::FromSeed(std::string(32, static_cast<char>(i + 1))).value());
    }
    for (uint32_t i = 0; i < kSwarmParties; ++i) StartParty(i);
  }

  void Run(int attempts) {
    for (int i = 0; i < attempts && !unmasked_; ++i) {
      std::map<std::string, float> weights;
      for (const auto& [name, duty] : duties_) {
        if (duty != nullptr) weights[name] = 1;
      }
      Take(sums_.Begin(now_, 1, 10 + static_cast<uint64_t>(i), weights));
      for (int turns = 0; sums_.under_way() && !unmasked_; ++turns) {
        ASSERT_LT(turns, 10000) << "it neither ends nor waits";
        Turn();
      }
      for (uint32_t party = 0; party < kSwarmParties; ++party) {
        if (duties_[Name(party)] == nullptr) StartParty(party);
      }
    }
    Take(sums_.End());
  }

  bool unmasked() const { return unmasked_; }
  int discarded() const { return discarded_; }

 private:
  static std::string Name(uint32_t party) { return std::string("p") + std::to_string(party); }
  bool Chance(uint32_t percent) { return static_cast<uint32_t>(random_()) % 100 < percent; }

  void StartParty(uint32_t party) {
    duties_[Name(party)] = std::make_unique<MaskDuty>(
        "swarm", Name(party), &keys_[party], MaskRosterRule{kSwarmThreshold},
        [this] {
          return std::string(MaskSecret().Derive("swarm", std::to_string(++drawn_)).view());
        },
        [] { return KnownSigningKeys(); });
    up_[Name(party)].clear();
    down_[Name(party)].clear();
  }

  void Take(MaskedSums::Output out) {
    for (auto& [peer, message] : out.sends) {
      down_[peer].push_back(message);
      if (Chance(10)) down_[peer].push_back(message);  // said again after a new session
    }
    if (out.news == MaskedSums::News::kMasked) revision_ = 1;
    if (out.news == MaskedSums::News::kRedo) ++revision_;
    if (out.news == MaskedSums::News::kDiscarded) ++discarded_;
  }

  // Something happens: a message arrives somewhere, somebody dies, or time passes.
  void Turn() {
    const std::string peer = Name(static_cast<uint32_t>(random_()) % kSwarmParties);
    if (Chance(1) && duties_[peer] != nullptr) {
      duties_[peer] = nullptr;
      Take(sums_.OnGone(now_, peer));
    }
    if (!down_[peer].empty()) {
      const v1::MaskToParty message = down_[peer].front();
      down_[peer].pop_front();
      if (duties_[peer] != nullptr) Hear(peer, message);
    } else if (!up_[peer].empty()) {
      const v1::MaskFromParty message = up_[peer].front();
      up_[peer].pop_front();
      if (duties_[peer] != nullptr) Tell(peer, message);
    } else if (Quiet()) {
      if (sums_.masking_done() && !summed_.count(revision_)) return Sum();
      now_ = sums_.deadline() == absl::InfiniteFuture() ? now_ + kSwarmPatience : sums_.deadline();
      Take(sums_.OnDeadline(now_));
      if (sums_.deadline() == absl::InfiniteFuture() && Quiet()) Take(sums_.End());
    }
  }

  bool Quiet() const {
    const auto empty = [](const auto& queue) { return queue.second.empty(); };
    return std::all_of(up_.begin(), up_.end(), empty) &&
           std::all_of(down_.begin(), down_.end(), empty);
  }

  void Tell(const std::string& peer, v1::MaskFromParty message) {
    if (message.has_sum()) {
      std::vector<std::string> voters;
      for (const std::string& one : sums_.masked()) {
        if (duties_[one] != nullptr) voters.push_back(one);
      }
      return Take(sums_.OnSum(now_, peer, message.sum(), revision_, voters));
    }
    if (message.has_opened()) {
      NoteRevealed(peer, message.opened());
      if (peer == Name(0) && Chance(20)) {  // it lies
        for (v1::OpenShare& share : *message.mutable_opened()->mutable_shares()) {
          share.set_value(std::string(32, 'x'));
        }
      }
    }
    Take(sums_.OnMessage(now_, peer, message));
  }

  // Law: of one party's two secrets each party ever reveals shares of one, whatever it is told.
  void NoteRevealed(const std::string& peer, const v1::UnmaskShares& shares) {
    for (const v1::OpenShare& share : shares.shares()) {
      const auto key = std::make_pair(shares.attempt().attempt(), peer + " " + share.of());
      const auto [found, first] = revealed_.emplace(key, share.contributed());
      EXPECT_EQ(found->second, share.contributed()) << "both secrets of " << share.of();
    }
  }

  void Hear(const std::string& peer, const v1::MaskToParty& message) {
    if (message.has_roster()) roster_ = message.roster();
    Answer(peer, duties_[peer]->OnMessage(message));
    if (message.has_request() && Chance(20)) AskForMore(peer);
  }

  // The coordinator wants the other secret of somebody as well, and others help it: they sign
  // whatever it tells them.
  void AskForMore(const std::string& peer) {
    std::vector<std::string> fewer;
    for (const v1::MaskKeys& keys : roster_.parties()) {
      if (fewer.size() < kSwarmThreshold) fewer.push_back(keys.peer());
    }
    v1::MaskToParty frozen;
    *frozen.mutable_frozen()->mutable_attempt() = roster_.attempt();
    v1::MaskToParty request;
    *request.mutable_request()->mutable_attempt() = roster_.attempt();
    for (const std::string& one : fewer) {
      frozen.mutable_frozen()->add_contributors(one);
      v1::MaskConsent* const consent = request.mutable_request()->add_consents();
      consent->set_peer(one);
      consent->set_signature(
          SignContributors(keys_[static_cast<size_t>(one.back() - '0')], roster_, fewer));
    }
    Answer(peer, duties_[peer]->OnMessage(frozen));
    Answer(peer, duties_[peer]->OnMessage(request));
  }

  void Answer(const std::string& peer, const MaskDuty::Output& out) {
    for (const v1::MaskFromParty& answer : out.sends) up_[peer].push_back(answer);
    if (out.action == MaskDuty::Action::kForget) masked_.erase(peer);
    if (out.action == MaskDuty::Action::kMask) {
      masked_[peer] = Codes(peer);
      ASSERT_TRUE(duties_[peer]->party()->Mask(ring_, 0, absl::MakeSpan(masked_[peer])).ok());
      for (const v1::MaskFromParty& one : duties_[peer]->Masked("", "").sends)
        up_[peer].push_back(one);
    }
    if (out.action == MaskDuty::Action::kUnmask) CheckSum(peer);
  }

  static std::vector<uint32_t> Codes(const std::string& peer) {
    std::vector<uint32_t> codes(kSwarmElements);
    for (size_t i = 0; i < codes.size(); ++i) {
      codes[i] = static_cast<uint32_t>(1000 * (peer.back() - '0') + static_cast<int>(i));
    }
    return codes;
  }

  // Law: what is unmasked is the plain sum of those that the contributors have signed.
  void CheckSum(const std::string& peer) {
    std::vector<uint32_t> sum(kSwarmElements);
    std::vector<uint32_t> plain(kSwarmElements);
    for (const std::string& one : duties_[peer]->contributors()) {
      AddRing(ring_, sent_.at(one), absl::MakeSpan(sum));
      AddRing(ring_, Codes(one), absl::MakeSpan(plain));
    }
    RemoveMasks(ring_, duties_[peer]->masks(), 0, absl::MakeSpan(sum));
    EXPECT_EQ(sum, plain);
    EXPECT_GE(duties_[peer]->contributors().size(), kSwarmThreshold);
    unmasked_ = true;
  }

  // The exchange: who is there has sent its update, and all have come to the same.
  void Sum() {
    summed_.insert(revision_);
    v1::MaskedSum sum;
    sum.set_revision(revision_);
    sum.set_payload_digest(std::string(32, 'd'));
    sum.set_ragged(Chance(20));
    for (const std::string& one : sums_.masked()) {
      if (duties_[one] == nullptr || masked_.count(one) == 0) continue;
      sent_[one] = masked_[one];
      sum.add_contributors(one);
    }
    for (const std::string& one : sums_.masked()) {
      if (duties_[one] == nullptr) continue;
      for (const v1::MaskFromParty& message : duties_[one]->Summed(sum).sends) {
        up_[one].push_back(message);
      }
    }
  }

  const RingForm ring_{4, kSwarmParties};
  std::mt19937 random_;
  absl::Time now_ = absl::UnixEpoch();
  std::vector<SigningKey> keys_;
  MaskedSums sums_;
  uint64_t drawn_ = 0;
  std::map<std::string, std::unique_ptr<MaskDuty>> duties_;  // null: it is dead
  std::map<std::string, std::deque<v1::MaskToParty>> down_;
  std::map<std::string, std::deque<v1::MaskFromParty>> up_;
  std::map<std::string, std::vector<uint32_t>> masked_, sent_;
  std::map<std::pair<uint64_t, std::string>, bool> revealed_;
  v1::MaskRoster roster_;  // of the newest attempt
  uint32_t revision_ = 0;
  std::set<uint32_t> summed_;
  bool unmasked_ = false;
  int discarded_ = 0;
};

// Broken: in some order of events an attempt would never end, a sum be another than the plain one,
// or a party reveal both secrets of another.
TEST(MaskedSwarmTest, EachAttemptEndsWithTheSumOrIsDiscarded) {
  int unmasked = 0;
  int discarded = 0;
  for (uint32_t seed = 1; seed <= 24; ++seed) {
    SCOPED_TRACE(seed);
    MaskedSwarm swarm(seed);
    swarm.Run(2);
    unmasked += swarm.unmasked() ? 1 : 0;
    discarded += swarm.discarded();
  }
  // Both ends are seen, or the events are too mild or too wild to show anything.
  EXPECT_GT(unmasked, 3);
  EXPECT_GT(discarded, 3);
}

}  // namespace
}  // namespace atolld
