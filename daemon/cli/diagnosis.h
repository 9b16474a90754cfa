// Finds out what slows a run or costs it loss, from the coordinator's report about the run. Each
// finding has a figure and, if possible, a setting to change.
//
// So that findings can be compared, each has a cost in seconds per round: the seconds without
// progress or, if peers' work is wasted, the same share of the round. The most expensive finding
// comes first. The time of the exchanges is divided among causes so that no second counts twice:
// first the extra time of a line or link that is slower than the others, then the time that a
// smaller codec would save, then the time that more inner steps would hide. A finding that costs
// loss instead of time (cause "outer") comes last. Pure. May be called from any thread.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "atoll/v1/admin.pb.h"

namespace atolld {

struct RunFinding {
  // "waiting", "disk", "link", "limits", "codec", "inner_steps", "straggler", "audits", "reducer",
  // "noise", "data", "updates", "tensors", "worker", "clock", "reach", "outer"
  std::string cause;
  std::string peer;    // the peer that the finding is about; empty if it is about the whole run
  std::string what;    // a sentence with the figure
  double seconds = 0;  // the cost, in seconds per round; 0 if it costs loss instead of time
  double share = 0;    // the cost as a share of the round's time, 0-1
  std::string key;     // "[inner] steps"; empty if no key helps
  std::string value;   // the value that the key should have
  std::string advice;  // what to do, in words
};

// The usual times of a round, taken from the last rounds. A time that is unknown is zero.
struct RoundTimes {
  uint64_t rounds = 0;  // the number of rounds that the times are taken from
  double round = 0;     // seconds, from commit to commit
  double train = 0;     // the mean over the contributors
  double exchange = 0;
  double audit = 0;
};
RoundTimes UsualTimes(const v1::RunStatus& status);

// With fewer rounds, Diagnose makes no findings about times, because the first rounds of a run or
// of a new member are not typical.
inline constexpr uint64_t kLeastRoundsToJudge = 3;

// Returns the findings, the most expensive first. Returns none if the rounds so far, and the run's
// outer step, show no problem. `status` must hold the newest rounds.
std::vector<RunFinding> Diagnose(const v1::RunStatus& status);

// Returns the usual times of a round and all findings. Findings that cost no time have no "seconds"
// and no "share". "healthy" is true only if there are enough rounds to judge the run.
nlohmann::ordered_json DiagnosisJson(const v1::RunStatus& status);

// Returns lines with the usual times of a round, then each finding with the config line to change
// and the advice. If there is no finding, a line says why.
std::vector<std::string> DiagnosisText(const v1::RunStatus& status);

}  // namespace atolld
