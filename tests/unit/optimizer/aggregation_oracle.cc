#include "tests/unit/optimizer/aggregation_oracle.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace atolld {

std::vector<absl::Span<const float>> SpansOf(const Vectors& vectors) {
  return std::vector<absl::Span<const float>>(vectors.begin(), vectors.end());
}

Vectors HonestUpdates(size_t contributors, size_t elements, float noise, uint64_t seed) {
  const Vector signal = BellValues(elements, seed);
  Vectors updates(contributors, signal);
  TestRandom random(seed);
  for (size_t begin = 0; begin < elements; begin += 64) {
    const size_t end = std::min(elements, begin + 64);
    float largest = 0;
    for (size_t k = begin; k < end; ++k) largest = std::max(largest, std::fabs(signal[k]));
    for (Vector& update : updates) {
      for (size_t k = begin; k < end; ++k) {
        const float uniform = static_cast<float>(static_cast<int32_t>(random.Next())) * 0x1p-31f;
        update[k] += noise * largest * uniform;
      }
    }
  }
  return updates;
}

long double DistanceOf(const Reals& a, const Reals& b) {
  long double sum = 0;
  for (size_t k = 0; k < a.size(); ++k) sum += (a[k] - b[k]) * (a[k] - b[k]);
  return std::sqrt(sum);
}

Reals RealsOf(const Vector& values) { return Reals(values.begin(), values.end()); }

long double NormOf(const Vector& values) {
  return DistanceOf(RealsOf(values), Reals(values.size(), 0.0L));
}

long double OracleLowerMedian(Reals values) {
  std::sort(values.begin(), values.end());
  return values[(values.size() - 1) / 2];
}

Reals Combined(const Vectors& updates, const Reals& factors) {
  Reals sum(updates[0].size(), 0.0L);
  for (size_t i = 0; i < updates.size(); ++i) {
    for (size_t k = 0; k < sum.size(); ++k) sum[k] += factors[i] * updates[i][k];
  }
  return sum;
}

float OracleTrimmed(Vector column, size_t trim) {
  std::sort(column.begin(), column.end(), [](float a, float b) {
    return a < b || (a == b && std::signbit(a) && !std::signbit(b));
  });
  float sum = column[trim];
  for (size_t r = trim + 1; r < column.size() - trim; ++r) sum = sum + column[r];
  const float share = 1.0f / static_cast<float>(column.size() - 2 * trim);
  return sum * share;
}

Vector OracleTrimmedMean(const Vectors& updates, const Vector& scales, size_t trim) {
  Vector mean(updates[0].size());
  for (size_t k = 0; k < mean.size(); ++k) {
    Vector column;
    for (size_t i = 0; i < updates.size(); ++i) {
      const float scaled = scales[i] * updates[i][k];
      column.push_back(scaled);
    }
    mean[k] = OracleTrimmed(column, trim);
  }
  return mean;
}

std::vector<size_t> OracleKrumOrder(const Vectors& updates, size_t faulty) {
  const size_t n = updates.size();
  Reals scores(n);
  for (size_t i = 0; i < n; ++i) {
    Reals squares;
    for (size_t j = 0; j < n; ++j) {
      const long double distance = DistanceOf(RealsOf(updates[i]), RealsOf(updates[j]));
      if (j != i) squares.push_back(distance * distance);
    }
    std::sort(squares.begin(), squares.end());
    const auto end = squares.begin() + static_cast<std::ptrdiff_t>(n - faulty - 2);
    scores[i] = std::accumulate(squares.begin(), end, 0.0L);
  }
  std::vector<size_t> order(n);
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return scores[a] < scores[b]; });
  return order;
}

long double DistanceSum(const Vectors& updates, const Vector& weights, const Reals& point) {
  long double sum = 0;
  for (size_t i = 0; i < updates.size(); ++i) {
    sum += weights[i] * DistanceOf(RealsOf(updates[i]), point);
  }
  return sum;
}

Reals OracleGeometricMedian(const Vectors& updates, const Vector& weights) {
  Reals shares(weights.begin(), weights.end());
  const auto normalise = [](Reals* values) {
    const long double total = std::accumulate(values->begin(), values->end(), 0.0L);
    for (long double& value : *values) value /= total;
  };
  normalise(&shares);
  Reals point = Combined(updates, shares);
  for (int i = 0; i < 3000; ++i) {
    Reals factors;
    for (size_t j = 0; j < updates.size(); ++j) {
      factors.push_back(shares[j] / std::max(1e-12L, DistanceOf(RealsOf(updates[j]), point)));
    }
    normalise(&factors);
    point = Combined(updates, factors);
  }
  return point;
}

Reals OracleCentredClipping(const Vectors& updates, const Vector& weights, const Vector& centre) {
  const long double total = std::accumulate(weights.begin(), weights.end(), 0.0L);
  const Reals point = RealsOf(centre);
  Reals distances;
  for (const Vector& update : updates) distances.push_back(DistanceOf(RealsOf(update), point));
  const long double tau = OracleLowerMedian(distances);
  Reals moved = point;
  for (size_t i = 0; i < updates.size(); ++i) {
    const long double kept = distances[i] <= tau ? 1.0L : tau / distances[i];
    for (size_t k = 0; k < moved.size(); ++k) {
      moved[k] += weights[i] / total * kept * (updates[i][k] - point[k]);
    }
  }
  return moved;
}

absl::StatusOr<Vector> Aggregate(const AggregationRule& rule, const Vectors& updates,
                                 const Vector& weights, const Vector& centre,
                                 double reference_norm) {
  std::vector<absl::Span<const float>> rows = SpansOf(updates);
  if (rule.has_centre()) rows.push_back(centre);
  UpdateProducts products(rule.needs(), rows.size());
  absl::Status status = products.AddChunk(rows);
  if (!status.ok()) return status;
  const absl::StatusOr<AggregationPlan> plan = rule.Plan(weights, products, reference_norm);
  if (!plan.ok()) return plan.status();
  Vector mean(updates[0].size(), 77.0f);
  status = rule.Combine(*plan, SpansOf(updates), rule.has_centre() ? centre : Vector(),
                        absl::MakeSpan(mean));
  if (!status.ok()) return status;
  return mean;
}

AggregationRule RuleOf(const std::string& name, uint32_t faulty, double clip) {
  AggregationSettings settings;
  settings.rule = name;
  settings.faulty = faulty;
  settings.clip = clip;
  return AggregationRule::Make(settings).value();
}

}  // namespace atolld
