#include "membership/privacy/accountant.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"

namespace atolld {
namespace {

double EpsilonOfRounds(double sampling, double noise, double rounds, double delta) {
  PrivacyAccountant accountant;
  accountant.Add(sampling, noise, rounds);
  return accountant.Epsilon(delta);
}

// The conversion before arXiv:2004.00010, with which older figures were published.
double OlderEpsilon(const std::vector<double>& orders, const std::vector<double>& rdp,
                    double delta) {
  double least = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < orders.size(); ++i) {
    least = std::min(least, rdp[i] - std::log(delta) / (orders[i] - 1));
  }
  return least;
}

TEST(PrivacyAccountant, AgreesWithOpacus) {
  // Broken: a run would be told, and stopped at, a false epsilon.
  // opacus/tests/accountants_test.py, test_rdp_accountant: noise 1.5, sampling 0.04, 2250 steps,
  // delta 1e-5.
  EXPECT_NEAR(EpsilonOfRounds(0.04, 1.5, 2250, 1e-5), 7.32911117143, 1e-6);
}

TEST(PrivacyAccountant, AgreesWithAbadiAndOthers) {
  // Broken: the bound would not be that of the moments accountant, which everybody compares with.
  // "Deep Learning with Differential Privacy", arXiv:1607.00133, figure 2: sampling 0.01, noise
  // 4, 10,000 steps, delta 1e-5: epsilon 1.26. By the conversion of its time.
  std::vector<double> orders, rdp;
  for (double order = 1.5; order <= 64; order += 0.5) {
    orders.push_back(order);
    rdp.push_back(1e4 * RdpOfRound(order, 0.01, 4));
  }
  EXPECT_NEAR(OlderEpsilon(orders, rdp, 1e-5), 1.26, 0.0126);
  EXPECT_LT(EpsilonOfRounds(0.01, 4, 1e4, 1e-5), 1.26);  // today's is tighter
}

TEST(PrivacyAccountant, AgreesWithTensorFlowPrivacyOnACompositionOfTwo) {
  // Broken: rounds of different noise would not add up.
  // TensorFlow Privacy, rdp_accountant_test.py, test_check_composition: 40,000 steps with sampling
  // 1e-4 and noise 0.4, then 100 with 0.1 and 2, delta 1e-5: 8.509656, by the older conversion at
  // order 2.5.
  const double order = 2.5;
  const double rdp = 4e4 * RdpOfRound(order, 1e-4, 0.4) + 100 * RdpOfRound(order, 0.1, 2);
  EXPECT_NEAR(OlderEpsilon({order}, {rdp}, 1e-5), 8.509656, 1e-5);
  PrivacyAccountant both;
  both.Add(1e-4, 0.4, 4e4);
  both.Add(0.1, 2, 100);
  EXPECT_LT(both.Epsilon(1e-5), 8.509656);
}

TEST(PrivacyAccountant, WithoutSamplingIsThePlainGaussianMechanism) {
  // Broken: a run in which everybody takes part in each round would be told too small an epsilon.
  // rdp(a) = a / (2 s^2) (Mironov, arXiv:1702.07476, corollary 3).
  for (const double noise : {0.5, 1.0, 4.0}) {
    EXPECT_DOUBLE_EQ(RdpOfRound(8, 1, noise), 8 / (2 * noise * noise));
    // A sampling that lacks hardly anything of 1 comes to the same.
    EXPECT_NEAR(RdpOfRound(8, 1 - 1e-9, noise), RdpOfRound(8, 1, noise), 1e-6);
  }
}

TEST(PrivacyAccountant, OrdersBetweenAreNoJump) {
  // Broken: the series for broken orders would lose a term, or a sign.
  for (const double order : {2.0, 3.0, 7.0}) {
    const double here = RdpOfRound(order, 0.1, 2);
    EXPECT_NEAR(RdpOfRound(order + 1e-6, 0.1, 2), here, 1e-5 * here) << order;
    EXPECT_NEAR(RdpOfRound(order - 1e-6, 0.1, 2), here, 1e-5 * here) << order;
    EXPECT_LT(here, RdpOfRound(order + 0.5, 0.1, 2));
  }
}

TEST(PrivacyAccountant, ThePageSaysWhatItComputes) {
  // Broken: who plans a run by docs/privacy.md would be stopped long before its end.
  std::ifstream stream(ATOLL_PRIVACY_PAGE);
  const std::string page{std::istreambuf_iterator<char>(stream), {}};
  const struct {
    double noise, sampling;
  } rows[] = {{1, 1}, {2, 1}, {4, 1}, {8, 1}, {1, 0.2}, {2, 0.2}, {4, 0.2}, {1, 0.02}, {2, 0.02}};
  for (const auto& row : rows) {
    std::string line = absl::StrFormat("| %g | %g |", row.noise, row.sampling);
    for (const double rounds : {10, 50, 100, 500}) {
      absl::StrAppendFormat(&line, " %.3g |",
                            EpsilonOfRounds(row.sampling, row.noise, rounds, 1e-5));
    }
    EXPECT_NE(page.find(line + "\n"), std::string::npos) << line;
  }
}

TEST(PrivacyAccountant, NoiseOfNothingSpendsAllAndOfEverythingNothing) {
  // Broken: an entry without noise would count as one with it, or a NaN would never stop a run.
  EXPECT_EQ(EpsilonOfRounds(0.5, std::numeric_limits<double>::infinity(), 10, 1e-5), 0);
  EXPECT_EQ(PrivacyAccountant().Epsilon(1e-5), 0);
  EXPECT_TRUE(std::isinf(EpsilonOfRounds(0.5, 0, 1, 1e-5)));
  EXPECT_TRUE(std::isinf(EpsilonOfRounds(0.5, std::nan(""), 1, 1e-5)));
  PrivacyAccountant accountant;
  double last = 0;
  for (int round = 0; round < 5; ++round) {
    const double next = accountant.EpsilonAfter(0.2, 1, 1, 1e-5);
    accountant.Add(0.2, 1);
    EXPECT_EQ(accountant.Epsilon(1e-5), next);
    EXPECT_GT(next, last);
    last = next;
  }
}

}  // namespace
}  // namespace atolld
