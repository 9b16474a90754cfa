// Decides which peer averages which part of an entry: divides the vector among reducers
// (ShardWeights), and keeps the plan of one exchange with all its changes (ReductionPlan).
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
#include "membership/history/payload.h"

namespace atolld {

// ShardWeights divides the parameter vector among reducers so that a flat exchange takes the least
// time.
//
// Contributor i sends its own update's parts to their reducers and, as a reducer itself, its means
// to the n-1 others. Together this is (1 - w_i) + (n-1) w_i = 1 + (n-2) w_i of the vector, at the
// rate b_i. The weights minimise the largest of these times. Pure. May be called from any thread.

// Minimises max_i (1 + (n-2) w_i) / b_i over the reducers, with sum w = 1 and w_i = 0 if b_i is 0
// (not reachable):
//   xi = max(1 / b_min, (n - 2 + m) / sum b),  w_i proportional to (xi b_i - 1) / (n - 2),
//   m the number with b_i > 0.
// If n < 3, the reachable contributors get equal shares, whatever b is. `bandwidths` has one value
// for each contributor, in any common unit; none is negative and at least one is positive.
std::vector<double> ShardWeights(absl::Span<const double> bandwidths);

// Divides whole chunks in these proportions by the largest-remainder method; among equal remainders
// the earlier comes first. The results sum to `chunks`, and a weight of 0 gets no chunk.
std::vector<uint32_t> SplitChunks(uint32_t chunks, absl::Span<const double> weights);

// -----------------------------------------------------------------------------------------------
// ReductionPlan: records which peer averages which part of an entry, and decides which one takes
// over when a peer is lost.
//
// Every shard has a reducer. This is a contributor or, if no contributor can be reached, an
// aggregator, which is a peer that trains nothing. In a plan by region, each region other than the
// reducer's with two or more contributors has a relay for the shard, which averages its region's
// chunks and sends one partial mean to the reducer. When a reducer is lost, its shard goes to a
// holder, which is a peer that has every mean of the shard, and the attempt number of the shard
// stays the same. If there is no holder, the shard goes to the reducer that will finish first, and
// is averaged anew under its next attempt number. Laws: the contributors, their weights and the
// shards' bounds never change; one (shard, attempt) has one reducer. Pure. Used by one thread.

// How contributors are grouped to average first if there are too many for one level. Each region is
// divided into groups of about equal size, in roster order; the peers without a region form one
// region together.
struct Grouping {
  // The most members of a group. If it is 0 there are no groups, and ExchangeTerms::by_region
  // decides whether whole regions average first.
  size_t members = 0;
  // The most peers of a group that share its shards.
  size_t relays = 0;

  bool any() const { return members > 0; }
};

// Returns the group of each peer, named after its region: "eu/0", "eu/1".
std::vector<std::string> GroupsOf(const Grouping& grouping,
                                  const std::vector<std::string>& regions);

// What the plan must know about one contributor.
struct ExchangeContributor {
  v1::PlanMember member;
  // False if the contributor has an address but was not reachable lately.
  bool may_reduce = true;
  // True if an attempt has just failed because the contributor could not be dialled and no other
  // peer could have reduced. It must not be tried again yet.
  bool dialled_in_vain = false;
  // False if no shard is planned for the contributor at first. It may still take one over later.
  bool has_shard = true;
  // The rate of its line, in any unit common to all contributors; if all are equal, so are the
  // shards.
  double bandwidth = 1;
  std::string region = "";  // empty if the contributor forms a region of its own
  bool slow = false;        // true if the contributor's update is in slow_codec
  uint32_t age = 0;         // the number of entries that its update has missed
  double share = 1;         // the share of the model's values that its update covers; above 0
};

// A peer that trains nothing and may reduce. It holds the state to which the entry applies.
struct ExchangeAggregator {
  std::string peer;
  std::string address;
  bool may_reduce = true;        // see ExchangeContributor
  bool dialled_in_vain = false;  // see ExchangeContributor
  std::string region = "";
};

struct ExchangeTerms {
  uint64_t version = 0;
  uint64_t epoch = 0;
  uint64_t parameters = 0;
  uint32_t chunk_elements = 1;
  ChunkGrid grid;  // if peers own experts: the grid of the entry's vector, with the parts
  uint32_t quorum = 1;
  bool by_region = false;  // true if each region averages first
  Grouping grouping;       // if it has groups, each group averages first instead of a region
  absl::Duration deadline;
  // The digest of state version-1 if it is known (the genesis); if empty, the majority of votes
  // decides.
  std::string state_digest;
  // The share of the chunks that auditors recompute before the commit; 0 if there is no audit. The
  // chunks are drawn from the previous header's digest and a nonce of 32 bytes, which differs in
  // each revision.
  float audit_share = 0;
  std::string previous_header_digest;
  std::function<std::string()> draw_nonce;
  // The known cases of a peer that cannot reach another: the accusers of each accused peer (see
  // reach.h).
  std::map<std::string, std::set<std::string>> doubts;
  // The aggregators, in roster order. They reduce only if no contributor that was reachable lately
  // can.
  std::vector<ExchangeAggregator> aggregators;
};

// Returns, for each contributor, true if shards are planned for it. This is so if the contributor
// can be dialled and was reachable lately. A contributor that was not reachable lately reduces only
// if no other peer can. A single contributor reduces for itself. If aggregators reduce, no
// contributor does.
std::vector<bool> WhoReduces(const ExchangeTerms& terms,
                             const std::vector<ExchangeContributor>& contributors);

class ReductionPlan {
 public:
  // `contributors` is in roster order, and at least one of them must be able to reduce.
  ReductionPlan(const ExchangeTerms& terms, const std::vector<ExchangeContributor>& contributors);

  const v1::Plan& proto() const { return plan_; }
  bool Contributes(const std::string& peer) const { return contributors_.count(peer) > 0; }
  std::vector<std::string> Present() const;  // contributors that are not lost, in roster order
  bool Lost(const std::string& peer) const { return lost_.count(peer) > 0; }
  const std::set<std::string>& lost() const { return lost_; }
  // Returns true if the peer contributes, or is an aggregator that may reduce.
  bool TakesPart(const std::string& peer) const {
    return Contributes(peer) || aggregators_.count(peer) > 0;
  }
  // Returns Present(), and the aggregators that reduce and are not lost.
  std::vector<std::string> Voters() const;
  const std::set<std::string>& unreachable() const { return unreachable_; }
  // Returns true if other peers can fetch data from this peer. Also returns true for a contributor
  // that has been the only one from the start.
  bool Dialable(const std::string& peer) const {
    return aggregators_.count(peer) > 0 || contributors_.at(peer).may_reduce;
  }
  bool Serves(const std::string& peer) const;  // true if it reduces, relays or holds a shard

  // Called when the peer lacks a mean that it should hold. Each shard that it serves as a holder
  // goes to another holder, or is averaged anew under its next attempt, and the peer is no longer a
  // holder of that shard. Returns false, and changes nothing, if the peer holds no shard or no
  // other peer can take a shard over.
  bool TakeHeldFrom(const std::string& peer, std::vector<std::string>* events);

  // Records that the peer has every mean of shard number `shard` under `attempt`. Ignores invalid
  // values.
  void NoteHeld(const std::string& peer, uint32_t shard, uint32_t attempt);

  void Lose(const std::string& peer) { lost_.insert(peer); }
  bool MarkUnreachable(const std::string& peer) { return unreachable_.insert(peer).second; }
  // Sets the peers that take over a shard only if no other peer can, because another peer has made
  // an unconfirmed report about them or they have made such a report. They keep the shards that
  // they have now.
  void SetShunned(std::set<std::string> peers) { shunned_ = std::move(peers); }
  // Returns true if a peer that is neither shunned nor one of these can take shards over.
  bool OthersCanReduce(const std::set<std::string>& than) const;

  // Gives all shards of these peers to others. Returns false if there is a shard that no peer can
  // take over; the plan is then half changed and must not be sent. Appends a description for people
  // to `events`.
  bool MoveFrom(const std::set<std::string>& peers, std::vector<std::string>* events);
  // Moves every shard to another reducer under its next attempt. Returns false if there is no
  // reducer.
  bool RotateAll();
  // Has every shard averaged anew by these reducers, without relays. No other peer reduces from now
  // on. Returns false, and changes nothing, if none of them can reduce.
  bool RedoAllAt(const std::vector<std::string>& reducers);
  // Returns the peers that are present and may reduce now. Includes shunned peers only if no other
  // peer can reduce.
  std::vector<std::string> Reducers() const;
  // Moves every shard that one of these reduces or relays, or that a lost peer serves, to another
  // reducer under its next attempt. Returns false, and changes nothing, if no other peer can
  // reduce.
  bool Redo(const std::set<std::string>& peers);
  // Sets the commitment to the nonce with which the revision's audit will be drawn.
  void Commit(const std::string& commitment) { plan_.set_audit_commitment(commitment); }
  // Gives the changed plan a new revision number.
  void Revise();

 private:
  struct Contributor {
    bool may_reduce = false;  // true if the contributor has an address
    // The contributors that it averages with first; empty if there are none.
    std::string group;
    int position = 0;  // the contributor's bit in bitmaps
    double bandwidth = 1;
    // False if a doubt named the peer when the plan was made; it then relays for no other peer.
    bool may_relay = true;
  };

  void CutByBandwidth(const std::vector<double>& bandwidths, const std::vector<std::string>& peers,
                      uint32_t chunks);
  void SetReducer(const std::string& peer, v1::Shard* shard) const;
  const std::string& GroupOf(const std::string& peer) const;
  bool Able(const std::string& peer) const;  // true if it can serve others
  std::vector<std::string> AbleOnes(bool shunned) const;
  using ChunksServed = std::map<std::string, uint64_t>;  // by peer
  ChunksServed Load(const std::set<std::string>& without) const;
  std::string FirstDone(const ChunksServed& load, uint64_t more) const;
  std::string HolderOf(int shard, const ChunksServed& load) const;
  bool GiveAway(int shard, ChunksServed* load, std::string* taker);
  void BeginAnew(int shard, const std::string& reducer);
  void AssignRelays(int shard);
  std::string Bitmap(const std::vector<std::string>& peers) const;

  bool relayed_;        // true if groups average first
  size_t most_relays_;  // the most relays of a group
  v1::Plan plan_;
  std::map<std::string, Contributor> contributors_;
  std::map<std::string, ExchangeAggregator> aggregators_;
  std::set<std::string> lost_;
  std::set<std::string> unreachable_;
  std::set<std::string> shunned_;
  // If not empty, no other peers may reduce.
  std::set<std::string> only_;
  // The attempt under which a peer holds a shard, by peer and shard.
  std::map<std::string, std::map<uint32_t, uint32_t>> held_;
};

}  // namespace atolld
