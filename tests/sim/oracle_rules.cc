#include "tests/sim/oracle_rules.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>

#include "absl/strings/str_cat.h"

namespace atolld {
namespace {

using Matrix = std::vector<std::vector<double>>;

// Adds terms in eight lanes, folds the lanes in halves, and adds up the blocks.
double LaneSum(const std::vector<double>& terms) {
  double sum = 0;
  for (size_t begin = 0; begin < terms.size(); begin += 1024) {
    double lane[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    for (size_t i = begin; i < terms.size() && i < begin + 1024; ++i) {
      lane[i % 8] = lane[i % 8] + terms[i];
    }
    const double even = (lane[0] + lane[4]) + (lane[2] + lane[6]);
    const double odd = (lane[1] + lane[5]) + (lane[3] + lane[7]);
    sum = sum + (even + odd);
  }
  return sum;
}

double ValueOf(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return static_cast<double>(value);
}

double ScalarOf(const v1::EntryHeader& header, const std::string& name) {
  for (const v1::Scalar& scalar : header.scalars()) {
    if (scalar.name() == name) return ValueOf(scalar.bits());
  }
  return 0;
}

// Returns the products of the scaled rows.
Matrix Products(const std::vector<OracleRow>& rows) {
  const size_t n = rows.size();
  Matrix products(n, std::vector<double>(n));
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j <= i; ++j) {
      std::vector<double> terms(rows[i].values.size());
      for (size_t k = 0; k < terms.size(); ++k) {
        terms[k] = static_cast<double>(rows[i].values[k]) * static_cast<double>(rows[j].values[k]);
      }
      const double scales = static_cast<double>(rows[i].scale) * static_cast<double>(rows[j].scale);
      products[i][j] = products[j][i] = LaneSum(terms) * scales;
    }
  }
  return products;
}

double SquaredDistance(const Matrix& g, size_t i, size_t j) {
  const double squared = (g[i][i] - 2 * g[i][j]) + g[j][j];
  return squared < 0 ? 0 : squared;
}

// Returns the smaller of the two middle values.
double Middle(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[(values.size() - 1) / 2];
}

// Takes the mean in ascending order, with -0 before +0, without `cut` values at each end, adding
// from the smallest on.
std::vector<float> MeanOfMiddle(const std::vector<OracleRow>& rows, size_t cut) {
  std::vector<float> mean(rows.front().values.size());
  for (size_t k = 0; k < mean.size(); ++k) {
    std::vector<float> column;
    for (const OracleRow& row : rows) column.push_back(row.scale * row.values[k]);
    std::sort(column.begin(), column.end(), [](float a, float b) {
      return a < b || (a == b && std::signbit(a) && !std::signbit(b));
    });
    float sum = column[cut];
    for (size_t r = cut + 1; r < column.size() - cut; ++r) sum = sum + column[r];
    mean[k] = sum * (1.0f / static_cast<float>(column.size() - 2 * cut));
  }
  return mean;
}

// Takes the mean in each place of the values that are not zero there; 0 if there are none.
std::vector<float> MeanOfSenders(const std::vector<OracleRow>& rows) {
  std::vector<float> mean(rows.front().values.size(), 0.0f);
  for (size_t k = 0; k < mean.size(); ++k) {
    float sum = 0;
    float weights = 0;
    for (const OracleRow& row : rows) {
      if (row.values[k] == 0) continue;
      const float part = (row.weight * row.scale) * row.values[k];
      sum = sum + part;
      weights = weights + row.weight;
    }
    if (weights != 0) mean[k] = sum / weights;
  }
  return mean;
}

// Takes the weighted mean with other weights; a weight of 0 leaves a row out.
std::vector<float> Reweighted(std::vector<OracleRow> rows, const std::vector<float>& weights) {
  std::vector<OracleRow> kept;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (weights[i] == 0) continue;
    rows[i].weight = weights[i];
    kept.push_back(std::move(rows[i]));
  }
  return OracleWeightedMean(kept, nullptr);
}

// The rows whose neighbours are nearest keep their weights.
std::vector<float> KrumWeights(const std::vector<OracleRow>& rows, size_t faulty, size_t kept) {
  const Matrix g = Products(rows);
  const size_t n = rows.size();
  std::vector<double> score(n, 0.0);
  for (size_t i = 0; i < n; ++i) {
    std::vector<double> distances;
    for (size_t j = 0; j < n; ++j) {
      if (j != i) distances.push_back(SquaredDistance(g, i, j));
    }
    std::sort(distances.begin(), distances.end());
    for (size_t k = 0; k < n - faulty - 2; ++k) score[i] = score[i] + distances[k];
  }
  std::vector<float> weights(n, 0.0f);
  for (; kept > 0; --kept) {
    size_t best = n;
    for (size_t i = 0; i < n; ++i) {
      if (weights[i] == 0 && (best == n || score[i] < score[best])) best = i;
    }
    weights[best] = rows[best].weight;
  }
  return weights;
}

// Smoothed Weiszfeld, starting with each row's median distance from the others.
std::vector<float> MedianWeights(const std::vector<OracleRow>& rows) {
  const Matrix g = Products(rows);
  const size_t n = rows.size();
  double total = 0;
  for (const OracleRow& row : rows) total = total + static_cast<double>(row.weight);
  std::vector<double> norm(n), distance(n), share(n);
  for (size_t i = 0; i < n; ++i) {
    norm[i] = std::sqrt(g[i][i]);
    std::vector<double> others;
    for (size_t j = 0; j < n; ++j) {
      if (j != i) others.push_back(std::sqrt(SquaredDistance(g, i, j)));
    }
    distance[i] = Middle(others);
  }
  const double least = std::max(
      {std::ldexp(Middle(distance), -16), std::ldexp(Middle(norm), -22), std::ldexp(1.0, -200)});
  for (int turn = 0; turn <= 32; ++turn) {
    double sum = 0;
    for (size_t i = 0; i < n; ++i) {
      share[i] = (static_cast<double>(rows[i].weight) / total) / std::max(least, distance[i]);
      sum = sum + share[i];
    }
    for (double& one : share) one = one / sum;
    std::vector<double> along(n, 0.0);
    double square = 0;
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = 0; j < n; ++j) along[i] = along[i] + share[j] * g[i][j];
      square = square + share[i] * along[i];
    }
    for (size_t i = 0; i < n; ++i) {
      const double squared = (g[i][i] - 2 * along[i]) + square;
      distance[i] = squared > 0 ? std::sqrt(squared) : 0;
    }
  }
  std::vector<float> weights;
  for (const double one : share) {
    weights.push_back(one < std::ldexp(1.0, -100) ? 0.0f : static_cast<float>(one));
  }
  return weights;
}

}  // namespace

std::vector<float> OracleWeightedMean(const std::vector<OracleRow>& rows,
                                      const std::vector<float>* centre) {
  float weights = 0;
  float pulled = 0;
  std::vector<float> mean(rows.front().values.size(), 0.0f);
  for (const OracleRow& row : rows) {
    const float pull = row.weight * row.scale;
    weights = weights + row.weight;
    pulled = pulled + pull;
    for (size_t i = 0; i < mean.size(); ++i) {
      const float part = pull * row.values[i];
      mean[i] = mean[i] + part;
    }
  }
  const float rest = weights - pulled;
  for (size_t i = 0; centre != nullptr && rest > 0 && i < mean.size(); ++i) {
    const float part = rest * (*centre)[i];
    mean[i] = mean[i] + part;
  }
  const float factor = 1.0f / weights;
  for (float& value : mean) value = value * factor;
  return mean;
}

std::vector<float> OracleRobustMean(const std::string& rule, size_t faulty,
                                    const std::vector<OracleRow>& rows) {
  const size_t n = rows.size();
  const bool krum = rule == "krum" || rule == "multi_krum";
  if (n < 2 * faulty + (krum ? 3 : 1)) return {};
  if (rule == "sent_mean") return MeanOfSenders(rows);
  if (rule == "trimmed_mean") return MeanOfMiddle(rows, faulty);
  if (rule == "median") return MeanOfMiddle(rows, (n - 1) / 2);
  if (rule == "krum") return Reweighted(rows, KrumWeights(rows, faulty, 1));
  if (rule == "multi_krum") return Reweighted(rows, KrumWeights(rows, faulty, n - faulty - 2));
  if (rule == "geometric_median") return Reweighted(rows, MedianWeights(rows));
  return {};
}

double OracleSquares(const std::vector<float>& x, const std::vector<float>* from) {
  std::vector<double> terms(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const double value =
        static_cast<double>(x[i]) - (from == nullptr ? 0.0 : static_cast<double>((*from)[i]));
    terms[i] = value * value;
  }
  return LaneSum(terms);
}

bool OracleCountsAges(const v1::RunSpec& spec) {
  return spec.mode().kind() == "delayed" || spec.mode().kind() == "async";
}

double OracleAgeFactor(const v1::RunSpec& spec, uint32_t age) {
  if (!OracleCountsAges(spec)) return 1;
  return std::exp(-ValueOf(spec.mode().age_decay_bits()) * static_cast<double>(age));
}

std::string OracleStepScalars(const v1::RunSpec& spec, const v1::EntryHeader& header,
                              const v1::EntryHeader& former, double squared_mean) {
  std::map<std::string, double> wanted;
  double factors = 0;
  double tokens = 0;
  double aged = 0;
  for (const v1::Contributor& one : header.contributors()) {
    factors = factors + OracleAgeFactor(spec, one.age());
    tokens = tokens + static_cast<double>(one.tokens());
    aged = aged + static_cast<double>(one.tokens()) * one.age();
  }
  if (spec.outer().rule() == "delayed_nesterov") {
    // One momentum step for each N updates; those of one entry that are too many wait for the next.
    const double whole = spec.outer().buffer();
    const double counts = factors < whole ? factors : whole;
    const double all = ScalarOf(former, "waiting") + counts;
    const bool close = std::fabs(all - whole) < 1e-5 * whole;  // a last bit of an exp decides
    const bool due = close ? ScalarOf(header, "due") == 1 : all > whole;
    wanted["due"] = due ? 1 : 0;
    wanted["waiting"] = due ? all - whole : all;
    wanted["share"] = counts / whole;
    wanted["rest"] = due ? (all - whole) / whole : 0;
  }
  if (spec.outer().rule() == "cgad") {
    const double age = aged / tokens;
    const double cutoff = spec.mode().age_cutoff();
    const double gate = cutoff == 0    ? 1
                        : age < cutoff ? 0.5 + 0.5 * std::cos(std::acos(-1.0) * age / cutoff)
                                       : 0;
    wanted["age"] = age;
    wanted["discount"] = gate * std::exp(-ValueOf(spec.mode().age_decay_bits()) * age);
  }
  if (spec.mode().gap_penalty()) {
    const double usual = ScalarOf(former, "usual_length");
    const double length = std::sqrt(squared_mean);
    wanted["gap"] = usual > 0 ? 1 + ScalarOf(former, "mean_length") / usual : 1;
    wanted["mean_length"] = length;
    // A mean of nothing changes nothing of what is usual.
    wanted["usual_length"] = length == 0 ? usual : usual > 0 ? 0.9 * usual + 0.1 * length : length;
  }
  if (spec.mode().momentum_clip_bits() != 0) {
    wanted["momentum_clip"] = ValueOf(spec.mode().momentum_clip_bits());
  }
  for (const auto& [name, right] : wanted) {
    const double told = ScalarOf(header, name);
    // What is left above N has the rounding of N.
    const bool left = name == "waiting" || name == "rest";
    const double least = left ? spec.outer().buffer() : 1e-3;
    if (std::fabs(told - right) <= 1e-5 * (least + std::fabs(right))) continue;
    return absl::StrCat("its scalar ", name, " is ", told, ", not ", right);
  }
  return "";
}

}  // namespace atolld
