// `atoll bench churn`: how a run fares when processes die, freeze, are cut off and come back.
//
// The same run twice on this machine, first left alone and then under faults, and what the faults
// cost, as JSON and as a table. Every definition stands with its member. It leaves no process
// behind.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "daemon/bench/churn_faults.h"
#include "daemon/bench/churn_run.h"
#include "daemon/config/config.h"

namespace atolld {

struct ChurnOptions {
  std::optional<int64_t> peers;  // instead of the config's
  double minutes = 2;            // of each run; a real model's runs last as long as they take
  double every_seconds = 15;     // a fault in each such span
  uint64_t seed = 1;
  std::string config_path;  // empty: DefaultChurnConfig()
  std::string data;         // instead of the config's
  std::string dir;          // empty: a temporary folder, kept only if something went wrong
  std::string json;         // empty: nowhere, "-": standard output
};

// What configs/churn.toml says.
Config DefaultChurnConfig();

// Returns the exit code: 0 both runs came to their end and all replicas are equal, 1 not, 2 the
// call or the config is wrong.
int BenchChurn(const ChurnOptions& options);

// -----------------------------------------------------------------------------------------------

struct ChurnReport {
  // Seconds; p50 and p95 are the smallest value that so many of all do not exceed.
  struct Times {
    size_t count = 0;
    std::optional<double> p50, p95;
  };
  struct Fault {
    FaultKind kind;
    std::string victim;
    double at = 0;                   // seconds since the measurement began
    std::optional<double> detected;  // SecondsToDetect
    std::optional<double> rejoined;  // SecondsToRejoin
    std::optional<double> delay;     // RoundDelay, against the run without faults
  };
  struct Kind {
    FaultKind kind;
    size_t landed = 0;
    size_t undetected = 0;  // though there was something to detect
    Times detect, rejoin, delay;
  };

  uint64_t seed = 0;
  uint32_t peers = 0;
  uint32_t quorum = 0;
  absl::Duration failure_timeout;
  uint64_t parameters = 0;  // 0: the model's shape says
  double seconds = 0, seconds_fault_free = 0;

  size_t planned = 0;
  std::vector<Fault> faults;  // landed: seen to take effect while the run went on
  uint64_t rounds = 0, rounds_fault_free = 0;
  uint64_t tokens = 0, tokens_fault_free = 0;
  double round_seconds_fault_free = 0;  // median between two commits

  // Time-weighted share of the peers whose daemon and worker run and whose links are open.
  double mean_live_fraction = 0;

  // Each replica's log replays to the digests in its headers, the peers met at one version after
  // the last fault, and no two ever told different states of one version. Of both runs.
  bool digests_equal = false;
  std::string digest_problem;

  std::optional<double> loss, loss_fault_free;  // of the newest evaluation
  // Where the run without faults had committed as many tokens as the other at its newest one.
  std::optional<double> loss_fault_free_at_equal_tokens;
  Times detect, rejoin;     // of all faults
  std::vector<Kind> kinds;  // those that landed

  // Inner steps that were done for nothing: those that died with a daemon or a worker (LostSteps),
  // and whole trainings that a peer had to throw away when it came back.
  uint64_t lost_inner_steps = 0;

  // Committed tokens a second, as a share of the fault-free run's times mean_live_fraction.
  double goodput = 0;

  // RSS of a peer's daemon at the end / after its warm-up - 1; the worst of those that lived
  // through.
  std::optional<double> rss_growth;

  std::vector<std::string> unexpected_exits;  // of processes that nobody had touched, of both runs
  std::vector<std::string> not_back;          // victims that were not back within a minute
};

struct ChurnTerms {
  uint64_t seed = 0;
  Config config;
  size_t planned = 0;
};

ChurnReport MakeChurnReport(const ChurnTerms& terms, const ChurnRunResult& fault_free,
                            const ChurnRunResult& faulty);

// The object that --json writes; keys are stable.
std::string ChurnJson(const ChurnReport& report);

// Lines for people.
std::vector<std::string> ChurnTable(const ChurnReport& report);

}  // namespace atolld
