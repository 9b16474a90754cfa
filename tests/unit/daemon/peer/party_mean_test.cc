#include "daemon/peer/party_mean.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <vector>

#include "daemon/peer/party_draw.h"

namespace atolld {
namespace {

// Numbers with many bits, the same on every machine.
std::vector<float> PartyValues(uint64_t seed, size_t count) {
  std::vector<float> values(count);
  uint64_t z = seed * 0x9e3779b97f4a7c15u + 1;
  for (float& value : values) {
    z = z * 6364136223846793005u + 1442695040888963407u;
    value = (static_cast<float>(z >> 40) / 8388608.0f - 1.0f) * 0.01f;
  }
  return values;
}

struct TestParty {
  double weight;
  uint32_t steps;
  std::vector<float> update;
};

std::vector<TestParty> TestParties(size_t count, uint64_t seed) {
  std::vector<TestParty> parties;
  for (size_t i = 0; i < count; ++i) {
    parties.push_back({100.0 + 37.0 * static_cast<double>((i * 7 + seed) % 23),
                       static_cast<uint32_t>(1 + (i * 5 + seed) % 11),
                       PartyValues(seed * 1000 + i, 1003)});
  }
  return parties;
}

PartyMean MeanOfParties(const std::vector<TestParty>& parties, bool normalised) {
  PartyMean mean(normalised);
  for (const TestParty& party : parties) mean.Add(party.weight, party.steps, party.update);
  return mean;
}

bool SameFloats(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

TEST(PartyMean, WeightsThatNoFloatHoldsAreCountedInALargerUnit) {
  // Broken: a party's loss to the power of 60 would make the host's update infinite, or leave every
  // party out.
  std::vector<TestParty> parties = TestParties(5, 3);
  for (const bool normalised : {false, true}) {
    std::vector<float> expected(1003), made(1003);
    MeanOfParties(parties, normalised).Write(absl::MakeSpan(expected));
    for (const int exponent : {200, -200, 600}) {
      std::vector<TestParty> scaled = parties;
      for (TestParty& party : scaled) party.weight = std::ldexp(party.weight, exponent);
      const PartyMean mean = MeanOfParties(scaled, normalised);
      EXPECT_TRUE(std::isfinite(mean.weight()));
      mean.Write(absl::MakeSpan(made));
      for (size_t i = 0; i < made.size(); ++i) ASSERT_NEAR(made[i], expected[i], 1e-8);
    }
  }
  // The small ones vanish beside it, whichever comes first.
  TestParty large = parties[0];
  large.weight = std::ldexp(1.0, 300);
  for (const bool first : {true, false}) {
    PartyMean mean(false);
    if (first) mean.Add(large.weight, 1, large.update);
    mean.Add(3, 1, parties[1].update);
    if (!first) mean.Add(large.weight, 1, large.update);
    std::vector<float> made(1003);
    mean.Write(absl::MakeSpan(made));
    for (size_t i = 0; i < made.size(); ++i) ASSERT_NEAR(made[i], large.update[i], 1e-8);
  }
}

TEST(PartyMean, IsItsFormulaBitForBit) {
  // Broken: what a host contributes would not be what the documents say, and nobody could check it.
  const std::vector<TestParty> parties = TestParties(17, 3);
  for (const bool normalised : {false, true}) {
    const PartyMean mean = MeanOfParties(parties, normalised);
    std::vector<float> made(1003);
    mean.Write(absl::MakeSpan(made));

    double weights = 0, steps = 0;
    for (const TestParty& party : parties) {
      weights += party.weight;
      steps += party.steps;
    }
    std::vector<float> wanted(1003, 0.0f);
    for (size_t i = 0; i < wanted.size(); ++i) {
      for (const TestParty& party : parties) {
        const float factor =
            static_cast<float>(normalised ? party.weight / party.steps : party.weight);
        const volatile float part = factor * party.update[i];
        const volatile float sum = wanted[i] + part;
        wanted[i] = sum;
      }
      const float finish = static_cast<float>((normalised ? steps / 17.0 : 1.0) / weights);
      wanted[i] = wanted[i] * finish;
    }
    EXPECT_TRUE(SameFloats(made, wanted)) << normalised;
    EXPECT_EQ(mean.weight(), weights);
    EXPECT_EQ(mean.steps(), static_cast<uint64_t>(steps));
  }
}

// The run's mean over the hosts' contributions, in fp32 as docs/protocol.md has it; with FedNova
// each is brought to the run's number of steps first.
std::vector<float> MeanOfHosts(const std::vector<std::vector<TestParty>>& hosts, bool normalised) {
  double all = 0, tau = 0;
  for (const auto& host : hosts) {
    const PartyMean mean = MeanOfParties(host, normalised);
    all += mean.weight();
    tau += mean.weight() * static_cast<double>(mean.steps()) / static_cast<double>(mean.parties());
  }
  tau /= all;
  std::vector<float> sum(1003, 0.0f);
  for (const auto& host : hosts) {
    const PartyMean mean = MeanOfParties(host, normalised);
    std::vector<float> update(1003);
    mean.Write(absl::MakeSpan(update));
    const double own = static_cast<double>(mean.steps()) / static_cast<double>(mean.parties());
    const float factor = static_cast<float>(mean.weight() * (normalised ? tau / own : 1.0));
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += factor * update[i];
  }
  const float finish = static_cast<float>(1.0 / all);
  for (float& value : sum) value *= finish;
  return sum;
}

TEST(PartyMean, TwoLevelsAreTheFlatMean) {
  // Broken: a thousand parties on two machines would train another model than a thousand peers.
  const std::vector<std::vector<TestParty>> hosts = {TestParties(40, 1), TestParties(7, 2),
                                                     TestParties(1, 5)};
  const std::vector<float> two_levels = MeanOfHosts(hosts, /*normalised=*/false);
  double weights = 0;
  std::vector<double> flat(1003, 0.0), lengths(1003, 0.0);
  for (const auto& host : hosts) {
    for (const TestParty& party : host) {
      weights += party.weight;
      for (size_t i = 0; i < flat.size(); ++i) {
        flat[i] += party.weight * double{party.update[i]};
        lengths[i] += party.weight * std::abs(double{party.update[i]});
      }
    }
  }
  // Each of the 40 + 3 additions, and each product, rounds once.
  constexpr double kRounding = 64 * 5.97e-8;
  for (size_t i = 0; i < flat.size(); ++i) {
    ASSERT_NEAR(two_levels[i], flat[i] / weights, kRounding * lengths[i] / weights) << i;
  }
}

TEST(PartyMean, NormalisedItIsTheDirectionOfFedNova) {
  // Broken: a party that does ten times the steps would pull ten times as far, behind a host alone.
  const std::vector<std::vector<TestParty>> hosts = {TestParties(9, 1), TestParties(5, 2)};
  const std::vector<float> two_levels = MeanOfHosts(hosts, /*normalised=*/true);
  double weights = 0, tau = 0;
  std::vector<double> flat(1003, 0.0);
  for (const auto& host : hosts) {
    const PartyMean mean = MeanOfParties(host, true);
    tau += mean.weight() * static_cast<double>(mean.steps()) / static_cast<double>(mean.parties());
    for (const TestParty& party : host) {
      weights += party.weight;
      for (size_t i = 0; i < flat.size(); ++i) {
        flat[i] += party.weight * double{party.update[i]} / party.steps;
      }
    }
  }
  for (size_t i = 0; i < flat.size(); ++i) {
    ASSERT_NEAR(two_levels[i], flat[i] / weights * tau / weights, 1e-7) << i;
  }
}

TEST(PartyDraw, IsByTheSeedTheVersionAndTheNumberAlone) {
  // Broken: a run that is begun again, or a second host, would draw others than the record says.
  const PartyDraw draw{kTrainDraw, 7, 12, 1, 1000, 20};
  const std::vector<uint32_t> drawn = DrawParties(draw, nullptr);
  EXPECT_EQ(drawn.size(), 20u);
  EXPECT_TRUE(std::is_sorted(drawn.begin(), drawn.end()));
  EXPECT_EQ(DrawParties(draw, nullptr), drawn);
  PartyDraw other = draw;
  other.version = 13;
  EXPECT_NE(DrawParties(other, nullptr), drawn);
  other = draw;
  other.domain = kEvaluateDraw;
  EXPECT_NE(DrawParties(other, nullptr), drawn);
  // Of a part of them the same are drawn, as far as they are in it.
  PartyDraw part = draw;
  part.first = 501;
  part.hosted = 500;
  const std::vector<uint32_t> upper = DrawParties(part, nullptr);
  for (const uint32_t party : drawn) {
    const bool found = std::binary_search(upper.begin(), upper.end(), party);
    EXPECT_TRUE(party <= 500 || found) << party;
  }
}

TEST(PartyDraw, WhoIsAwayIsNotDrawn) {
  // Broken: the round would wait for a party that is not there, or fewer would train than could.
  const std::function<bool(uint32_t)> even = [](uint32_t party) { return party % 2 == 0; };
  const std::vector<uint32_t> drawn = DrawParties({kTrainDraw, 1, 1, 1, 100, 30}, even);
  EXPECT_EQ(drawn.size(), 30u);
  for (const uint32_t party : drawn) EXPECT_EQ(party % 2, 0u);
  EXPECT_EQ(DrawParties({kTrainDraw, 1, 1, 1, 100, 80}, even).size(), 50u);
  EXPECT_EQ(DrawParties({kTrainDraw, 1, 1, 1, 100, 0}, even).size(), 50u);
}

TEST(PartyDraw, NoMoreThanAShareOfThoseThatAreThere) {
  // Broken: where a trace leaves few, each would be in more rounds than epsilon counts.
  PartyDraw draw{kTrainDraw, 1, 1, 1, 500, 10};
  draw.share = double{0.02f};
  EXPECT_EQ(DrawParties(draw, nullptr).size(), 10u);
  EXPECT_EQ(DrawParties(draw, [](uint32_t party) { return party <= 160; }).size(), 3u);
  EXPECT_EQ(DrawParties(draw, [](uint32_t party) { return party <= 49; }).size(), 0u);
  draw.count = 0;
  EXPECT_EQ(DrawParties(draw, nullptr).size(), 10u);
  EXPECT_EQ(MostDrawn(50, double{0.02f}), 1u);
  EXPECT_EQ(MostDrawn(7, 1), 7u);
}

TEST(PartyDraw, EveryPartyHasItsTurn) {
  // Broken: some parties' data would never be trained on. 400 draws of 10 from 100: 40 each, with a
  // standard deviation of 6.
  std::vector<int> times(100, 0);
  for (uint64_t version = 1; version <= 400; ++version) {
    for (const uint32_t party : DrawParties({kTrainDraw, 3, version, 1, 100, 10}, nullptr)) {
      ++times[party - 1];
    }
  }
  EXPECT_GT(*std::min_element(times.begin(), times.end()), 15);
  EXPECT_LT(*std::max_element(times.begin(), times.end()), 70);
}

}  // namespace
}  // namespace atolld
