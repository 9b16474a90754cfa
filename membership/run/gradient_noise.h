// GradientNoise: estimates the run's gradient noise scale (see optimizer/noise_scale.h) from
// figures that peers report anyway: each contributor reports the length of its update, and each
// voter the length of the mean.
//
// Voters that hold the same payload decode the same mean. The lower median of their figures counts,
// so a minority of liars changes nothing. The scale is only shown to people; no decision of a run
// depends on it. Pure. Used by one thread.
#pragma once

#include <map>
#include <string>

#include "absl/types/span.h"
#include "atoll/v1/admin.pb.h"
#include "atoll/v1/membership.pb.h"
#include "atoll/v1/run.pb.h"
#include "optimizer/noise_scale.h"

namespace atolld {

// Returns the squared length of the agreed mean that the votes for it report, or 0 if no vote
// reports it.
double ToldSquaredMean(const v1::Vote& agreement, const std::map<std::string, v1::Vote>& votes);

class GradientNoise {
 public:
  // Continues from the records of earlier rounds, which are ascending by version. `experts` is true
  // if peers own experts.
  GradientNoise(const v1::ExchangeSpec& exchange, absl::Span<const v1::RoundRecord> rounds,
                const v1::PrivacySpec& privacy = {}, bool experts = false);

  // Called when the entry that these votes agreed on under this plan is committed. Sets the
  // record's estimates and updates the noise scale. Sets no estimate if some chunks of an update
  // are missing in the mean.
  void NoteCommit(const v1::Plan& plan, const v1::Vote& agreement,
                  const std::map<std::string, v1::Vote>& votes, v1::RoundRecord* record);

  v1::NoiseStatus Status() const;

 private:
  void Note(const v1::RoundRecord& record);

  // The reason why the scale cannot be estimated in this run; empty if it can.
  const std::string never_;
  NoiseScale scale_;
  uint64_t round_tokens_ = 0;
};

}  // namespace atolld
