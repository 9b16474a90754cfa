// What slows a run: findings, each with its figure and a setting to change, made of what the
// coordinator tells of the run.
//
// Costs are seconds of a round in which the run does not come nearer to its end, or the same share
// of its peers' work that brings nothing, so that findings can be compared; the dearest comes
// first. The time of the exchanges is shared out: what a slow line or link costs against the
// others, then what a smaller codec would save, then what more inner steps would hide. No second
// counts twice. How they are shown is in diagnosis_text.h. Pure functions, any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "atoll/v1/admin.pb.h"

namespace atolld {

struct RunFinding {
  // "waiting", "disk", "link", "limits", "codec", "inner_steps", "straggler", "audits", "reducer",
  // "noise", "data", "updates", "worker", "clock"
  std::string cause;
  std::string peer;    // whom it is about; empty: the whole run
  std::string what;    // a sentence with the figure
  double seconds = 0;  // what it costs, of a round
  double share = 0;    // the same of the round's time, 0-1
  std::string key;     // "[inner] steps"; empty: no key helps
  std::string value;   // that it should have
  std::string advice;  // what to do, in words
};

// The usual times of a round, of the last ones; zeros where none is known.
struct RoundTimes {
  uint64_t rounds = 0;  // that they come from
  double round = 0;     // seconds, from commit to commit
  double train = 0;     // mean over the contributors
  double exchange = 0;
  double audit = 0;
};
RoundTimes UsualTimes(const v1::RunStatus& status);

// With less nothing is said of times: the first rounds of a run, or of a new member, are no
// measure.
inline constexpr uint64_t kLeastRoundsToJudge = 3;

// The dearest first; nothing: the run is healthy, as far as its rounds so far can tell. `status`
// has the newest rounds.
std::vector<RunFinding> Diagnose(const v1::RunStatus& status);

}  // namespace atolld
