// A run in which a process dies at a write, once for every write that the run makes.
#include "tests/sim/crash_enumeration.h"

#include <cstdlib>
#include <iostream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace atolld {
namespace {

// If set, the number of scenarios of the longer form.
constexpr char kScenarios[] = "ATOLL_CRASH_SCENARIOS";

// Under sanitizers a run takes ten times as long, so only a part of the writes is tried; all are
// tried without sanitizers.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr size_t kEvery = 8;
#else
constexpr size_t kEvery = 1;
#endif

// A broken run breaks at many writes; only this many are reported.
constexpr int kMostTold = 10;

uint64_t Scenarios() {
  const char* text = std::getenv(kScenarios);
  uint64_t count = 1;
  if (text != nullptr) {
    EXPECT_TRUE(absl::SimpleAtoi(text, &count)) << kScenarios;
  }
  return count;
}

struct Counts {
  std::map<std::string, size_t> changes;
  size_t runs = 0;
  int failed = 0;
};

void RunAll(uint64_t number, Counts* counts) {
  const CrashScenario scenario = DrawCrashScenario(number);
  const CrashPoint none;
  for (const std::string& fault : RunWithCrash(scenario, none)) {
    ADD_FAILURE() << "scenario " << number << ", no crash: " << fault;
  }
  if (::testing::Test::HasFailure()) return;
  const std::vector<CrashPoint> points = CrashPoints(scenario);
  for (size_t i = 0; i < points.size(); i += kEvery) {
    const CrashPoint& point = points[i];
    ++counts->runs;
    counts->changes[point.process] = point.change;
    const std::vector<std::string> faults = RunWithCrash(scenario, point);
    if (faults.empty()) continue;
    if (++counts->failed > kMostTold) continue;
    for (const std::string& fault : faults) {
      ADD_FAILURE() << "scenario " << number << ": " << point.Text() << ": " << fault;
    }
  }
}

// Would break: a process that dies at the wrong instant loses an announced version, splits the
// replicas, spends training data twice, or stops the run.
TEST(CrashEnumeration, EveryWriteOfEveryProcess) {
  const uint64_t scenarios = Scenarios();
  for (uint64_t number = 0; number < scenarios; ++number) {
    Counts counts;
    RunAll(number, &counts);
    std::cout << "scenario " << number << ": " << counts.runs << " crashes; changes:";
    for (const auto& [process, changes] : counts.changes) {
      std::cout << " " << process << " " << changes;
    }
    std::cout << "; failed " << counts.failed << std::endl;
    EXPECT_EQ(counts.failed, 0);
    // A run that wrote little would prove little.
    EXPECT_GT(counts.runs, 500u / kEvery);
  }
}

}  // namespace
}  // namespace atolld
