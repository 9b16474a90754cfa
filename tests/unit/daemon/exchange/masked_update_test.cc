// Masked updates through what an exchange does with chunks: the same sum by reducers and relays,
// and the mean that comes out.
#include "daemon/exchange/masked_update.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "compression/base/bitmap.h"
#include "compression/ring_sum_codec.h"
#include "membership/masking/mask_round.h"

namespace atolld {
namespace {

constexpr uint32_t kMaskedParties = 5;
constexpr uint64_t kMaskedElements = 10000;

std::string MaskedName(uint32_t party) { return std::string("party-") + std::to_string(party); }

std::vector<float> MaskedValues(uint32_t party) {
  std::mt19937 random(party + 1);
  std::vector<float> values(kMaskedElements);
  for (float& value : values) {
    value = (static_cast<float>(random() % 20001) - 10000.0F) * 1e-6F;
  }
  return values;
}

// Five parties whose handshake is done, and what they send.
class MaskedSum {
 public:
  MaskedSum() : round_(Attempt(), MaskRosterRule()) {
    for (uint32_t i = 0; i < kMaskedParties; ++i) {
      keys_.push_back(SigningKey::FromSeed(std::string(32, static_cast<char>(i + 1))).value());
    }
    for (uint32_t i = 0; i < kMaskedParties; ++i) {
      const MaskSecret secret =
          MaskSecret::FromBytes(std::string(32, static_cast<char>(50 + i))).value();
      parties_.push_back(std::make_unique<MaskParty>(Attempt(), MaskedName(i), &keys_[i],
                                                     MaskRosterRule(), KnownSigningKeys(), secret));
      EXPECT_TRUE(round_.OnKeys(MaskedName(i), parties_[i]->keys()).ok());
    }
    const v1::MaskRoster roster = round_.FreezeRoster().value();
    for (uint32_t i = 0; i < kMaskedParties; ++i) {
      EXPECT_TRUE(round_.OnShares(MaskedName(i), parties_[i]->OnRoster(roster).value()).ok());
    }
    const auto deliveries = round_.FreezeMasking().value();
    for (const auto& [name, delivery] : deliveries) {
      EXPECT_TRUE(parties_[name.back() - '0']->OnDelivery(delivery).ok());
    }
    v1::RunSpec spec;
    spec.mutable_inner()->set_learning_rate(1e-3);
    spec.mutable_inner()->set_steps(10);
    terms_ = MaskedTermsOf(spec, Attempt());
    steps_ = FirstRingSteps(terms_.ring, kMaskedElements, terms_.first_range);
  }

  v1::MaskAttempt Attempt() const {
    v1::MaskAttempt attempt;
    attempt.set_run_id("masked");
    attempt.set_version(1);
    attempt.set_attempt(1);
    attempt.set_weight_exponent(WeightExponentOf(weights_));
    return attempt;
  }

  Contribution Masked(uint32_t party) const {
    return MaskContribution(grid_, terms_, steps_, MaskedValues(party), weights_[party], Rounding(),
                            *parties_[party])
        .value()
        .contribution;
  }

  // As a reducer averages a chunk of these pieces.
  Reduced Average(uint32_t chunk, const std::vector<Piece>& pieces, bool partial) const {
    MeanTerms terms;
    terms.weights = weights_;
    terms.scales.assign(weights_.size(), 1.0F);
    Reduced reduced;
    const absl::Status status =
        Reduce(form_, form_, MeanPlace{1, chunk, partial}, grid_.Elements(chunk), terms, pieces,
               std::nullopt, &reduced);
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_TRUE(reduced.refused.empty());
    return reduced;
  }

  std::vector<LeftMask> Unmask(const std::vector<uint32_t>& contributors) {
    std::set<std::string> complete;
    for (const uint32_t party : contributors) complete.insert(MaskedName(party));
    const v1::MaskFrozen frozen = round_.FreezeContributors(complete).value();
    for (const uint32_t party : contributors) {
      const v1::MaskAgreed agreed = parties_[party]->OnFrozen(frozen).value();
      EXPECT_TRUE(round_.OnAgreed(MaskedName(party), agreed).ok());
    }
    const v1::UnmaskRequest request = round_.FreezeConsent().value();
    for (const uint32_t party : contributors) {
      const v1::UnmaskShares shares = parties_[party]->OnRequest(request).value();
      EXPECT_TRUE(round_.OnUnmaskShares(MaskedName(party), shares).ok());
    }
    return LeftMasks(round_.roster(), round_.Finish().value()).value();
  }

  const ChunkGrid grid_{kMaskedElements, 4096};
  const std::vector<float> weights_ = {100, 250, 40, 160, 90};
  const ChunkForm form_{&MaskedSumCodec(), false};
  MaskedTerms terms_;
  RingSteps steps_;

 private:
  std::vector<SigningKey> keys_;
  std::vector<std::unique_ptr<MaskParty>> parties_;
  MaskRound round_;
};

Piece OwnPiece(const Contribution& contribution, uint32_t party, uint32_t chunk) {
  return Piece{party, SingleBit(kMaskedParties, party), false, contribution.chunks[chunk],
               true,  contribution.digests[chunk],      0.0};
}

// Broken: a run with masks would train on something else than the weighted mean of the updates, or
// a party that dropped out would stay in it.
TEST(MaskedUpdateTest, MeanOfThoseWhoAreInIsWithinItsBound) {
  MaskedSum sum;
  const std::vector<uint32_t> contributors = {0, 1, 3, 4};
  std::vector<Contribution> given;
  for (uint32_t i = 0; i < kMaskedParties; ++i) given.push_back(sum.Masked(i));
  std::vector<SharedBytes> sums;
  for (uint32_t c = 0; c < sum.grid_.chunks(); ++c) {
    std::vector<Piece> pieces;
    for (const uint32_t party : contributors) pieces.push_back(OwnPiece(given[party], party, c));
    sums.push_back(sum.Average(c, pieces, false).encoded);
  }
  const std::vector<LeftMask> masks = sum.Unmask(contributors);
  const Codec& fp32 = **FindCodec("fp32");
  const ChunkForm means{&fp32, false};
  std::vector<float> weights;
  for (const uint32_t party : contributors) weights.push_back(sum.weights_[party]);
  const auto unmasked =
      UnmaskMean(sum.grid_, sum.terms_, sum.steps_, JoinPayload(sums), masks, weights, means, 1);
  ASSERT_TRUE(unmasked.ok()) << unmasked.status();
  const auto chunks = SplitPayload(sum.grid_, fp32, unmasked->payload).value();
  const double total = RingWeightSum(sum.terms_, weights);
  const double bound = 4 * std::ldexp(1.0, sum.steps_[0]) / 2 / total;
  std::vector<std::vector<float>> values;
  for (const uint32_t party : contributors) values.push_back(MaskedValues(party));
  for (uint32_t c = 0; c < sum.grid_.chunks(); ++c) {
    std::vector<float> mean(sum.grid_.Elements(c));
    ASSERT_TRUE(fp32.Decode(chunks[c].span(), absl::MakeSpan(mean)).ok());
    for (size_t i = 0; i < mean.size(); ++i) {
      double exact = 0;
      double all = 0;
      for (size_t p = 0; p < weights.size(); ++p) {
        exact += static_cast<double>(weights[p]) * values[p][sum.grid_.Offset(c) + i];
        all += weights[p];
      }
      ASSERT_NEAR(mean[i], exact / all, bound + 1e-9);
    }
  }
  EXPECT_GT(unmasked->squared_mean, 0);
  EXPECT_EQ(unmasked->digest, TreeDigest(unmasked->payload.span()));
}

// Broken: a region that averages first would come to another sum than one reducer alone.
TEST(MaskedUpdateTest, RelaysSumAsReducersDo) {
  MaskedSum sum;
  std::vector<Contribution> given;
  for (uint32_t i = 0; i < kMaskedParties; ++i) given.push_back(sum.Masked(i));
  std::vector<Piece> all;
  for (uint32_t i = 0; i < kMaskedParties; ++i) all.push_back(OwnPiece(given[i], i, 2));
  const Reduced flat = sum.Average(2, all, false);
  const Reduced group = sum.Average(2, {all[1], all[2], all[4]}, true);
  const Piece partial{1, group.contributors, true, group.wire, true};
  const Reduced two_levels = sum.Average(2, {all[0], partial, all[3]}, false);
  EXPECT_EQ(flat.encoded.str(), two_levels.encoded.str());
  EXPECT_EQ(flat.contributors, two_levels.contributors);
}

// Broken: an update would be masked in part, or a config could name the ring as a codec.
TEST(MaskedUpdateTest, RefusesWhatIsNoUpdateAndIsNoCodecOfConfigs) {
  MaskedSum sum;
  EXPECT_FALSE(FindCodec("ring32").ok());
  std::vector<uint8_t> out(64);
  EXPECT_FALSE(MaskedSumCodec().Encode(std::vector<float>(4), absl::MakeSpan(out)).ok());
  EXPECT_FALSE(MaskedSumCodec().Check(std::vector<uint8_t>(15), 4).ok());
  EXPECT_TRUE(MaskedSumCodec().Check(std::vector<uint8_t>(16), 4).ok());
  std::vector<float> values(kMaskedElements - 1);
  SigningKey key = SigningKey::FromSeed(std::string(32, 'k')).value();
  const MaskParty alone(sum.Attempt(), "alone", &key, MaskRosterRule(), KnownSigningKeys(),
                        MaskSecret());
  EXPECT_EQ(MaskContribution(sum.grid_, sum.terms_, sum.steps_, values, 1, Rounding(), alone)
                .status()
                .code(),
            absl::StatusCode::kInvalidArgument);
  values.push_back(0);
  EXPECT_EQ(MaskContribution(sum.grid_, sum.terms_, sum.steps_, values, 1, Rounding(), alone)
                .status()
                .code(),
            absl::StatusCode::kFailedPrecondition);
}

// Broken: a weight would count more than its share, or the largest lose bits for nothing.
TEST(MaskedUpdateTest, WeightsCountUpToOne) {
  MaskedTerms terms;
  terms.weight_exponent = WeightExponentOf({100, 250, 40});
  EXPECT_EQ(terms.weight_exponent, 8);
  EXPECT_EQ(RingWeight(terms, 256), 1.0F);
  EXPECT_EQ(RingWeight(terms, 300), 1.0F);
  EXPECT_EQ(RingWeight(terms, 64), 0.25F);
  EXPECT_EQ(WeightExponentOf({1, 1}), 0);
  EXPECT_EQ(WeightExponentOf({0.25F}), -2);
  EXPECT_EQ(RingWeightSum(terms, {128, 64}), 0.75);
}

}  // namespace
}  // namespace atolld
