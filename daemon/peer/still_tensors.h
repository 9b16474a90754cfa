// StillTensors: finds the model's tensors that training does not change, reports them once, by
// name, and keeps what it has found.
//
// A worker trains without an error even if its optimiser steps a copy of the parameters, or if it
// has frozen some of them; the run then learns nothing, or less than its owner thinks. Pure. Used
// by one thread at a time.
#pragma once

#include <cstddef>
#include <set>
#include <string>

#include "absl/types/span.h"
#include "atoll/v1/run.pb.h"
#include "membership/experts/expert_parts.h"

namespace atolld {

class StillTensors {
 public:
  // The number of updates that are examined. One update is not enough, because a tensor may not
  // move in it, for example at the beginning of a warm-up.
  static constexpr int kLooks = 3;
  static constexpr size_t kLongestVerdict = 512;  // of PeerProgress.still_tensors, in bytes

  // Examines a trained update, which must have all of the manifest's values. The tensors in these
  // ranges were not to be trained, and are not reported later. At the first update,
  // returns a message if no value has moved. At the last one, returns a message with the names of
  // the tensors that have moved in no update. Otherwise returns "".
  std::string Look(const v1::Manifest& manifest, absl::Span<const float> update,
                   absl::Span<const PartRange> frozen = {});

  bool watches() const { return looks_ < kLooks; }

  // Returns the last message as long as it is true, as one line; otherwise "".
  const std::string& verdict() const { return verdict_; }

 private:
  int looks_ = 0;
  // The indices in the manifest of the tensors that have moved, and of those that were frozen once.
  std::set<int> moved_, excused_;
  std::string verdict_;
};

}  // namespace atolld
