// Would break: a scheme deals otherwise than its name and its source say, or loses samples.
#include "daemon/experiment/partition/partitioner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "daemon/experiment/partition/keyed_draws.h"
#include "daemon/experiment/partition/partition_report.h"

namespace atolld {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::Le;

// `counts` samples of each label, in mixed order, with numbers 0, 1, 2 ...
SampleSet LabelledSamples(const std::vector<size_t>& counts) {
  SampleSet set;
  std::vector<uint32_t> labels;
  for (uint32_t label = 0; label < counts.size(); ++label) {
    set.labels.push_back("label" + std::to_string(label));
    labels.insert(labels.end(), counts[label], label);
  }
  KeyedDraws(99, "test").Shuffle(&labels);
  for (size_t i = 0; i < labels.size(); ++i) {
    Sample sample;
    sample.begin = 2 * i;
    sample.bytes = 2;
    sample.label = labels[i];
    sample.number = static_cast<double>(i);
    set.samples.push_back(sample);
    set.bytes += "x\n";
  }
  return set;
}

PartitionSettings Scheme(const std::string& scheme, uint32_t parties) {
  PartitionSettings settings;
  settings.scheme = scheme;
  settings.parties = parties;
  settings.validation = 0;
  return settings;
}

Assignment Deal(const PartitionSettings& settings, const SampleSet& set) {
  absl::StatusOr<Assignment> dealt = AssignSamples(settings, set);
  EXPECT_TRUE(dealt.ok()) << dealt.status();
  return dealt.ok() ? *std::move(dealt) : Assignment();
}

std::vector<uint64_t> SizesOf(const Assignment& assignment) {
  std::vector<uint64_t> sizes;
  for (const auto& party : assignment.parties) sizes.push_back(party.size());
  return sizes;
}

std::vector<uint64_t> LabelCounts(const SampleSet& set, const std::vector<uint32_t>& party) {
  std::vector<uint64_t> counts(set.labels.size());
  for (const uint32_t sample : party) ++counts[set.samples[sample].label];
  return counts;
}

void ExpectWhole(const SampleSet& set, const Assignment& assignment) {
  std::vector<uint32_t> all = assignment.validation;
  for (const auto& party : assignment.parties) {
    EXPECT_TRUE(std::is_sorted(party.begin(), party.end()));
    all.insert(all.end(), party.begin(), party.end());
  }
  std::sort(all.begin(), all.end());
  EXPECT_TRUE(std::adjacent_find(all.begin(), all.end()) == all.end()) << "two have one sample";
  uint64_t left_over = 0;
  for (const LeftOver& group : assignment.left_over) left_over += group.samples;
  EXPECT_EQ(all.size() + left_over, set.samples.size());
}

TEST(PartitionerTest, EverySchemeDealsEachSampleOnceAndAgainInTheSameWay) {
  // Broken: data leaks from one party to another, vanishes, or a seed does not repeat an
  // experiment.
  const SampleSet set = LabelledSamples({900, 500, 300, 200, 150, 101});
  for (const std::string& scheme : PartitionSchemes()) {
    SCOPED_TRACE(scheme);
    PartitionSettings settings = Scheme(scheme, 5);
    settings.validation = 0.1;
    const Assignment first = Deal(settings, set);
    ExpectWhole(set, first);
    EXPECT_EQ(first.validation.size(), 215u);
    EXPECT_EQ(Deal(settings, set).parties, first.parties);
    settings.seed = 2;
    EXPECT_NE(Deal(settings, set).parties, first.parties);
  }
}

TEST(PartitionerTest, IidPartsAreEqualAndAlike) {
  // Broken: the baseline of every experiment is skewed.
  const SampleSet set = LabelledSamples({5000, 3000, 2003});
  const Assignment dealt = Deal(Scheme("iid", 10), set);
  EXPECT_THAT(SizesOf(dealt), Each(AllOf(Ge(1000u), Le(1001u))));
  double chi_square = 0;
  for (const auto& party : dealt.parties) {
    const std::vector<uint64_t> counts = LabelCounts(set, party);
    for (size_t label = 0; label < counts.size(); ++label) {
      const double expected =
          static_cast<double>(party.size()) * std::vector<double>{5000, 3000, 2003}[label] / 10003;
      const double off = static_cast<double>(counts[label]) - expected;
      chi_square += off * off / expected;
    }
  }
  EXPECT_LT(chi_square, 42.3);  // (10 - 1)(3 - 1) degrees of freedom: 0.1 % lie above
}

TEST(PartitionerTest, SizesFollowTheirLaw) {
  // Broken: "linear" parties are not in proportion to 1, 2, 3 ...
  const SampleSet set = LabelledSamples({6000});
  const std::vector<uint64_t> linear = SizesOf(Deal(Scheme("linear", 4), set));
  EXPECT_EQ(linear, (std::vector<uint64_t>{600, 1200, 1800, 2400}));
  const std::vector<uint64_t> square = SizesOf(Deal(Scheme("square", 4), set));
  EXPECT_EQ(square, (std::vector<uint64_t>{200, 800, 1800, 3200}));
  const std::vector<uint64_t> exponential = SizesOf(Deal(Scheme("exponential", 5), set));
  for (size_t i = 1; i < exponential.size(); ++i) {
    EXPECT_NEAR(static_cast<double>(exponential[i]),
                static_cast<double>(exponential[i - 1]) * std::exp(1), 4);
  }
}

TEST(PartitionerTest, LogNormalSizesHaveTheirSpread) {
  // Broken: sigma is another number than the standard deviation of the sizes' logarithms.
  const SampleSet set = LabelledSamples({400000});
  PartitionSettings settings = Scheme("log_normal", 1000);
  settings.sigma = 0.7;
  double sum = 0, squares = 0;
  for (const uint64_t size : SizesOf(Deal(settings, set))) {
    const double log = std::log(static_cast<double>(size));
    sum += log;
    squares += log * log;
  }
  EXPECT_NEAR(std::sqrt(squares / 1000 - sum * sum / 1e6), 0.7, 0.06);
}

TEST(PartitionerTest, DirichletSharesHaveTheirMoments) {
  // Broken: alpha is not the one of the papers. Of a label's samples a party has the share 1/k in
  // the mean, with the variance (1/k)(1 - 1/k) / (k alpha + 1).
  const std::vector<size_t> counts(40, 5000);
  const SampleSet set = LabelledSamples(counts);
  for (const double alpha : {0.1, 1.0, 100.0}) {
    PartitionSettings settings = Scheme("dirichlet", 8);
    settings.alpha = alpha;
    const Assignment dealt = Deal(settings, set);
    double squares = 0;
    for (const auto& party : dealt.parties) {
      for (const uint64_t count : LabelCounts(set, party)) {
        const double off = static_cast<double>(count) / 5000 - 1.0 / 8;
        squares += off * off;
      }
    }
    const double variance = 1.0 / 8 * 7.0 / 8 / (8 * alpha + 1);
    EXPECT_NEAR(squares / (8 * 40) / variance, 1, 0.25) << alpha;
  }
}

TEST(PartitionerTest, DirichletIsDrawnAgainUntilAllHaveEnough) {
  // Broken: a party trains on nothing, or a setting that cannot be met never ends.
  const SampleSet set = LabelledSamples({200, 200, 200});
  PartitionSettings settings = Scheme("dirichlet", 6);
  settings.alpha = 0.3;
  settings.min_samples = 20;
  const Assignment dealt = Deal(settings, set);
  EXPECT_THAT(SizesOf(dealt), Each(Ge(20u)));
  EXPECT_GT(dealt.draws, 1u);
  settings.alpha = 0.001;
  settings.min_samples = 90;
  EXPECT_THAT(std::string(AssignSamples(settings, set).status().message()),
              HasSubstr("take a larger alpha"));
  settings.min_samples = 101;
  EXPECT_THAT(std::string(AssignSamples(settings, set).status().message()),
              HasSubstr("6 parties of at least 101 samples need 606, and there are 600"));
}

TEST(PartitionerTest, BalanceBoundsAParty) {
  // Broken: with `balance` a party that has its mean share still gets more labels.
  const std::vector<size_t> counts(50, 40);
  const SampleSet set = LabelledSamples(counts);
  PartitionSettings settings = Scheme("dirichlet", 10);
  settings.alpha = 0.1;
  settings.min_samples = 1;
  settings.balance = true;
  // One label at most beyond the mean of 200.
  EXPECT_THAT(SizesOf(Deal(settings, set)), Each(Le(200u + 40u)));
}

TEST(PartitionerTest, InnerDirichletKeepsSizesAndMixes) {
  // Broken: sizes differ where they are given, or a party's mix is not Dirichlet's. A draw of
  // Dir(alpha) over L labels has the mean sum of squares (alpha + 1) / (L alpha + 1).
  const SampleSet set = LabelledSamples(std::vector<size_t>(5, 20000));
  PartitionSettings settings = Scheme("inner_dirichlet", 400);
  settings.alpha = 0.5;
  settings.validation = 0.5;
  const Assignment dealt = Deal(settings, set);
  EXPECT_THAT(SizesOf(dealt), Each(125u));
  double squares = 0;
  for (const auto& party : dealt.parties) {
    for (const uint64_t count : LabelCounts(set, party)) {
      squares += std::pow(static_cast<double>(count) / 125, 2) / 400;
    }
  }
  // The last samples come from what is left, so the mixes are somewhat flatter.
  EXPECT_NEAR(squares, 1.5 / 3.5, 0.06);
  settings.sizes = "linear";
  settings.parties = 4;
  EXPECT_EQ(SizesOf(Deal(settings, set)), (std::vector<uint64_t>{5000, 10000, 15000, 20000}));
}

TEST(PartitionerTest, ShardsHoldFewLabelsAndNameTheRest) {
  // Broken: a party of two shards has more labels than two shards can hold, or a remainder is lost.
  const SampleSet set = LabelledSamples(std::vector<size_t>(10, 601));
  PartitionSettings settings = Scheme("shards", 100);
  const Assignment dealt = Deal(settings, set);
  EXPECT_THAT(SizesOf(dealt), Each(60u));
  ASSERT_EQ(dealt.left_over.size(), 1u);
  EXPECT_EQ(dealt.left_over[0].samples, 10u);
  ExpectWhole(set, dealt);
  for (const auto& party : dealt.parties) {
    const std::vector<uint64_t> counts = LabelCounts(set, party);
    EXPECT_LE(std::count_if(counts.begin(), counts.end(), [](uint64_t n) { return n > 0; }), 4);
  }
}

TEST(PartitionerTest, PathologicalGivesEachPartyItsNumberOfLabels) {
  // Broken: parties have more or fewer labels than `classes`, or a label's parts are unequal.
  const SampleSet set = LabelledSamples(std::vector<size_t>(10, 300));
  PartitionSettings settings = Scheme("pathological", 20);
  settings.classes = 3;
  const Assignment dealt = Deal(settings, set);
  ExpectWhole(set, dealt);
  EXPECT_TRUE(dealt.left_over.empty());  // party i has label i mod 10
  std::vector<uint64_t> fewest(10, 1000), most(10, 0);
  for (const auto& party : dealt.parties) {
    const std::vector<uint64_t> counts = LabelCounts(set, party);
    EXPECT_EQ(std::count_if(counts.begin(), counts.end(), [](uint64_t n) { return n > 0; }), 3);
    for (size_t label = 0; label < counts.size(); ++label) {
      if (counts[label] == 0) continue;
      fewest[label] = std::min(fewest[label], counts[label]);
      most[label] = std::max(most[label], counts[label]);
    }
  }
  for (size_t label = 0; label < 10; ++label) EXPECT_LE(most[label] - fewest[label], 1u);
  settings.parties = 2;
  settings.classes = 2;
  const Assignment few = Deal(settings, set);
  ASSERT_EQ(few.left_over.size(), 1u) << "labels that nobody has are named";
  ExpectWhole(set, few);
}

TEST(PartitionerTest, KeysStayTogether) {
  // Broken: a speaker's lines lie with two parties.
  const SampleSet set = LabelledSamples({50, 3, 20, 7, 90, 11});
  PartitionSettings settings = Scheme("key", 0);
  settings.min_samples = 5;
  const Assignment by_key = Deal(settings, set);
  EXPECT_EQ(by_key.names,
            (std::vector<std::string>{"label0", "label2", "label3", "label4", "label5"}));
  EXPECT_EQ(by_key.left_over[0].samples, 3u);
  settings.parties = 2;
  EXPECT_EQ(Deal(settings, set).names, (std::vector<std::string>{"label0", "label4"}));

  const Assignment grouped = Deal(Scheme("grouped_key", 4), set);
  ExpectWhole(set, grouped);
  std::set<uint32_t> seen;
  for (const auto& party : grouped.parties) {
    std::set<uint32_t> own;
    for (const uint32_t sample : party) own.insert(set.samples[sample].label);
    EXPECT_THAT(own.size(), AllOf(Ge(1u), Le(2u)));
    for (const uint32_t label : own) EXPECT_TRUE(seen.insert(label).second);
  }
}

TEST(PartitionerTest, ContinuousGoesFromChanceToOrder) {
  // Broken: sigma does not say how strictly parties follow the number. Parties' mean ranks against
  // their number: 1 in order, about 0 by chance.
  const SampleSet set = LabelledSamples({5000});
  PartitionSettings settings = Scheme("continuous", 10);
  std::vector<double> slopes;
  for (const double sigma : {0.0, 0.5, 1.0}) {
    settings.sigma = sigma;
    const Assignment dealt = Deal(settings, set);
    double slope = 0;
    for (size_t party = 0; party < 10; ++party) {
      double mean = 0;
      for (const uint32_t sample : dealt.parties[party]) mean += set.samples[sample].number / 500;
      slope += (static_cast<double>(party) - 4.5) * mean / 82.5 / 500;
    }
    slopes.push_back(slope);
  }
  EXPECT_NEAR(slopes[0], 0, 0.1);
  EXPECT_NEAR(slopes[1], 0.7,
              0.12);  // of equal parts of signal and noise the correlation is 2^-1/2
  EXPECT_NEAR(slopes[2], 1, 1e-9);
}

TEST(PartitionerTest, WhatCannotBeDealtSaysWhatHelps) {
  // Broken: a party without data, or a message without a way out.
  const SampleSet set = LabelledSamples({20, 2});
  PartitionSettings settings = Scheme("pathological", 9);
  EXPECT_THAT(std::string(AssignSamples(settings, set).status().message()),
              HasSubstr("label 'label1' has 2 samples for 9 parties"));
  settings.classes = 3;
  EXPECT_THAT(std::string(AssignSamples(settings, set).status().message()),
              HasSubstr("classes is 3, and there are 2 labels"));
  EXPECT_THAT(std::string(AssignSamples(Scheme("exponential", 12), set).status().message()),
              HasSubstr("take fewer parties"));
  EXPECT_THAT(std::string(AssignSamples(Scheme("key", 3), set).status().message()),
              HasSubstr("parties is 3, and 2 keys"));
}

TEST(PartitionerTest, TenThousandPartiesTakeSeconds) {
  // Broken: a partition of a large federation takes longer than its training.
  const SampleSet set = LabelledSamples(std::vector<size_t>(20, 20000));
  PartitionSettings settings = Scheme("inner_dirichlet", 10000);
  ExpectWhole(set, Deal(settings, set));
  settings.scheme = "dirichlet";
  settings.min_samples = 1;
  settings.alpha = 1;
  ExpectWhole(set, Deal(settings, set));
}

TEST(PartitionReportTest, MeasuresAreThoseOfTheirFormulas) {
  // Broken: the table says that parties are alike that are not.
  const SampleSet set = LabelledSamples({100, 100});
  Assignment halves;
  halves.parties.resize(2);
  for (uint32_t i = 0; i < 200; ++i) halves.parties[set.samples[i].label].push_back(i);
  const PartitionReport apart = DescribePartition(Scheme("key", 2), set, halves);
  EXPECT_NEAR(apart.effective_labels, 1, 1e-12);
  EXPECT_NEAR(apart.distance, 0.5, 1e-12);
  Assignment mixed;
  mixed.parties.resize(1);
  for (uint32_t i = 0; i < 200; ++i) mixed.parties[0].push_back(i);
  const PartitionReport alike = DescribePartition(Scheme("iid", 1), set, mixed);
  EXPECT_NEAR(alike.effective_labels, 2, 1e-12);
  EXPECT_NEAR(alike.distance, 0, 1e-12);
}

}  // namespace
}  // namespace atolld
