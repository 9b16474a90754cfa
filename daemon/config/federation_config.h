// The keys that say who does what in a run: how parties take part ([federation]), how their data is
// protected ([privacy]), how many peers train each expert of a mixture ([experts]), which parties a
// peer hosts ([parties]) and when a peer is available ([availability]).
//
// Plain data. The first three sections belong to the run, and the others to a peer.
#pragma once

#include <cstdint>
#include <string>

namespace atolld {

struct FederationConfig {    // [federation]
  double participation = 1;  // the share of the trainers that is drawn for a round
  // The probability that a peer does not send its update in a round.
  double drop = 0;
  std::string weights = "tokens";  // or "samples", "equal", "loss"
  double fairness = 1;             // with weights "loss": the power of the loss (q of q-FedAvg)
  bool normalised = false;         // FedNova: divides each update by its number of inner steps
  // An update that has missed A entries counts 1 / (1 + staleness x A) of its weight.
  double staleness = 0.25;
};

struct ExpertsConfig {  // [experts]
  uint32_t owners = 0;  // of each expert; 0 means that every peer trains all tensors
  // "*.mlp.experts.#.*": patterns of ExpertsSpec; if empty, DefaultExpertTensors (config_rules.h)
  std::string tensors;
};

struct PrivacyConfig {  // [privacy]
  // The most length of a party's update; 0 means no differential privacy.
  double clip = 0;
  // The standard deviation of the noise in a full round's sum, as a multiple of `clip`.
  double noise = 0;
  // The clip follows this quantile of the updates' lengths; 0 means a fixed clip.
  double quantile = 0;
  std::string place = "party";  // "party": each party adds the noise; "mean" is refused so far
  // The number of parties in a full round; by default computed from the peers and their parties.
  uint32_t parties = 0;
  // The largest share of a peer's parties in a round; its default is computed likewise.
  double sampling = 0;
  double delta = 1e-5;
  // The run ends before it exceeds this; 0 means no limit: epsilon is only reported.
  double epsilon = 0;
  bool masked = false;  // secure aggregation: a single update is never visible
  // The fewest contributors whose sum is unmasked; 0 means more than 2/3 of a round's.
  uint32_t threshold = 0;
  // The fewest parties among which masks are shared; 0 means more than half of a round's.
  uint32_t roster = 0;
  bool closed = false;  // only listed parties take part
};

struct PartiesConfig {   // [parties]
  uint32_t hosted = 0;   // the number of virtual parties; 0 means that the peer is one party itself
  uint32_t first = 1;    // the number of its first party in [data] path
  uint32_t a_round = 0;  // how many of them are drawn to train in each round; 0 means all
  bool keep = false;     // true if each party keeps its optimiser's state from round to round
};

struct AvailabilityConfig {  // [availability]
  std::string trace;         // a file of times at which parties are available; empty means always
  // The party of the trace to follow; if empty, the number in the peer's id selects it.
  std::string party;
  double speed = 1;    // seconds of the trace in one real second
  uint64_t start = 0;  // the Unix time of the trace's second 0; 0 means when this peer begins
};

}  // namespace atolld
