// What the exchanges of a run have shown of its network: rates, round trips, and whose lines had
// room.
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

// LinkEstimates: what the exchanges of a run have shown of its network, and the LinkModel made of
// it.
//
// Nothing is sent to find it out: each vote tells what came in when (Arrivals). What arrives from a
// peer at all others together is its line up at work, and what arrives at it its line down. Laws: a
// rate is the greatest that a window of enough bytes has shown in one of the last 8 exchanges, so
// waiting is never taken for slowness, and a line that got slower is known as such 8 rounds later
// at the latest; a link between regions limits only if it was seen to stand still at a rate at
// which the lines of those that used it had room. Whose chunks hardly anybody waited for has room:
// its line may carry more than was seen. Rates are payload bytes a second. Pure; one thread.
// docs/performance_model.md says what it cannot know.

// What one contributor of an exchange saw.
struct ExchangeWitness {
  std::string peer;
  std::string region;  // empty: one of its own
  const v1::Arrivals* arrivals;
};

// A contributor to come.
struct KnownPeer {
  std::string peer;
  std::string region;
  double up_rate = 0;  // bytes a second of its line, headers and all; 0: not told
  double down_rate = 0;
  bool reduces = true;  // it can be dialled
  bool slow = false;    // PeerLink::slow
};

class LinkEstimates {
 public:
  // An exchange that went as it was first planned, seen by all its contributors. A rate counts in
  // windows of `least_bytes` or more, so that the grain of chunks does not show; in the opening of
  // `least_opening_bytes`. Votes are others' words: if one makes no sense, nothing is learned.
  // False then.
  bool Note(absl::Span<const ExchangeWitness> witnesses, double least_bytes,
            double least_opening_bytes);
  // The coordinator's word took so long there and back.
  void NoteCoordinator(const std::string& peer, absl::Duration rtt);
  void Forget(const std::string& peer) { peers_.erase(peer); }

  // Hardly any chunk of the exchange that was noted last waited for this peer's piece, and for
  // others' they did.
  bool HadRoom(const std::string& peer) const { return with_room_.count(peer) != 0; }

  // 0: not known.
  double Up(const std::string& peer) const;
  double Down(const std::string& peer) const;
  // What the streams from one named region to another, or within one, carried together in the best
  // window of the exchange that was noted last, limited by it or not; 0: nothing that shows a rate.
  double Carried(const std::string& from, const std::string& to) const;

  // The network between these peers, in this order. A limit bounds what was measured, and stands
  // for it where nothing was; who is not known at all gets the median of the others. Peers without
  // a region are in one that is not close. Nothing if no line is known.
  std::optional<LinkModel> Model(absl::Span<const KnownPeer> peers) const;

  // Bytes that all of the last noted exchange's contributors received: of others' own chunks, and
  // of means.
  double arrived_updates() const { return arrived_updates_; }
  double arrived_means() const { return arrived_bytes_ - arrived_updates_; }

 private:
  // Of the last exchanges.
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
  using Pair = std::pair<std::string, std::string>;  // of regions
  struct Exchange;

  void NoteLinks(const Exchange& exchange, double least_bytes);
  void NoteCarried(const Exchange& exchange, double least_bytes);
  void NoteRoundTrips(const Exchange& exchange);
  std::optional<double> RoundTrip(const std::string& a, const std::string& b) const;

  std::map<std::string, PeerLine> peers_;
  std::map<Pair, Recent> links_;          // from, to; only where the link was the limit
  std::map<Pair, double> carried_;        // from, to: in the last exchange
  std::map<Pair, Recent> round_seconds_;  // ascending; a region with itself: two of its peers
  std::set<std::string> with_room_;
  double arrived_bytes_ = 0;
  double arrived_updates_ = 0;
};

// -----------------------------------------------------------------------------------------------
// Whose lines had room in an exchange, by what the votes tell of waits.
//
// A reducer counts for whom its chunks waited (ArrivalLog). Whose piece hardly any chunk waited for
// while they did for others' had room: what was seen of its line is what was asked of it, and it
// may carry more. At a peer on a slow line everybody's chunks are late, whoever sends them, so the
// word of those that are waited for themselves does not count. Blame falls by chance too, and votes
// are others' words: who goes by it tries, and looks. Pure.

// Nobody where most chunks waited for nobody, or no vote tells of it.
std::set<std::string> PeersWithRoom(absl::Span<const ExchangeWitness> witnesses);

}  // namespace atolld
