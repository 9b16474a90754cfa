#include "tests/sim/swarm_grey.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/sim/sim_events.h"

namespace atolld {
namespace {

// How long lines are judged after the last of them has failed: some time in which they are new, and
// the same in which they are known.
constexpr double kJudgedTimeouts = 6;

// The most rounds that a seed has in addition to its own.
constexpr uint64_t kMostRounds = 60;

// If other faults come as well, newly started processes do not know of the lines; this many
// exchanges may fail because of that.
constexpr int kMostFelt = 8;

// Up to this many peers dial each other when they meet, without need.
constexpr size_t kAllMeet = 9;

// A longer run is not suitable for a test of a thousand seeds.
constexpr uint64_t kLongestRun = 200;

bool InPair(const PlannedFault& fault) {
  return fault.kind == FaultKind::kPairCut || fault.kind == FaultKind::kOneWay;
}

// Returns true if the run can work with these lines: a peer that others can dial is healthy, and
// enough of the initial peers receive more than small packets.
bool Connected(const SwarmPlan& plan, const std::vector<PlannedFault>& lines) {
  std::set<int> touched;
  std::set<int> deaf;
  for (const PlannedFault& line : lines) {
    touched.insert(line.victim);
    if (InPair(line)) touched.insert(line.other);
    if (line.kind == FaultKind::kSmallPackets) deaf.insert(line.victim);
  }
  uint64_t trainers = 0;
  bool reducer = false;
  for (size_t i = 0; i < plan.peers.size(); ++i) {
    const SwarmPlan::Machine& peer = plan.peers[i];
    if (peer.joins_at != 0) continue;
    const int number = static_cast<int>(i);
    trainers += !peer.aggregator && deaf.count(number) == 0 ? 1 : 0;
    reducer = reducer || (!peer.dial_out && touched.count(number) == 0);
  }
  return reducer && trainers >= plan.quorum;
}

// Returns true if both ends are there from the start, and one would dial the other: otherwise the
// line cannot be noticed.
bool MayBeFelt(const SwarmPlan& plan, const PlannedFault& line) {
  const SwarmPlan::Machine& victim = plan.peers[static_cast<size_t>(line.victim)];
  const SwarmPlan::Machine& other = plan.peers[static_cast<size_t>(line.other)];
  if (victim.joins_at != 0) return false;
  if (line.kind == FaultKind::kHiddenAddress) return !victim.dial_out;
  return !InPair(line) || (other.joins_at == 0 && !(victim.dial_out && other.dial_out));
}

PlannedFault DrawLine(SimRandom& own, const SwarmPlan& plan) {
  constexpr std::array<FaultKind, 5> kKinds = {FaultKind::kHiddenAddress, FaultKind::kPairCut,
                                               FaultKind::kPairCut, FaultKind::kOneWay,
                                               FaultKind::kSmallPackets};
  const uint64_t peers = plan.peers.size();
  PlannedFault line;
  line.kind = kKinds[own.Below(kKinds.size())];
  line.victim = static_cast<int>(own.Below(peers));
  const uint64_t other = own.Below(peers - 1);
  line.other = static_cast<int>(other >= static_cast<uint64_t>(line.victim) ? other + 1 : other);
  line.after_commits = own.Below(2) == 0 ? 0 : 1 + own.Below(3);
  line.after = plan.peers.front().step * plan.inner_steps * 1.5 * own.Unit();
  line.lasts = absl::InfiniteDuration();
  line.amount = own.Next();
  line.stays = true;
  return line;
}

std::string Told(const v1::ReachDoubt& doubt) {
  return absl::StrCat("it is shown that ", doubt.from().empty() ? "the coordinator" : doubt.from(),
                      " cannot reach ", doubt.to(), " (", doubt.reason(), ")");
}

// No peer may lie, and none may be missing for another reason, so that what an entry lacks is due
// to its lines. In mode "async" an entry has whichever updates are ready: a pair may be needed for
// the first time in any round. If every chunk is audited, the inputs of all chunks go over the
// lines a second time, for which a peer on a slow line has no time in a round.
bool MayBeJudged(const SwarmPlan& plan) {
  const bool honest = std::all_of(plan.peers.begin(), plan.peers.end(), [](const auto& peer) {
    return peer.hostility == Hostility::kNone && !peer.forges &&
           peer.habit == SimWorker::Habit::kNone;
  });
  const bool slow = std::any_of(plan.peers.begin(), plan.peers.end(),
                                [](const auto& peer) { return peer.bytes_per_second > 0; });
  return honest && plan.mode != "async" && !plan.masked && plan.participation == 1 &&
         plan.drop == 0 && !(slow && plan.audit_share >= 1);
}

}  // namespace

// Draws lines in a quarter of the seeds that can be judged, with random numbers of its own, so that
// the rest of a seed's plan does not change. In a third of the seeds with faults a line fails in
// part for a while, after all other faults.
void DrawGrey(SwarmPlan* plan) {
  SimRandom own(SimRandom(plan->seed ^ 0x67726579).Next());
  const bool judged = own.Below(4) == 0 && MayBeJudged(*plan);
  const uint64_t tries = 1 + own.Below(3);
  plan->grey_stays = own.Below(2) == 0;
  for (uint64_t i = 0; judged && i < tries; ++i) {
    std::vector<PlannedFault> lines = plan->grey;
    lines.push_back(DrawLine(own, *plan));
    if (!MayBeFelt(*plan, lines.back())) continue;
    if (Connected(*plan, lines)) plan->grey = std::move(lines);
  }
  std::sort(plan->grey.begin(), plan->grey.end(), [](const auto& one, const auto& other) {
    return one.after_commits < other.after_commits;
  });
  if (!plan->grey.empty()) {
    const absl::Duration round = plan->peers.front().step * plan->inner_steps;
    const double timeouts = kJudgedTimeouts + 2 + 3 * static_cast<double>(plan->grey.size());
    const double more = timeouts * absl::FDivDuration(plan->failure_timeout, round);
    const uint64_t longest = std::max(plan->rounds, kLongestRun);
    plan->rounds += std::min(kMostRounds, static_cast<uint64_t>(8 + more));
    plan->rounds = std::min(plan->rounds, longest);
  }
  if (plan->faults.empty() || own.Below(3) != 0) return;
  PlannedFault fault = DrawLine(own, *plan);
  if (fault.kind == FaultKind::kOneWay) fault.kind = FaultKind::kPairCut;
  fault.stays = false;
  fault.after_commits = own.Below(3);
  fault.lasts = plan->failure_timeout * (0.3 + 4 * own.Unit());
  plan->faults.push_back(fault);
}

// -----------------------------------------------------------------------------------------------

void SwarmGrey::Begin(const PlannedFault& fault) {
  const auto& peers = cluster_.plan().peers;
  newest_ = cluster_.world().now();
  Line line{fault.kind,
            peers[static_cast<size_t>(fault.victim)].name,
            "",
            newest_,
            cluster_.version(),
            absl::InfiniteDuration(),
            0,
            0};
  if (InPair(fault)) line.b = peers[static_cast<size_t>(fault.other)].name;
  const bool meets = fault.kind != FaultKind::kSmallPackets && peers.size() <= kAllMeet;
  if (fault.after_commits == 0 && meets) line.met = newest_;
  lines_.push_back(std::move(line));
  faults_.Inject(fault);
}

bool SwarmGrey::Enough(uint64_t rounds) const {
  if (lines_.empty()) return true;
  return cluster_.world().now() >= newest_ + kJudgedTimeouts * cluster_.plan().failure_timeout &&
         cluster_.version() >= lines_.back().version + rounds;
}

void SwarmGrey::End(bool mend) {
  if (mend && !lines_.empty()) {
    faults_.EndAll();
    for (const Line& line : lines_) cluster_.invariants().Calm(line.a);
    lines_.clear();
  }
  judging_ = false;
}

void SwarmGrey::Check(absl::Duration round) {
  if (lines_.empty()) return;
  if (judging_) {
    Meet();
    CheckTime(round);
    CheckShown();
  }
  CheckPlan();
}

// A line that passes only small packets is new whenever something larger is first sent over it: for
// peers that send nothing larger it works.
void SwarmGrey::Meet() {
  for (const Line& line : lines_) {
    if (line.kind != FaultKind::kSmallPackets) continue;
    for (const SwarmPlan::Machine& peer : cluster_.plan().peers) {
      if (peer.name == line.a) continue;
      const absl::Duration since = cluster_.world().network().StuckSince(line.a, peer.name);
      if (since != absl::InfiniteDuration()) newest_ = std::max(newest_, since);
    }
  }
}

// The first round also waits for version 0, which may be where no other peer can get it; how long
// that may take is another law (Tick has its limit).
void SwarmGrey::CheckTime(absl::Duration round) {
  const absl::Duration now = cluster_.world().now();
  const absl::Duration patience = cluster_.plan().failure_timeout;
  if (cluster_.version() != version_) {
    version_ = cluster_.version();
    committed_ = now;
  }
  if (version_ == 0) return;
  // Small packets say that all is well: that nothing else arrives is seen after one time-out, and
  // that an update will not come either after another.
  const bool small = std::any_of(lines_.begin(), lines_.end(), [](const Line& line) {
    return line.kind == FaultKind::kSmallPackets;
  });
  // A small fragment passes such a line, so that of the next one it is news again.
  const bool again = small && cluster_.plan().mode == "streaming";
  const bool news = again || committed_ < newest_ + KnownAfter();
  const absl::Duration limit = round + (news ? (small ? 4 : 2) : 0.5) * patience;
  if (now <= committed_ + limit) return;
  cluster_.invariants().Violate(
      18, absl::StrCat("version ", version_ + 1, " was not committed within ",
                       absl::FormatDuration(limit), news ? ", one change of plan" : "", "; ",
                       lines_.size(), " lines fail, the newest since ",
                       absl::FormatDuration(now - newest_)));
}

bool SwarmGrey::Fails(const Line& line, const std::string& from, const std::string& to) {
  if (line.kind == FaultKind::kHiddenAddress) return to == line.a;
  if (line.kind == FaultKind::kSmallPackets) return from == line.a || to == line.a;
  return (from == line.a && to == line.b) || (from == line.b && to == line.a);
}

// A plan that is made when all lines are known needs none of them.
void SwarmGrey::CheckPlan() {
  const uint64_t told = cluster_.invariants().plans_told();
  if (std::exchange(plans_, told) == told) return;
  const v1::Plan& plan = cluster_.invariants().newest_plan();
  const std::set<std::string> lost(plan.lost().begin(), plan.lost().end());
  for (const v1::Shard& shard : plan.shards()) {
    for (int i = 0; shard.chunks() != 0 && i < plan.contributors_size(); ++i) {
      const std::string& from = plan.contributors(i).peer();
      if (lost.count(from) > 0) continue;
      std::string to = shard.reducer();
      for (const v1::Relay& relay : shard.relays()) {
        const bool member = relay.members()[static_cast<size_t>(i) / 8] >> (i % 8) & 1;
        if (member && relay.peer() != from) to = relay.peer();
      }
      if (from != to) CheckNeeded(plan, from, to);
    }
  }
}

void SwarmGrey::CheckNeeded(const v1::Plan& plan, const std::string& from, const std::string& to) {
  const absl::Duration now = cluster_.world().now();
  for (Line& line : lines_) {
    if (line.kind == FaultKind::kSmallPackets || !Fails(line, from, to)) continue;
    if (line.met == absl::InfiniteDuration()) line.met = newest_ = now;
    if (!judging_ || !Known(line.met)) {
      Feel(&line);
      continue;
    }
    cluster_.invariants().Violate(
        18, absl::StrCat("a plan of version ", plan.version(), " needs that ", from, " reaches ",
                         to, ", which it cannot since ", absl::FormatDuration(now - line.since)));
  }
}

// It now counts as a disturbance of both, as far as the exchange that has begun is concerned.
void SwarmGrey::Feel(Line* line) {
  if (std::exchange(line->felt_in, plans_) == plans_ || ++line->felt > kMostFelt) return;
  cluster_.Disturb(line->a, cluster_.world().now());
  if (!line->b.empty()) cluster_.Disturb(line->b, cluster_.world().now());
}

bool SwarmGrey::Here(const std::string& peer) const {
  const auto& peers = cluster_.shown().peers();
  return std::any_of(peers.begin(), peers.end(), [&](const v1::PeerStatus& one) {
    return one.member().peer() == peer && one.member().state() == "live";
  });
}

// Each known line is shown, and no line that works.
void SwarmGrey::CheckShown() {
  const v1::RunStatus& shown = cluster_.shown();
  if (shown.peers().empty()) return;
  for (const Line& line : lines_) {
    const bool here = Here(line.a) && (line.b.empty() || Here(line.b));
    if (!here || !Known(line.met)) continue;
    const bool named = std::any_of(
        shown.doubts().begin(), shown.doubts().end(),
        [&](const v1::ReachDoubt& doubt) { return Fails(line, doubt.from(), doubt.to()); });
    if (named) continue;
    cluster_.invariants().Violate(
        18,
        absl::StrCat(FaultName(line.kind), " of ", line.a, line.b.empty() ? "" : " and ", line.b,
                     " since ", absl::FormatDuration(cluster_.world().now() - line.since),
                     ", and nothing that is shown names it"));
  }
  for (const v1::ReachDoubt& doubt : shown.doubts()) {
    const bool holds = std::any_of(lines_.begin(), lines_.end(), [&](const Line& line) {
      return Fails(line, doubt.from(), doubt.to());
    });
    if (!holds) cluster_.invariants().Violate(18, absl::StrCat(Told(doubt), ", and nothing fails"));
  }
}

std::string SwarmGrey::StillShown() const {
  const auto& doubts = cluster_.shown().doubts();
  return doubts.empty() ? "" : Told(doubts[0]);
}

}  // namespace atolld
