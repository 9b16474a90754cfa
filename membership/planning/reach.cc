#include "membership/planning/reach.h"

#include <algorithm>
#include <functional>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compression/base/planted_bug.h"

namespace atolld {
namespace {

// A peer dials a doubted one again after failure_timeout, or after a few seconds if that is
// shorter.
constexpr int kLifetimes = 4;
constexpr absl::Duration kLeastPause = absl::Seconds(5);

// The most names in one sentence; the rest are counted.
constexpr size_t kMostNamed = 4;

std::string Named(const std::vector<std::string>& peers) {
  const size_t named = std::min(peers.size(), kMostNamed);
  std::string text =
      absl::StrJoin(peers.begin(), peers.begin() + static_cast<ptrdiff_t>(named), ", ");
  if (peers.size() > named) absl::StrAppend(&text, " and ", peers.size() - named, " more");
  return text;
}

// Returns text such as "for 12s".
std::string For(absl::Duration time) {
  return absl::StrCat("for ", absl::FormatDuration(
                                  std::max(absl::Trunc(time, absl::Seconds(1)), absl::Seconds(1))));
}

std::string NameOf(const std::string& dials) {
  return dials == kCoordinatorDials ? "the coordinator" : dials;
}

}  // namespace

absl::Duration Reach::Lifetime() const {
  return kLifetimes * std::max(failure_timeout_, kLeastPause);
}

bool Reach::NoteInVain(absl::Time now, const std::string& from, const std::string& to,
                       const std::string& reason) {
  if (from == to) return false;
  const auto known = doubts_.find(to);
  const bool fresh = known == doubts_.end() || known->second.count(from) == 0;
  if (fresh) {
    size_t of_this = 0;
    for (const auto& [accused, accounts] : doubts_) of_this += accounts.count(from);
    if (of_this >= kMostOfOne && from != kCoordinatorDials) return false;
    doubts_[to][from].since = now;
  }
  Heard& heard = doubts_[to][from];
  heard.repeated = now;
  heard.reason = reason;
  return fresh;
}

bool Reach::NoteAnswered(const std::string& from, const std::string& to) {
  aside_.erase(
      std::remove_if(aside_.begin(), aside_.end(),
                     [&](const Aside& doubt) { return doubt.from == from && doubt.to == to; }),
      aside_.end());
  const auto found = doubts_.find(to);
  if (found == doubts_.end() || found->second.erase(from) == 0) return false;
  if (found->second.empty()) doubts_.erase(found);
  return true;
}

void Reach::SetAside(const std::string& peer) {
  std::vector<Aside> named;
  for (const auto& [to, accounts] : doubts_) {
    for (const auto& [from, heard] : accounts) {
      if (from == peer || to == peer) named.push_back({from, to, heard});
    }
  }
  for (const Aside& doubt : named) NoteAnswered(doubt.from, doubt.to);
  aside_.insert(aside_.end(), named.begin(), named.end());
}

std::set<std::string> Reach::TakeUp(const std::string& peer,
                                    const std::function<bool(const std::string&)>& here) {
  std::set<std::string> accused;
  for (const Aside& doubt : std::exchange(aside_, {})) {
    const bool names = doubt.from == peer || doubt.to == peer;
    const std::string& other = doubt.from == peer ? doubt.to : doubt.from;
    if (!names || (other != kCoordinatorDials && !here(other))) {
      aside_.push_back(doubt);
    } else if (!InDoubt(doubt.from, doubt.to)) {
      doubts_[doubt.to][doubt.from] = doubt.heard;
      accused.insert(doubt.to);
    }
  }
  return accused;
}

void Reach::Forget(const std::string& peer) {
  aside_.erase(
      std::remove_if(aside_.begin(), aside_.end(),
                     [&](const Aside& doubt) { return doubt.from == peer || doubt.to == peer; }),
      aside_.end());
  doubts_.erase(peer);
  for (auto it = doubts_.begin(); it != doubts_.end();) {
    it->second.erase(peer);
    it = it->second.empty() ? doubts_.erase(it) : std::next(it);
  }
}

std::vector<Reach::Doubt> Reach::Lapse(absl::Time now,
                                       const std::function<absl::Time(const std::string&)>& heard) {
  std::vector<Doubt> lapsed;
  const absl::Duration lifetime =
      Planted(PlantedBug::kPairForgotten) ? failure_timeout_ / 4 : Lifetime();
  const auto old = [&](const std::string& from, const Heard& doubt) {
    return (from == kCoordinatorDials ? now : heard(from)) - doubt.repeated >= lifetime;
  };
  for (const Doubt& doubt : All()) {
    if (!old(doubt.from, doubts_.at(doubt.to).at(doubt.from))) continue;
    NoteAnswered(doubt.from, doubt.to);
    lapsed.push_back(doubt);
  }
  aside_.erase(std::remove_if(aside_.begin(), aside_.end(),
                              [&](const Aside& doubt) { return old(doubt.from, doubt.heard); }),
               aside_.end());
  return lapsed;
}

bool Reach::InDoubt(const std::string& from, const std::string& to) const {
  const auto found = doubts_.find(to);
  return found != doubts_.end() && found->second.count(from) > 0;
}

std::set<std::string> Reach::Accusers(const std::string& to) const {
  std::set<std::string> accusers;
  const auto found = doubts_.find(to);
  if (found == doubts_.end()) return accusers;
  for (const auto& [from, heard] : found->second) accusers.insert(from);
  return accusers;
}

std::vector<Reach::Doubt> Reach::All() const {
  std::vector<Doubt> all;
  for (const auto& [to, accounts] : doubts_) {
    for (const auto& [from, heard] : accounts) {
      all.push_back({from, to, heard.since, heard.reason});
    }
  }
  return all;
}

std::map<std::string, std::set<std::string>> Reach::ByAccused() const {
  std::map<std::string, std::set<std::string>> accusers;
  for (const auto& [to, accounts] : doubts_) accusers[to] = Accusers(to);
  return accusers;
}

std::string Reach::Told(absl::Time now, const std::string& peer, const std::string& address) const {
  const auto found = doubts_.find(peer);
  if (found != doubts_.end() && (Unreachable(peer) || InDoubt(kCoordinatorDials, peer))) {
    absl::Time since = absl::InfiniteFuture();
    std::vector<std::string> who;
    for (const auto& [from, heard] : found->second) {
      since = std::min(since, heard.since);
      who.push_back(NameOf(from));
    }
    return absl::StrCat("others cannot dial ", address, " (", Named(who), ", ", For(now - since),
                        "): a firewall? It takes part all the same, since it dials out; open the "
                        "port, or set [peer] advertise = \"none\"");
  }
  std::vector<std::string> cannot;
  absl::Time since = absl::InfiniteFuture();
  for (const auto& [to, accounts] : doubts_) {
    const auto own = accounts.find(peer);
    if (own == accounts.end() || accounts.size() > 1) continue;
    cannot.push_back(to);
    since = std::min(since, own->second.since);
  }
  if (!cannot.empty()) {
    return absl::StrCat("it alone cannot reach ", Named(cannot), " (", For(now - since),
                        "): look at the network between them; others average for them meanwhile");
  }
  if (found == doubts_.end()) return "";
  const auto& [from, heard] = *found->second.begin();
  return absl::StrCat(NameOf(from), " alone cannot reach it (", For(now - heard.since),
                      "): look at the network between them; others average for them meanwhile");
}

// -----------------------------------------------------------------------------------------------

size_t MostAccused(size_t contributors) { return std::max<size_t>(1, contributors / 4); }

namespace {

using Accusers = std::map<std::string, std::set<std::string>>;

bool Dialable(const ExchangeContributor& contributor) {
  return !contributor.member.address().empty();
}

// Plans one exchange from its contributors and the known doubts among them.
class Planning {
 public:
  explicit Planning(const AroundQuestion& question);

  Around Plan();

 private:
  size_t Left() const { return question_.contributors.size() - around_.left_out.size(); }
  bool MayLeaveOut(size_t more) const {
    return question_.may_leave_out && Left() >= question_.least + more && Left() > more;
  }
  std::vector<std::string> AccusedByAlone(const std::string& peer) const;
  void LeaveOutWhoAccusesMany();
  void SpareDoubted();
  bool AnyReducer() const;
  size_t ReachedBy(const std::string& reducer) const;
  bool MayReduce(const std::string& peer) const;
  std::vector<std::string> Candidates() const;
  std::set<std::string> CutOffFrom(const std::string& reducer) const;
  std::string Star() const;
  void ReduceAlone(const std::string& reducer);

  const AroundQuestion& question_;
  Accusers doubts_;
  Around around_;
};

Planning::Planning(const AroundQuestion& question) : question_(question) {
  std::set<std::string> heard = {kCoordinatorDials};
  for (const ExchangeContributor& one : question.contributors) heard.insert(one.member.peer());
  for (const auto& [to, accusers] : question.doubts) {
    const bool counts = accusers.size() > 1 || heard.count(*accusers.begin()) > 0;
    if (counts) doubts_[to] = accusers;
  }
}

std::vector<std::string> Planning::AccusedByAlone(const std::string& peer) const {
  std::vector<std::string> accused;
  for (const auto& [to, accusers] : doubts_) {
    if (accusers.size() == 1 && *accusers.begin() == peer) accused.push_back(to);
  }
  return accused;
}

void Planning::LeaveOutWhoAccusesMany() {
  for (const ExchangeContributor& contributor : question_.contributors) {
    const std::string& peer = contributor.member.peer();
    const std::vector<std::string> accused = AccusedByAlone(peer);
    if (accused.size() <= MostAccused(question_.contributors.size()) || !MayLeaveOut(1)) continue;
    around_.left_out.insert(peer);
    for (const std::string& to : accused) doubts_.erase(to);
  }
}

void Planning::SpareDoubted() {
  for (const auto& [to, accusers] : doubts_) {
    around_.spared.insert(to);
    if (accusers.size() == 1) around_.spared.insert(*accusers.begin());
  }
}

bool Planning::AnyReducer() const {
  const bool contributor = std::any_of(
      question_.contributors.begin(), question_.contributors.end(), [&](const auto& one) {
        return Dialable(one) && one.may_reduce && around_.spared.count(one.member.peer()) == 0 &&
               around_.left_out.count(one.member.peer()) == 0;
      });
  return contributor ||
         std::any_of(question_.aggregators.begin(), question_.aggregators.end(),
                     [&](const auto& one) { return around_.spared.count(one.peer) == 0; });
}

size_t Planning::ReachedBy(const std::string& reducer) const {
  const auto found = doubts_.find(reducer);
  return static_cast<size_t>(std::count_if(
      question_.contributors.begin(), question_.contributors.end(), [&](const auto& one) {
        const std::string& peer = one.member.peer();
        return around_.left_out.count(peer) == 0 &&
               (found == doubts_.end() || found->second.count(peer) == 0);
      }));
}

// Returns true unless the peer's averages were thin and there is another peer.
bool Planning::MayReduce(const std::string& peer) const {
  return std::none_of(
      question_.contributors.begin(), question_.contributors.end(),
      [&](const auto& one) { return one.member.peer() == peer && !one.may_reduce; });
}

// Returns the peers in this order: those that most others can reach first; among equals one that
// accuses no peer alone; then roster order.
std::vector<std::string> Planning::Candidates() const {
  std::vector<std::string> candidates;
  for (const ExchangeContributor& one : question_.contributors) {
    if (Dialable(one) && around_.left_out.count(one.member.peer()) == 0) {
      candidates.push_back(one.member.peer());
    }
  }
  for (const ExchangeAggregator& one : question_.aggregators) candidates.push_back(one.peer);
  std::stable_sort(candidates.begin(), candidates.end(), [&](const auto& a, const auto& b) {
    const auto rank = [&](const std::string& peer) {
      return std::make_tuple(MayReduce(peer), ReachedBy(peer), AccusedByAlone(peer).empty());
    };
    return rank(a) > rank(b);
  });
  return candidates;
}

std::set<std::string> Planning::CutOffFrom(const std::string& reducer) const {
  std::set<std::string> cut_off;
  const auto accusers = doubts_.find(reducer);
  if (accusers == doubts_.end()) return cut_off;
  for (const ExchangeContributor& one : question_.contributors) {
    const std::string& peer = one.member.peer();
    const bool doubts = accusers->second.count(peer) > 0;
    if (doubts && around_.left_out.count(peer) == 0) cut_off.insert(peer);
  }
  return cut_off;
}

// Returns an empty string if there is none.
std::string Planning::Star() const {
  std::vector<std::string> candidates = Candidates();
  const auto needs_doubted = [this](const std::string& peer) {
    const size_t cut_off = CutOffFrom(peer).size();
    return cut_off > 0 && !MayLeaveOut(cut_off);
  };
  // Peers that may reduce come first. The others count only if none of the first will do, and that
  // not by their own word alone: a peer that accuses the others is the only one that all can reach.
  const auto thin = std::find_if(candidates.begin(), candidates.end(),
                                 [this](const std::string& peer) { return !MayReduce(peer); });
  const auto will_not_do = [&](const std::string& peer) {
    const auto accusers = doubts_.find(peer);
    return accusers != doubts_.end() && needs_doubted(peer) &&
           std::any_of(accusers->second.begin(), accusers->second.end(),
                       [this](const std::string& accuser) { return MayReduce(accuser); });
  };
  const bool without = std::any_of(candidates.begin(), thin, std::not_fn(will_not_do)) ||
                       std::all_of(thin, candidates.end(), needs_doubted);
  if (thin != candidates.begin() && without) candidates.erase(thin, candidates.end());
  const bool any = !std::all_of(candidates.begin(), candidates.end(), needs_doubted);
  std::string star;
  size_t longest = 0;  // attempts since it was the star, plus one
  for (const std::string& candidate : candidates) {
    if (any && needs_doubted(candidate)) continue;
    const auto& silent = question_.silent;
    const auto last = std::find(silent.rbegin(), silent.rend(), candidate);
    // More than all if it never was.
    const auto since = static_cast<size_t>(last - silent.rbegin()) + 1;
    if (since <= longest) continue;
    longest = since;
    star = candidate;
  }
  return star;
}

void Planning::ReduceAlone(const std::string& reducer) {
  const std::set<std::string> cut_off = CutOffFrom(reducer);
  for (const ExchangeContributor& one : question_.contributors) {
    around_.spared.insert(one.member.peer());
  }
  for (const ExchangeAggregator& one : question_.aggregators) around_.spared.insert(one.peer);
  around_.spared.erase(reducer);
  around_.alone = reducer;
  if (MayLeaveOut(cut_off.size())) around_.left_out.insert(cut_off.begin(), cut_off.end());
}

Around Planning::Plan() {
  if (question_.contributors.size() < 2) return around_;
  if (doubts_.empty() && question_.silent.empty()) return around_;
  LeaveOutWhoAccusesMany();
  SpareDoubted();
  if (AnyReducer() && question_.silent.empty()) return around_;
  const std::string star = Star();
  if (!star.empty()) ReduceAlone(star);
  return around_;
}

}  // namespace

Around PlanAround(const AroundQuestion& question) {
  if (Planted(PlantedBug::kSamePlanAgain)) return Around();
  return Planning(question).Plan();
}

}  // namespace atolld
