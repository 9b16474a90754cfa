// What a federation of parties has of its own: how they take part ([federation]), what is kept from
// whom ([privacy]), which of them a peer hosts ([parties]) and when a peer is there
// ([availability]).
//
// Plain data; the first two belong to the run, the others to a peer.
#pragma once

#include <cstdint>
#include <string>

namespace atolld {

struct FederationConfig {          // [federation]
  double participation = 1;        // share of the trainers that is drawn for a round
  double drop = 0;                 // probability that a peer's update is not sent in a round
  std::string weights = "tokens";  // "samples", "equal", "loss"
  double fairness = 1;             // of weights "loss": the power of the loss
  bool normalised = false;         // FedNova: by the number of inner steps
};

struct PrivacyConfig {          // [privacy]
  double clip = 0;              // length of a party's update; 0: no differential privacy
  double noise = 0;             // standard deviation in a full round's sum, in lengths of the clip
  double quantile = 0;          // that the clip follows; 0: it is fixed
  std::string place = "party";  // where the noise is added
  uint32_t parties = 0;  // of a full round; where the file does not say: by the peers and theirs
  double sampling = 0;   // probability that a party is in a round; likewise
  double delta = 1e-5;
  double epsilon = 0;      // the run ends before it spends more; 0: it is told alone
  bool masked = false;     // secure aggregation
  uint32_t threshold = 0;  // fewest contributors whose sum is unmasked; 0: above 2/3 of a round
};

struct PartiesConfig {   // [parties]
  uint32_t hosted = 0;   // virtual parties of this peer; 0: it is one party itself
  uint32_t first = 1;    // its first one, of those that [data] path holds
  uint32_t a_round = 0;  // how many of them train in a round, drawn anew each time; 0: all
  bool keep = false;     // whether each keeps its optimiser's state from round to round
};

struct AvailabilityConfig {  // [availability]
  std::string trace;         // a file of times at which parties are there; empty: always
  std::string party;         // whose line of it; empty: by the peer's id
  double speed = 1;          // seconds of the trace in one of ours
  uint64_t start = 0;        // when its second 0 is, Unix time; 0: when this peer begins
};

}  // namespace atolld
