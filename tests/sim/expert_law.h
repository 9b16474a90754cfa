// ExpertLaw: checks which peers train which experts of a run, and whose updates each mean counts.
//
// It hears what the coordinator tells each peer to train, what workers are told and hand over, what
// peers offer, and what plans and headers name. It knows the parts of the run's vector by
// OracleParts and OracleFragments and shares no code with the product. Slices of adapters are
// experts in this sense, of which any number of peers train the first. In a run without experts it
// checks nothing. Its number among the invariants is 20.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "atoll/v1/membership.pb.h"
#include "atoll/v1/worker.pb.h"
#include "tests/sim/history.h"

namespace atolld {

class ExpertLaw {
 public:
  explicit ExpertLaw(Violate violate) : violate_(std::move(violate)) {}

  void OnGenesis(const v1::Genesis& genesis);

  // Called when the peer's worker is told to train, and when it hands over an update.
  void OnTraining(const std::string& peer, const v1::TrainSteps& train);
  void OnUpdate(const std::string& peer, absl::Span<const float> update);

  // Called when a coordinator tells the peer to train.
  void OnTrain(const std::string& peer, const v1::Train& train);
  void OnReady(const std::string& peer, const v1::Ready& ready);
  void OnPlan(const v1::Plan& plan);
  void OnHeader(const v1::EntryHeader& header);

  // Returns the part of a chunk: 0 if all peers train it, otherwise 1 + the index of its expert.
  size_t PartOf(size_t chunk) const { return chunk < parts_.size() ? parts_[chunk] : 0; }
  static bool Covers(const std::string& owned, size_t part);

 private:
  struct Worker {
    std::vector<bool> frozen;   // the values that the present training leaves as they are
    std::vector<bool> trained;  // the same for the newest update
    uint64_t judged = 0;        // the number of the Train whose update was compared with its Ready
  };

  bool Whole(const std::string& owned, const std::string& whose);
  void CheckFrozen(const std::string& peer, const v1::Ready& ready);
  void CheckMost(const std::vector<std::string>& owned, const std::string& what);
  void CheckSets(const v1::EntryHeader& header);

  const Violate violate_;
  uint32_t owners_ = 0;  // 0 until there is a genesis of a run with experts
  bool slices_ = false;  // true if the experts are slices of adapters
  size_t experts_ = 0;
  std::vector<size_t> parts_;            // of each chunk
  std::vector<size_t> parts_of_values_;  // of each value of the flat vector
  std::map<std::string, Worker> workers_;
  // What each Train of a peer said that it owns, by the Train's number. A coordinator whose store
  // was restored may use a number twice.
  std::map<std::pair<std::string, uint64_t>, std::set<std::string>> told_;
  // What each offered update was trained on, by peer and root.
  std::map<std::pair<std::string, std::string>, std::set<std::string>> offered_;
  v1::Plan plan_;  // the newest
};

}  // namespace atolld
