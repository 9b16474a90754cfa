// Participation: who is drawn for a round, and whose updates are not sent, as FederationSpec says.
//
//   rank(v, peer) = first 8 bytes, little-endian, of SHA-256("atoll.participation", seed, v, peer)
//   drawn for v:    the ceil(share x n) lowest ranks of the n trainers that are there
//   dropped in v:   first 8 bytes of SHA-256("atoll.drop", seed, v, peer) / 2^64 < probability
//
// A draw depends on the run's seed, the version and the peer's name alone: a coordinator that is
// started again draws the same, and so does anybody who checks it. (FedAvg's C, McMahan et al.,
// 1602.05629, algorithm 1.)
//
// A dropped update is dropped where orders are given, by the coordinator. It knows of it when the
// round begins, so the peer is told at once to train for as many rounds as are dropped in a row and
// one more. Nobody waits for it meanwhile; its worker goes on from its own parameters, is rebased
// at each commit that it misses, and its update is offered when a round comes in which it is not
// dropped: it is a straggler like any other, with its age, and every law of those holds for it. A
// peer that dropped its update itself would be waited for, and its worker would have to be told to
// go on by a message of its own. (DiLoCo's figure 8, 2311.08105: a replica whose outer gradient is
// lost goes on from its own parameters. Here the outer steps that it misses are added to them.)
//
// Pure functions, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "atoll/v1/run.pb.h"

namespace atolld {

// No peer is told to train for more rounds at once.
inline constexpr uint32_t kMostRoundsAtOnce = 64;

class Participation {
 public:
  Participation() = default;  // everybody, always
  explicit Participation(const v1::RunSpec& spec);

  bool draws() const { return share_ < 1; }  // whether only some of the trainers train
  bool drops() const { return drop_ > 0; }   // whether any update is dropped

  // ceil(share x trainers), at least 1; of none 0.
  size_t Number(size_t trainers) const;
  // These in the order in which they are drawn for the entry of this version.
  std::vector<std::string> Order(uint64_t version, std::vector<std::string> peers) const;

  // Whether this peer's update is not to be in the entry of this version.
  bool Dropped(uint64_t version, const std::string& peer) const;
  // For how many rounds a peer trains that begins now for the entry of `version`: 1, and one for
  // each in a row in which it is dropped, up to the entry of `last`.
  uint32_t RoundsAtOnce(uint64_t version, uint64_t last, const std::string& peer) const;

 private:
  uint64_t seed_ = 0;
  double share_ = 1;
  double drop_ = 0;
};

}  // namespace atolld
