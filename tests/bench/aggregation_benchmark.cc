// Measures how fast the aggregation rules are compared with the weighted mean, in one run.
//
//   aggregation_benchmark [CONTRIBUTORS [ELEMENTS [REPEATS]]]      8, 16,777,216 and 5 by default
//
// One thread, updates in memory as fp32, in chunks as a reducer has them. GB/s are gigabytes (1e9)
// of the updates' values per second, as medians; rules take turns within each repeat, so that a
// change of the machine's speed affects all of them.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compression/codec_benchmark.h"
#include "compression/simd.h"
#include "optimizer/aggregation_kernels.h"
#include "optimizer/aggregation_rule.h"

namespace atolld {
namespace {

constexpr size_t kChunk = 1 << 18;  // values: 256 KiB as int8

struct Measured {
  AggregationRule rule;
  std::vector<double> sums, combine, whole;  // seconds
};

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

using Updates = std::vector<std::vector<float>>;

std::vector<absl::Span<const float>> ChunkOf(const Updates& updates, size_t begin) {
  std::vector<absl::Span<const float>> rows;
  for (const std::vector<float>& update : updates) {
    rows.push_back(absl::MakeConstSpan(update).subspan(begin, kChunk));
  }
  return rows;
}

// The three steps of a round.
absl::Status Aggregate(const Updates& updates, const std::vector<float>& centre, Measured* measured,
                       std::vector<float>* mean, bool counted) {
  const AggregationRule& rule = measured->rule;
  const size_t vectors = updates.size() + (rule.has_centre() ? 1 : 0);
  const double start = Now();
  UpdateProducts products(rule.needs(), vectors);
  for (size_t begin = 0; begin < mean->size(); begin += kChunk) {
    if (rule.needs() == UpdateProducts::Kind::kNone) break;
    std::vector<absl::Span<const float>> rows = ChunkOf(updates, begin);
    if (rule.has_centre()) rows.push_back(absl::MakeConstSpan(centre).subspan(begin, kChunk));
    const absl::Status status = products.AddChunk(rows);
    if (!status.ok()) return status;
  }
  const absl::StatusOr<AggregationPlan> plan =
      rule.Plan(std::vector<float>(updates.size(), 1.0f), products);
  if (!plan.ok()) return plan.status();
  const double summed = Now();
  for (size_t begin = 0; begin < mean->size(); begin += kChunk) {
    const auto part = absl::MakeConstSpan(centre).subspan(begin, kChunk);
    const absl::Status status =
        rule.Combine(*plan, ChunkOf(updates, begin), rule.has_centre() ? part : part.first(0),
                     absl::MakeSpan(*mean).subspan(begin, kChunk));
    if (!status.ok()) return status;
  }
  const double end = Now();
  if (!counted) return absl::OkStatus();
  measured->sums.push_back(summed - start);
  measured->combine.push_back(end - summed);
  measured->whole.push_back(end - start);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Measured>> Rules(size_t contributors) {
  // As many liars as every rule can bear.
  const uint32_t faulty = static_cast<uint32_t>(contributors < 5 ? 1 : (contributors - 3) / 2);
  const std::vector<AggregationSettings> all = {{"mean", 0, 0},
                                                {"mean", 0, 1.0},
                                                {"trimmed_mean", 1, 0},
                                                {"trimmed_mean", faulty, 0},
                                                {"median", 0, 0},
                                                {"sent_mean", 0, 0},
                                                {"centred_clipping", 0, 0},
                                                {"geometric_median", 0, 0},
                                                {"krum", faulty, 0},
                                                {"multi_krum", faulty, 0}};
  std::vector<Measured> measured;
  for (const AggregationSettings& settings : all) {
    absl::StatusOr<AggregationRule> rule = AggregationRule::Make(settings);
    if (!rule.ok()) return rule.status();
    if (rule->LeastContributors() <= contributors) measured.push_back({*rule, {}, {}, {}});
  }
  return measured;
}

absl::Status Run(size_t contributors, size_t elements, size_t repeats) {
  if (contributors < 1 || contributors > kMostContributors || elements < 1 || repeats < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "takes 1 to ", kMostContributors, " contributors, 1 element and 1 repeat or more"));
  }
  absl::StatusOr<std::vector<Measured>> rules = Rules(contributors);
  if (!rules.ok()) return rules.status();
  const std::vector<float> centre = GaussianValues(elements, 1);
  Updates updates(contributors, centre);
  for (size_t i = 0; i < contributors; ++i) {
    const std::vector<float> own = GaussianValues(std::min(elements, kChunk), i + 2);
    for (size_t k = 0; k < elements; ++k) updates[i][k] += own[k % own.size()];
  }
  std::vector<float> mean(elements);
  // Repeat 0 touches the pages and is not counted.
  for (size_t repeat = 0; repeat <= repeats; ++repeat) {
    for (Measured& measured : *rules) {
      const absl::Status status = Aggregate(updates, centre, &measured, &mean, repeat > 0);
      if (!status.ok()) return status;
    }
  }
  const double gigabytes = static_cast<double>(contributors * elements) * sizeof(float) * 1e-9;
  const double reference = Median(rules->front().whole);
  std::printf("%zu contributors, %zu values, median of %zu, one thread, %s\n", contributors,
              elements, repeats, SimdTargetNames().front().c_str());
  std::printf("%-18s %6s %5s %11s %14s %11s %10s\n", "rule", "faulty", "clip", "sums GB/s",
              "combine GB/s", "whole GB/s", "x of mean");
  for (const Measured& measured : *rules) {
    const AggregationSettings& settings = measured.rule.settings();
    const double whole = Median(measured.whole);
    const std::string sums = measured.rule.needs() == UpdateProducts::Kind::kNone
                                 ? "-"
                                 : absl::StrFormat("%.2f", gigabytes / Median(measured.sums));
    std::printf("%-18s %6u %5g %11s %14.2f %11.2f %10.2f\n", settings.rule.c_str(), settings.faulty,
                settings.clip, sums.c_str(), gigabytes / Median(measured.combine),
                gigabytes / whole, whole / reference);
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace atolld

int main(int argc, char** argv) {
  uint64_t numbers[3] = {8, 16 << 20, 5};
  bool read = argc <= 4;
  for (int i = 1; i < argc && read; ++i) read = absl::SimpleAtoi(argv[i], &numbers[i - 1]);
  const absl::Status status =
      read ? atolld::Run(numbers[0], numbers[1], numbers[2])
           : absl::InvalidArgumentError("usage: [CONTRIBUTORS [ELEMENTS [REPEATS]]]");
  if (status.ok()) return 0;
  std::fprintf(stderr, "aggregation_benchmark: %s\n", std::string(status.message()).c_str());
  return 2;
}
