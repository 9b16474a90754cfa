// Records which peers cannot reach which other peers (Reach), and plans an exchange so that it does
// not need these connections (PlanAround).
//
// A firewall that drops packets, a missing route between two machines, or a line that passes only
// small packets neither breaks a connection nor refuses a dial. Each dial that gets no answer is
// therefore reported at once, and the report counts until the same dial has been answered.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "membership/planning/reduction_plan.h"

namespace atolld {

// The name under which the coordinator's own dials are recorded.
inline constexpr char kCoordinatorDials[] = "";

// Reach: the dials of a run that got no answer. Each is a doubt of the form "`from` cannot reach
// `to`".
//
// A doubt ends when `from` reports that `to` answers, when either of them restarts or leaves, or
// when `from` speaks and has not repeated it for Lifetime(). A peer that is not heard cannot repeat
// its doubts, so they do not grow older meanwhile. While one of them is gone the doubt does not
// count.
// The report of one peer alone is never decisive, because that peer may lie or may itself be cut
// off. A peer counts as unreachable if two peers report it; the coordinator's own dial counts as
// one of the two. At most kMostOfOne doubts of one peer are kept. Pure. Used by one thread.
class Reach {
 public:
  struct Doubt {
    std::string from;  // kCoordinatorDials for the coordinator
    std::string to;
    absl::Time since;
    std::string reason;  // in the words of the peer that dialled
  };

  static constexpr size_t kMostOfOne = 64;

  explicit Reach(absl::Duration failure_timeout) : failure_timeout_(failure_timeout) {}

  // Returns how long a doubt lasts without being repeated. This is several times the pause between
  // two dials of a peer.
  absl::Duration Lifetime() const;

  // Records a dial without an answer. Returns true if the doubt is new.
  bool NoteInVain(absl::Time now, const std::string& from, const std::string& to,
                  const std::string& reason);
  // Records a dial that was answered. Returns true if there was a doubt about it, which is now
  // over.
  bool NoteAnswered(const std::string& from, const std::string& to);
  // Drops all doubts about the peer. Called when it has restarted, has another address, or is gone
  // for good.
  void Forget(const std::string& peer);
  // Called when the peer is gone: the doubts that name it count no longer, and are remembered until
  // Lapse drops them. A report that a dial was answered ends what is remembered of it as well.
  void SetAside(const std::string& peer);
  // Called when the same process is here again. What is remembered counts again, with its former
  // times, unless the other of the two is not `here` either. Returns the peers that it accuses.
  std::set<std::string> TakeUp(const std::string& peer,
                               const std::function<bool(const std::string&)>& here);
  // Drops the doubts that `from` has not repeated although it was heard Lifetime() later, and
  // returns those that counted. `heard` returns when a peer last said anything after its Hello; it
  // is not asked about the coordinator, which can always dial again.
  std::vector<Doubt> Lapse(absl::Time now,
                           const std::function<absl::Time(const std::string&)>& heard);

  bool InDoubt(const std::string& from, const std::string& to) const;
  // Returns true if two or more peers report that they cannot reach `to`.
  bool Unreachable(const std::string& to) const { return Accusers(to).size() > 1; }
  std::set<std::string> Accusers(const std::string& to) const;
  std::vector<Doubt> All() const;  // sorted by `to`, then `from`
  bool empty() const { return doubts_.empty(); }

  // Returns one sentence for the owner of `peer` about its doubts, or an empty string if no doubt
  // names it, as the peer that dialled or as the one dialled. `address` is the address at which it
  // is dialled.
  std::string Told(absl::Time now, const std::string& peer, const std::string& address) const;

  // Returns, for each accused peer, the peers that cannot reach it.
  std::map<std::string, std::set<std::string>> ByAccused() const;

 private:
  struct Heard {
    absl::Time since;
    absl::Time repeated;
    std::string reason;
  };
  // The reports about one peer, by the peer that dialled.
  using Accounts = std::map<std::string, Heard>;

  // One doubt of which one peer is away, or both are.
  struct Aside {
    std::string from;
    std::string to;
    Heard heard;
  };

  const absl::Duration failure_timeout_;
  std::map<std::string, Accounts> doubts_;  // by the peer that was dialled
  std::vector<Aside> aside_;
};

// -----------------------------------------------------------------------------------------------

// Around: the plan of an exchange in which some contributors cannot reach others: which peers take
// part, and which of them may reduce.
//
// A contributor dials each reducer, so every reducer must be reachable by all contributors. Laws:
// if only one peer of a pair reports that it cannot reach the other, neither of them reduces, so a
// false report gains nothing. The report of a peer that does not contribute counts only if another
// peer confirms it. A contributor that is alone in reporting many others is left out if a quorum
// remains without it. If no peer is left that all can reach, the peer that most can reach reduces
// alone, and the peers that cannot reach it are left out if a quorum remains. Pure. May be called
// from any thread.
struct Around {
  std::set<std::string> spared;    // contributors and aggregators that may not reduce
  std::set<std::string> left_out;  // contributors that do not take part
  // The peer that reduces alone; empty if every peer that may reduce does.
  std::string alone;
};

struct AroundQuestion {
  absl::Span<const ExchangeContributor> contributors;  // in roster order
  absl::Span<const ExchangeAggregator> aggregators;
  // The accusers of each accused peer.
  const std::map<std::string, std::set<std::string>>& doubts;
  size_t least = 1;           // the fewest contributors that must be left
  bool may_leave_out = true;  // false if all contributors take part
  // The attempts at this entry that ended without votes, oldest first: for each, the peer that
  // reduced alone, or "" if several reduced. After such an attempt the next one has a single
  // reducer, which may be a contributor or an aggregator. It is a peer that takes part and that all
  // others can reach, if there is one; among these it is the one that has not reduced alone for
  // longest and, among equals, the best. No plan is therefore tried twice while there is another
  // that may work.
  absl::Span<const std::string> silent = {};
};

Around PlanAround(const AroundQuestion& question);

// Returns how many reducers one contributor may report as unreachable, without confirmation by
// another peer, before it is left out of the exchange itself.
size_t MostAccused(size_t contributors);

}  // namespace atolld
