// LinkEstimates and PeersWithRoom: what the exchanges of a run have shown about its network: the
// rates, the round trips, and the peers whose lines had spare capacity.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "atoll/v1/membership.pb.h"
#include "membership/planning/link_model.h"

namespace atolld {

// LinkEstimates: estimates a run's network from its exchanges, and makes a LinkModel of it.
//
// Nothing is sent to measure the network; instead each vote reports what arrived when (Arrivals).
// The bytes that arrive from a peer at all others together show its line up; the bytes that arrive
// at it show its line down. Laws: the rate of a line is the greatest that a window with enough
// bytes has shown in one of the last 8 exchanges. Waiting is therefore never mistaken for slowness,
// and a line that became slower is known to be slow after at most 8 rounds. A link between regions
// counts as a limit only if its rate stopped growing while the lines of the peers that used it had
// room. A peer has room if hardly any chunk waited for its pieces, so its line may carry more than
// was seen. Rates are payload bytes a second. Pure. Used by one thread. docs/performance_model.md
// says what cannot be known this way.

// The observations of one contributor to an exchange.
struct ExchangeWitness {
  std::string peer;
  std::string region;  // empty if the peer forms a region of its own
  const v1::Arrivals* arrivals;
};

// A contributor to a coming exchange.
struct KnownPeer {
  std::string peer;
  std::string region;
  // The rate of the peer's line in bytes a second, including headers; 0 if the peer has not
  // reported it.
  double up_rate = 0;
  double down_rate = 0;
  bool reduces = true;  // true if the peer can be dialled
  bool slow = false;    // true if the peer sends its updates in the run's slow_codec
};

class LinkEstimates {
 public:
  // Learns from an exchange that ended with its first plan; `witnesses` has the observations of all
  // its contributors. A rate counts only if its window carried at least `least_bytes`, so that the
  // size of a chunk does not distort it. In the opening (the short slots at the start of an
  // exchange, see arrival_log.h) `least_opening_bytes` applies instead. Votes are claims of other
  // peers: if one makes no sense, the function learns nothing and returns false.
  bool Note(absl::Span<const ExchangeWitness> witnesses, double least_bytes,
            double least_opening_bytes);
  // Records that a message of the coordinator to the peer and the peer's answer took `rtt`.
  void NoteCoordinator(const std::string& peer, absl::Duration rtt);
  void Forget(const std::string& peer) { peers_.erase(peer); }

  // Returns true if, in the last exchange passed to Note, hardly any chunk waited for this peer's
  // piece although chunks did wait for the pieces of others.
  bool HadRoom(const std::string& peer) const { return with_room_.count(peer) != 0; }

  // Up and Down return 0 if the rate is unknown.
  double Up(const std::string& peer) const;
  double Down(const std::string& peer) const;
  // Returns the rate at which all streams from one named region to another (or within one region)
  // together carried data in the best window of the last exchange passed to Note, even if the link
  // was not the limit. Returns 0 if no window showed a rate.
  double Carried(const std::string& from, const std::string& to) const;

  // Returns a model of the network between these peers, in this order, or nullopt if no line is
  // known. A rate that a peer reported is an upper bound for the measured rate, and is used instead
  // of it if nothing was measured. A peer about which nothing is known gets the median of the
  // others' rates. A peer without a region is put in a region of its own, which is not close
  // (LinkModel::AddRegion).
  std::optional<LinkModel> Model(absl::Span<const KnownPeer> peers) const;

  // The bytes that all contributors of the last exchange passed to Note received, in other
  // contributors' own chunks and in means.
  double arrived_updates() const { return arrived_updates_; }
  double arrived_means() const { return arrived_bytes_ - arrived_updates_; }

 private:
  // The values of the last exchanges.
  class Recent {
   public:
    void Add(double value);
    void Clear() { values_.clear(); }
    bool empty() const { return values_.empty(); }
    double Greatest() const;
    double Least() const;

   private:
    std::deque<double> values_;
  };
  struct PeerLine {
    Recent up, down;
    Recent coordinator_seconds;
  };
  using Pair = std::pair<std::string, std::string>;  // a pair of regions
  struct Exchange;

  void NoteLinks(const Exchange& exchange, double least_bytes);
  void NoteCarried(const Exchange& exchange, double least_bytes);
  void NoteRoundTrips(const Exchange& exchange);
  std::optional<double> RoundTrip(const std::string& a, const std::string& b) const;

  std::map<std::string, PeerLine> peers_;
  std::map<Pair, Recent> links_;    // the rates of links that were the limit, by (from, to)
  std::map<Pair, double> carried_;  // the rates of the last exchange, by (from, to)
  // The round trips between two regions, by the pair in ascending order. A region paired with
  // itself means two peers of that region.
  std::map<Pair, Recent> round_seconds_;
  std::set<std::string> with_room_;
  double arrived_bytes_ = 0;
  double arrived_updates_ = 0;
};

// -----------------------------------------------------------------------------------------------
// Finds the peers whose lines had spare capacity in an exchange, from the waits that the votes
// report.
//
// Each reducer reports which peers its chunks waited for (ArrivalLog). A peer had room if hardly
// any chunk waited for its piece while chunks waited for the pieces of others: its line carried all
// that it was given in time, and may be able to carry more. A reducer on a slow line receives every
// peer's chunks late, so the reports of peers that were themselves waited for do not count. A peer
// can be blamed by chance, and votes are only claims of other peers, so a caller should try a
// change and measure its effect. Pure.

// Returns an empty set if most chunks waited for no peer, or if no vote reports a wait.
std::set<std::string> PeersWithRoom(absl::Span<const ExchangeWitness> witnesses);

}  // namespace atolld
