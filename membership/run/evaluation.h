// Evaluation: the validation loss of one version, computed in shares by several trainers.
//
// A share that nobody holds (its peer died, or nobody has it yet) is given to somebody else; the
// loss counts once every share is in. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "atoll/v1/admin.pb.h"
#include "atoll/v1/membership.pb.h"

namespace atolld {

class Evaluation {
 public:
  Evaluation(uint64_t version, uint32_t shares, double elapsed_seconds);

  uint64_t version() const { return version_; }
  bool complete() const;

  std::optional<uint32_t> FirstFree() const;  // a share that is neither in nor given to anybody
  v1::Evaluate Give(uint32_t share, const std::string& peer);
  size_t Open(const std::string& peer) const;  // shares given to it that are not in
  void TakeBack(const std::string& peer);      // what it was given and has not answered
  // Stale and repeated answers do nothing. A loss that is not finite counts: a run that diverged
  // must show it.
  void OnEvaluated(const v1::Evaluated& evaluated);

  v1::EvaluationRecord Record() const;  // complete()

 private:
  struct Share {
    std::string peer;
    bool in = false;
    double loss_sum = 0;
    uint64_t tokens = 0;
  };
  uint64_t version_;
  double elapsed_seconds_;
  std::vector<Share> shares_;
};

// Version 0, the `last` one, and every `every_rounds` between.
bool EvaluationDue(const v1::RunSpec& spec, uint64_t version, uint64_t last);

}  // namespace atolld
