// A large run in a simulated world: what its coordinator does and says per round and peer.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <map>
#include <set>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "membership/history/header.h"
#include "tests/sim/sim_cluster.h"

namespace atolld {
namespace {

constexpr size_t kLargestMessage = size_t{1} << 20;  // membership.proto
constexpr uint64_t kRounds = 3;
constexpr int kAggregators = 3;
// One entry has room for somewhat more (message_sizes.h); a larger run begins with this many, and
// the others join it.
constexpr int kMostFounders = 1000;

// ATOLL_SIZE_PEERS=1000 tests a run of that size; the usual size takes a few seconds.
int LargestSize() {
  int peers = 0;
  const char* const wanted = std::getenv("ATOLL_SIZE_PEERS");
  return wanted != nullptr && absl::SimpleAtoi(wanted, &peers) && peers > 0 ? peers : 300;
}

double CpuSeconds() {
  rusage used = {};
  getrusage(RUSAGE_THREAD, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

// What the coordinator has said since the last Clear().
struct Told {
  std::map<v1::CoordinatorMessage::MessageCase, uint64_t> bytes;
  size_t largest = 0;

  void Hear(const Frame& frame) {
    largest = std::max(largest, frame.bytes().size());
    // The first byte of a oneof's message is its field's tag.
    const int field = frame.bytes().empty() ? 0 : frame.bytes()[0] >> 3;
    bytes[static_cast<v1::CoordinatorMessage::MessageCase>(field)] += frame.bytes().size();
  }
  uint64_t Of(std::initializer_list<v1::CoordinatorMessage::MessageCase> cases) const {
    uint64_t sum = 0;
    for (const auto one : cases) {
      const auto found = bytes.find(one);
      sum += found == bytes.end() ? 0 : found->second;
    }
    return sum;
  }
  uint64_t All() const {
    uint64_t sum = 0;
    for (const auto& [field, size] : bytes) sum += size;
    return sum;
  }
};

class SizedRun {
 public:
  explicit SizedRun(int peers)
      : peers_(peers), cluster_(17, SettingsOf(peers), nullptr, [this](const Frame& frame) {
          told_.Hear(frame);
        }) {
    const auto owner = cluster_.world().process(kCoordinator).executor().owner();
    cluster_.world()
        .process(kCoordinator)
        .executor()
        .events()
        .Watch([this, owner](SimEventQueue::Owner of, bool begins) {
          if (of == owner) cpu_ += begins ? -CpuSeconds() : CpuSeconds();
        });
  }

  SimCluster& cluster() { return cluster_; }
  const Told& told() const { return told_; }

  // A line of figures about the rounds up to `version`, from the last call on.
  bool Measure(uint64_t version, const std::string& what) {
    const double rounds = static_cast<double>(version - cluster_.version());
    const double cpu = cpu_;
    told_.bytes.clear();
    if (!cluster_.RunToVersion(version, absl::Minutes(2))) return false;
    const double each = peers_ * std::max(1.0, rounds);
    using Message = v1::CoordinatorMessage;
    const auto share = [&](uint64_t bytes) { return static_cast<double>(bytes) / each; };
    std::cout << absl::StrFormat(
        "%5d peers  %-10s %7.3f s of the coordinator's CPU; told each peer, bytes: %7.0f (plan "
        "%.0f, commit %.0f, roster %.0f, train %.0f)\n",
        peers_, what, (cpu_ - cpu) / std::max(1.0, rounds), share(told_.All()),
        share(told_.Of({Message::kPlan})), share(told_.Of({Message::kCommit})),
        share(told_.Of({Message::kRoster, Message::kRosterDelta})),
        share(told_.Of({Message::kTrain})));
    return true;
  }

 private:
  static SimClusterSettings SettingsOf(int peers) {
    SimClusterSettings settings;
    settings.peers = peers;
    settings.founders = std::min(peers, kMostFounders);
    settings.quorum = static_cast<uint32_t>(settings.founders) / 2 + 1;
    settings.rounds = kRounds;
    settings.elements = 1000;
    settings.chunk_elements = 256;
    settings.failure_timeout = absl::Seconds(20);
    for (int i = 1; i <= peers; ++i) settings.dial_out.insert(absl::StrCat("p", i));
    for (int i = 1; i <= kAggregators; ++i) settings.aggregators.insert(absl::StrCat("x", i));
    return settings;
  }

  const int peers_;
  Told told_;
  double cpu_ = 0;
  SimCluster cluster_;
};

// Would break: a large run does not commit, its replicas differ, or a message of its coordinator is
// longer than a peer takes.
TEST(SimSizeTest, ALargeRunCommitsAndSeals) {
  for (const int peers : {10, LargestSize() / 3, LargestSize()}) {
    SizedRun run(peers);
    SimCluster& cluster = run.cluster();
    ASSERT_TRUE(run.Measure(1, "joining")) << cluster.world().LogText().substr(0, 20000);
    ASSERT_TRUE(run.Measure(kRounds, "a round")) << cluster.world().LogText().substr(0, 20000);
    ASSERT_TRUE(cluster.RunToSeal());
    EXPECT_LT(run.told().largest, kLargestMessage);
    for (const v1::EntryHeader& header : cluster.stored().headers) {
      if (peers <= kMostFounders) {
        EXPECT_EQ(header.contributors_size(), peers) << header.version();
      } else {
        EXPECT_GE(header.contributors_size(), kMostFounders) << header.version();
      }
    }
    std::set<std::string> digests;
    for (const std::string& peer : cluster.PeersStarted()) {
      const absl::StatusOr<VerifyReport> report = cluster.Verify(peer);
      ASSERT_TRUE(report.ok()) << peer << ": " << report.status();
      EXPECT_EQ(report->version, kRounds) << peer;
      digests.insert(ToHex(report->state_digest));
    }
    EXPECT_EQ(digests.size(), 1u);
    EXPECT_EQ(cluster.world().LogCount(" E "), 0u);
  }
}

}  // namespace
}  // namespace atolld
