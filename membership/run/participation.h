// Participation: decides, according to FederationSpec, which peers are drawn for a round and which
// updates are dropped.
//
//   rank(v, peer) = first 8 bytes, little-endian, of SHA-256("atoll.participation", seed, v, peer)
//   drawn for v:    the ceil(share x n) lowest ranks of the n trainers that are present
//   dropped in v:   first 8 bytes of SHA-256("atoll.drop", seed, v, peer) / 2^64 < probability
//
// A draw depends only on the run's seed, the version and the peer's name. A restarted coordinator
// therefore draws the same peers, and anyone can check the draw. (FedAvg's C, McMahan et al.,
// 1602.05629, algorithm 1.)
//
// It is the coordinator that drops an update, not the peer. The coordinator knows about the drop
// when the round begins. If a peer's update is dropped in k rounds in a row, it therefore orders
// the peer at once to train for k + 1 rounds, and no round waits for the peer meanwhile. The peer's
// worker continues from its own parameters and is rebased at each commit that it misses; the peer
// offers its update in the next round in which the update is not dropped. The peer is then an
// ordinary straggler, and all rules for stragglers hold for it. If the peer itself dropped its
// update, the others would wait for it, and its worker would need an extra message to continue.
// (DiLoCo's figure 8, 2311.08105: a replica whose outer gradient is lost continues from its own
// parameters. In Atoll the outer steps that it misses are added to them.)
//
// Pure. May be called from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "atoll/v1/run.pb.h"

namespace atolld {

// The most rounds for which a single Train lets a peer train.
inline constexpr uint32_t kMostRoundsAtOnce = 64;

class Participation {
 public:
  Participation() = default;  // draws all peers and drops no update
  explicit Participation(const v1::RunSpec& spec);

  bool draws() const { return share_ < 1; }  // true if only some of the trainers train
  bool drops() const { return drop_ > 0; }   // true if any update is dropped

  // Returns the number of peers to draw: ceil(share x trainers), at least 1, or 0 if there are no
  // trainers.
  size_t Number(size_t trainers) const;
  // Returns the smallest number of updates with which a round may close, in a run with this quorum.
  uint32_t Fewest(uint32_t quorum) const;
  // Returns the peers in the order in which they are drawn for the entry of this version.
  std::vector<std::string> Order(uint64_t version, std::vector<std::string> peers) const;

  // Returns true if this peer's update must not be in the entry of this version.
  bool Dropped(uint64_t version, const std::string& peer) const;
  // Returns the number of rounds for which a peer trains if it begins now for the entry of
  // `version`. This is 1, plus 1 for each round in a row in which its update is dropped, up to the
  // round of version `last`.
  uint32_t RoundsAtOnce(uint64_t version, uint64_t last, const std::string& peer) const;

 private:
  uint64_t seed_ = 0;
  double share_ = 1;
  double drop_ = 0;
};

}  // namespace atolld
