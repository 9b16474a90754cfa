// GradientNoise: the run's gradient noise scale (optimizer/noise_scale.h), from what peers tell
// anyway: each contributor the length of its update, each voter that of the mean.
//
// Voters that hold one payload decode the same mean, so of their figures the lower median counts:
// a minority of liars moves nothing. It is for people alone: no decision of a run rests on it.
// Pure; one thread.
#pragma once

#include <map>
#include <string>

#include "absl/types/span.h"
#include "atoll/v1/admin.pb.h"
#include "atoll/v1/membership.pb.h"
#include "atoll/v1/run.pb.h"
#include "optimizer/noise_scale.h"

namespace atolld {

// The squared length of what was agreed on, by the votes for it; 0: nobody tells it.
double ToldSquaredMean(const v1::Vote& agreement, const std::map<std::string, v1::Vote>& votes);

class GradientNoise {
 public:
  // Goes on from what the records of these rounds hold, ascending.
  GradientNoise(const v1::ExchangeSpec& exchange, absl::Span<const v1::RoundRecord> rounds,
                const v1::PrivacySpec& privacy = {});

  // The entry that was agreed on under this plan with these votes is committed: sets the record's
  // estimates, where the round allows one, and the noise scale as known now. A round in which some
  // update was averaged in part alone allows none.
  void NoteCommit(const v1::Plan& plan, const v1::Vote& agreement,
                  const std::map<std::string, v1::Vote>& votes, v1::RoundRecord* record);

  v1::NoiseStatus Status() const;

 private:
  void Note(const v1::RoundRecord& record);

  const std::string never_;  // why this run's cannot be known; empty: it can
  NoiseScale scale_;
  uint64_t round_tokens_ = 0;
};

}  // namespace atolld
