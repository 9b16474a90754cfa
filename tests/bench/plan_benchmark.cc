// Measures how long the coordinator takes to make one exchange's plan, and to write the message for
// each peer.
//
//   plan_benchmark [PEERS [REGIONS [RUNS]]]
//
// The peers are in equal regions, can all be dialled, and have lines with different rates; there
// are 100 million parameters in int8. The planner is called as EntryAttempts::Begin calls it.
// Prints one JSON object; seconds are the median of the runs.
#include <algorithm>
#include <cstdint>
#include <iostream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "membership/run/entry_attempts.h"
#include "membership/trust/contribution.h"

namespace atolld {
namespace {

constexpr uint64_t kParameters = 100000000;
constexpr uint32_t kChunkElements = 65536;

struct Times {
  std::vector<double> choice, shards, told;
  size_t reducers = 0, relays = 0, whole_bytes = 0, told_bytes = 0;
  std::string shape;
};

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

v1::Hello HelloOf(int number, int regions, std::mt19937_64& random) {
  v1::Hello hello;
  hello.set_peer(absl::StrCat("peer-", number));
  hello.set_address(absl::StrCat("host-", number, ".example:7071"));
  hello.set_region(absl::StrCat("region-", number % regions));
  hello.set_up_rate(1000000 + random() % 100000000);
  hello.set_down_rate(1000000 + random() % 100000000);
  hello.set_has_state(true);
  return hello;
}

std::vector<ExchangeContributor> ContributorsOf(const Roster& roster) {
  std::vector<ExchangeContributor> contributors;
  for (const auto& [peer, member] : roster.members()) {
    ExchangeContributor& one = contributors.emplace_back();
    one.member.set_peer(peer);
    one.member.set_address(member.address);
    one.member.set_contribution_root(std::string(32, 'r'));
    one.member.set_signature(std::string(64, 's'));
    one.member.set_signing_key(std::string(32, 'k'));
    one.member.set_steps(100);
    one.member.set_tokens(100000);
    one.region = member.region;
  }
  return contributors;
}

void Run(int peers, int regions, Times* times) {
  std::mt19937_64 random(7);
  Roster roster(absl::Seconds(10), absl::Now(), {});
  for (int i = 0; i < peers; ++i) {
    roster.Join(absl::Now(), static_cast<SessionId>(i) + 1, HelloOf(i, regions, random));
  }
  std::vector<ExchangeContributor> contributors = ContributorsOf(roster);
  ExchangeTerms terms;
  terms.version = 2;
  terms.epoch = 1;
  terms.parameters = kParameters;
  terms.chunk_elements = kChunkElements;
  terms.quorum = static_cast<uint32_t>(peers) / 2 + 1;
  terms.deadline = absl::Seconds(60);
  const EncodedSize size = {kParameters, 1.02 * kParameters, 1.02 * kParameters};
  ExchangePlanner planner(PlanKind::kAuto);
  absl::Time began = absl::Now();
  const auto seconds = [&began] {
    const absl::Time former = std::exchange(began, absl::Now());
    return absl::ToDoubleSeconds(began - former);
  };
  planner.Plan(roster, size, &terms, &contributors);
  times->choice.push_back(seconds());
  const Ballot round(terms, std::move(contributors));
  times->shards.push_back(seconds());
  const v1::Plan& plan = round.plan();
  const BriefPlans brief(plan);
  times->told_bytes = 0;
  for (const v1::PlanMember& member : plan.contributors()) {
    const bool serves = brief.servers().count(member.peer()) > 0;
    times->told_bytes += serves ? 0 : brief.For(member.peer()).SerializeAsString().size();
  }
  times->told.push_back(seconds());
  times->whole_bytes = plan.ByteSizeLong();
  times->reducers = static_cast<size_t>(plan.shards_size());
  times->relays = 0;
  for (const v1::Shard& shard : plan.shards()) {
    times->relays += static_cast<size_t>(shard.relays_size());
  }
  times->shape = std::string(PlanShapeName(planner.chosen().shape));
}

int Main(int argc, char** argv) {
  std::vector<int> numbers = {10000, 8, 5};
  for (int i = 1; i < argc && i <= 3; ++i) {
    if (!absl::SimpleAtoi(argv[i], &numbers[static_cast<size_t>(i) - 1]) ||
        numbers[static_cast<size_t>(i) - 1] < 1) {
      std::cerr << "plan_benchmark [PEERS [REGIONS [RUNS]]]\n";
      return 2;
    }
  }
  Times times;
  for (int run = 0; run < numbers[2]; ++run) Run(numbers[0], numbers[1], &times);
  std::cout << "{\"peers\": " << numbers[0] << ", \"regions\": " << numbers[1]
            << ", \"plan_seconds\": " << Median(times.choice) + Median(times.shards)
            << ", \"choice_seconds\": " << Median(times.choice)
            << ", \"shards_seconds\": " << Median(times.shards)
            << ", \"told_seconds\": " << Median(times.told) << ", \"plan\": \"" << times.shape
            << "\", \"shards\": " << times.reducers << ", \"relays\": " << times.relays
            << ", \"whole_plan_bytes\": " << times.whole_bytes
            << ", \"brief_plans_bytes\": " << times.told_bytes << "}" << std::endl;
  return 0;
}

}  // namespace
}  // namespace atolld

int main(int argc, char** argv) { return atolld::Main(argc, argv); }
