// `atoll bench churn`: measures how a run performs while processes die, freeze, are cut off and
// come back.
//
// It executes the same run twice on this machine, first without and then with faults, and reports
// the cost of the faults as JSON and as a table. Each figure is defined at its member in
// ChurnReport. No process is left running.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "daemon/bench/churn_faults.h"
#include "daemon/bench/churn_run.h"
#include "daemon/config/config.h"
#include "daemon/program/command_line.h"

namespace atolld {

struct ChurnOptions {
  std::optional<int64_t> peers;  // The number of peers; if not set, that of the config.
  // The length of each run, for a stub model. With a real model a run lasts until it is sealed.
  double minutes = 2;
  double every_seconds = 15;  // There is one fault in each period of this length.
  uint64_t seed = 1;
  std::string config_path;  // If empty, DefaultChurnConfig() is used.
  std::string data;         // The path of the data; if empty, that of the config.
  // The folder for all files; if empty, a temporary folder, which is kept only if something went
  // wrong.
  std::string dir;
  // The file for the JSON report; "-" means standard output. No report is written if it is empty.
  std::string json;
};

// Returns the contents of configs/churn.toml.
Config DefaultChurnConfig();

// Returns the exit code: 0 if both runs reached their end and all replicas are equal, and otherwise
// 1. Fails with INVALID_ARGUMENT if the options or the config are wrong.
VerbExit BenchChurn(const ChurnOptions& options);

// -----------------------------------------------------------------------------------------------

struct ChurnReport {
  // Statistics of times in seconds. p50 (p95) is the smallest value that at least 50 % (95 %) of
  // all values do not exceed.
  struct Times {
    size_t count = 0;
    std::optional<double> p50, p95;
  };
  struct Fault {
    FaultKind kind;
    std::string victim;
    double at = 0;                   // The seconds since the measurement began.
    std::optional<double> detected;  // The result of SecondsToDetect.
    std::optional<double> rejoined;  // The result of SecondsToRejoin.
    std::optional<double> delay;  // The result of RoundDelay, relative to the run without faults.
  };
  struct Kind {
    FaultKind kind;
    size_t landed = 0;
    size_t undetected = 0;  // The faults that should have been detected and were not.
    Times detect, rejoin, delay;
  };

  uint64_t seed = 0;
  uint32_t peers = 0;
  uint32_t quorum = 0;
  absl::Duration failure_timeout;
  // The number of parameters; 0 if the config gives only the model's shape.
  uint64_t parameters = 0;
  double seconds = 0, seconds_fault_free = 0;

  size_t planned = 0;
  // The faults that landed, which means that they took effect while the run continued.
  std::vector<Fault> faults;
  uint64_t rounds = 0, rounds_fault_free = 0;
  uint64_t tokens = 0, tokens_fault_free = 0;
  double round_seconds_fault_free = 0;  // The median time between two commits.

  // The time-weighted mean of the share of peers whose daemon and worker run and whose connections
  // are not held.
  double mean_live_fraction = 0;

  // True if the following holds in both runs: a replay of each replica's log gives the digests in
  // its headers, all peers reached the same version after the last fault, and no two peers ever
  // reported different states of the same version.
  bool digests_equal = false;
  std::string digest_problem;

  std::optional<double> loss, loss_fault_free;  // The loss of the newest evaluation.
  // The loss of the run without faults at the number of tokens that the run with faults had
  // committed at its newest evaluation.
  std::optional<double> loss_fault_free_at_equal_tokens;
  Times detect, rejoin;     // The times over all faults.
  std::vector<Kind> kinds;  // The kinds of which a fault has landed.

  // The number of inner steps that were wasted: the steps that were lost with a daemon or a worker
  // (LostSteps), and the steps of trainings that a peer had to repeat when it came back.
  uint64_t lost_inner_steps = 0;

  // The committed tokens a second, divided by the product of mean_live_fraction and the committed
  // tokens a second of the run without faults.
  double goodput = 0;

  // The growth of the RSS of a peer's daemon: its RSS at the end / its RSS after the warm-up - 1.
  // It is the largest among the daemons that ran from start to end.
  std::optional<double> rss_growth;

  std::vector<std::string>
      unexpected_exits;               // Exits of processes that no fault has caused, in both runs.
  std::vector<std::string> not_back;  // The victims that were not back within a minute.
};

struct ChurnTerms {
  uint64_t seed = 0;
  Config config;
  size_t planned = 0;
};

ChurnReport MakeChurnReport(const ChurnTerms& terms, const ChurnRunResult& fault_free,
                            const ChurnRunResult& faulty);

// Returns the JSON object that --json writes. Its keys do not change between releases.
std::string ChurnJson(const ChurnReport& report);

// Returns the report as the lines of a table.
std::vector<std::string> ChurnTable(const ChurnReport& report);

}  // namespace atolld
