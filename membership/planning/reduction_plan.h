// Who averages which part of an entry: how the vector is divided among reducers (ShardWeights), and
// the plan of one exchange with all its changes (ReductionPlan).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "atoll/v1/membership.pb.h"

namespace atolld {

// How the parameter vector is divided among reducers so that a flat exchange takes the least time.
//
// Contributor i sends what others reduce and, as reducer, its means to the n-1 others: (1 - w_i) +
// (n-1) w_i = 1 + (n-2) w_i of the vector, at b_i. The plan minimises the largest of
// these times. Pure functions.

// Minimises max_i (1 + (n-2) w_i) / b_i over the reducers, sum w = 1, w_i = 0 where b_i is 0 (not
// reachable):
//   xi = max(1 / b_min, (n - 2 + m) / sum b),  w_i proportional to (xi b_i - 1) / (n - 2),
//   m the number with b_i > 0.
// n < 3: equal shares of the reachable, whatever b. `bandwidths` has one value a contributor, any
// common unit, none negative, at least one positive.
std::vector<double> ShardWeights(absl::Span<const double> bandwidths);

// Whole chunks in these proportions, by largest remainder, the earlier first among equals. They sum
// to `chunks`, and a weight of 0 gets none.
std::vector<uint32_t> SplitChunks(uint32_t chunks, absl::Span<const double> weights);

// -----------------------------------------------------------------------------------------------
// ReductionPlan: who averages which part of an entry, and who takes over when one of them is lost.
//
// Every shard has a reducer: a contributor, or, where no contributor can be reached, an aggregator,
// a peer that trains nothing. Where regions count, each other region with two contributors or more
// has a relay for the shard: it averages its region's chunks and sends one partial mean on. A lost
// reducer's shard goes to a holder, a peer that has every mean of it (the attempt stays), or else
// to the reducer whose line is done first, and everything about the shard begins anew under its
// next attempt. Laws: the contributors, their weights and the shards' bounds never change; one
// (shard, attempt) has one reducer. Pure; one thread.

// How groups of contributors average first where there are too many for one level: each region is
// divided into groups of about equal size, in roster order; those of no region are together one.
struct Grouping {
  size_t members =
      0;  // of a group, at most; 0: no groups, and whole regions where by_region says so
  size_t relays = 0;  // of a group: so many of its peers at most share its shards

  bool any() const { return members > 0; }
};

// The group of each peer, by its region: "eu/0", "eu/1".
std::vector<std::string> GroupsOf(const Grouping& grouping,
                                  const std::vector<std::string>& regions);

// One contributor as the plan needs it.
struct ExchangeContributor {
  v1::PlanMember member;
  bool may_reduce = true;  // false: it has an address, but was not reachable lately
  // The last attempt failed, and nobody else could have reduced; not to be tried again yet.
  bool dialled_in_vain = false;
  // False: no shard is planned for it, though it may reduce and takes over from others.
  bool has_shard = true;
  double bandwidth = 1;     // any unit common to all; the same for all: equal shards
  std::string region = "";  // empty: one of its own
  bool slow = false;        // its update is in the run's slow_codec
};

// A peer that trains nothing and may reduce. It holds the state that the entry is made against.
struct ExchangeAggregator {
  std::string peer;
  std::string address;
  bool may_reduce = true;        // as a contributor's
  bool dialled_in_vain = false;  // as a contributor's
  std::string region = "";
};

struct ExchangeTerms {
  uint64_t version = 0;
  uint64_t epoch = 0;
  uint64_t parameters = 0;
  uint32_t chunk_elements = 1;
  uint32_t quorum = 1;
  bool by_region = false;  // each region averages first
  Grouping grouping;       // or each group of a region
  absl::Duration deadline;
  std::string state_digest;  // of state version-1 where it is known (the genesis); empty: the
                             // votes' majority
  // Of the chunks, those that are recomputed before the commit, drawn by the digest of the header
  // before and a nonce of 32 bytes, another one for each revision. 0: none.
  float audit_share = 0;
  std::string previous_header_digest;
  std::function<std::string()> draw_nonce;
  // Who said lately that it cannot reach whom, and nobody else did: accused, by accuser.
  std::map<std::string, std::set<std::string>> accused;
  // In roster order. They reduce only where no contributor can that was reachable lately.
  std::vector<ExchangeAggregator> aggregators;
};

// For each of them whether shards are planned for it: it can be dialled and was reachable lately.
// Who was not reduces only if nobody else can, and who is alone for itself.
// Where aggregators reduce, nobody of them does.
std::vector<bool> WhoReduces(const ExchangeTerms& terms,
                             const std::vector<ExchangeContributor>& contributors);

class ReductionPlan {
 public:
  // `contributors` in roster order, at least one that can reduce.
  ReductionPlan(const ExchangeTerms& terms, const std::vector<ExchangeContributor>& contributors);

  const v1::Plan& proto() const { return plan_; }
  bool Contributes(const std::string& peer) const { return contributors_.count(peer) > 0; }
  std::vector<std::string> Present() const;  // contributors that are not lost, roster order
  bool Lost(const std::string& peer) const { return lost_.count(peer) > 0; }
  const std::set<std::string>& lost() const { return lost_; }
  // Contributes, or is an aggregator that may reduce.
  bool TakesPart(const std::string& peer) const {
    return Contributes(peer) || aggregators_.count(peer) > 0;
  }
  std::vector<std::string> Voters() const;  // Present(), and aggregators that reduce, not lost
  const std::set<std::string>& unreachable() const { return unreachable_; }
  // Others can fetch from it what it has. A contributor that was alone from the start counts.
  bool Dialable(const std::string& peer) const {
    return aggregators_.count(peer) > 0 || contributors_.at(peer).may_reduce;
  }
  bool Serves(const std::string& peer) const;  // reduces, relays or holds something

  // It lacks a mean of what it was to hold: the shards that it holds go to another holder, or begin
  // anew under their next attempt, and it is no holder of them any more. False: it holds none, or
  // nobody can take one over; nothing has changed then.
  bool TakeHeldFrom(const std::string& peer, std::vector<std::string>* events);

  // It has every mean of shard number `shard` under `attempt`. Nonsense is ignored.
  void NoteHeld(const std::string& peer, uint32_t shard, uint32_t attempt);

  void Lose(const std::string& peer) { lost_.insert(peer); }
  bool MarkUnreachable(const std::string& peer) { return unreachable_.insert(peer).second; }
  // These take nothing over while anybody else can: there is a word against them that nobody has
  // confirmed, or they have spoken one. What they do now they go on with.
  void SetShunned(std::set<std::string> peers) { shunned_ = std::move(peers); }
  // Whether somebody who is not shunned can take over from these.
  bool OthersCanReduce(const std::set<std::string>& than) const;

  // Takes everything from these peers. False: nobody can take a shard over; the plan is then half
  // changed and must not be sent. `events` gets what happened, for people.
  bool MoveFrom(const std::set<std::string>& peers, std::vector<std::string>* events);
  // Every shard goes to another reducer under its next attempt. False: there is no reducer.
  bool RotateAll();
  // All begins anew at these, without relays, and nobody else reduces from now on. False: none of
  // them can; nothing has changed then.
  bool RedoAllAt(const std::vector<std::string>& reducers);
  // Of the peers that are there, those that may reduce now; the shunned only if nobody else can.
  std::vector<std::string> Reducers() const;
  // Every shard that one of these reduces or relays, or that a lost peer serves, goes to another
  // reducer under its next attempt. False: nobody else can reduce; nothing has changed then.
  bool Redo(const std::set<std::string>& peers);
  // Of the nonce that the revision's audit will be drawn with.
  void Commit(const std::string& commitment) { plan_.set_audit_commitment(commitment); }
  // Makes what has changed a new revision.
  void Revise();

 private:
  struct Contributor {
    bool may_reduce = false;  // has an address
    std::string group;        // it averages first with these; empty: with nobody
    int position = 0;         // its bit
    double bandwidth = 1;
  };

  void CutByBandwidth(const std::vector<double>& bandwidths, const std::vector<std::string>& peers,
                      uint32_t chunks);
  void SetReducer(const std::string& peer, v1::Shard* shard) const;
  const std::string& GroupOf(const std::string& peer) const;
  bool Able(const std::string& peer) const;  // to serve others
  std::vector<std::string> AbleOnes(bool shunned) const;
  using ChunksServed = std::map<std::string, uint64_t>;  // by peer
  ChunksServed Load(const std::set<std::string>& without) const;
  std::string FirstDone(const ChunksServed& load, uint64_t more) const;
  std::string HolderOf(int shard, const ChunksServed& load) const;
  bool GiveAway(int shard, ChunksServed* load, std::string* taker);
  void BeginAnew(int shard, const std::string& reducer);
  void AssignRelays(int shard);
  std::string Bitmap(const std::vector<std::string>& peers) const;

  bool relayed_;        // groups average first
  size_t most_relays_;  // of a group
  v1::Plan plan_;
  std::map<std::string, Contributor> contributors_;
  std::map<std::string, ExchangeAggregator> aggregators_;
  std::set<std::string> lost_;
  std::set<std::string> unreachable_;
  std::set<std::string> shunned_;
  std::set<std::string> only_;                                // reduce; empty: whoever can
  std::map<std::string, std::map<uint32_t, uint32_t>> held_;  // attempt, by peer and shard
};

}  // namespace atolld
