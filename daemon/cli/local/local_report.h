// What a finished `atoll local` run has to say for itself, as JSON and as a table, and what it
// leaves and shows at its end: report, curve, model, a sample of its text.
//
// Pure functions, any thread; FinishLocalRun alone writes and shows.
#pragma once

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "daemon/cli/chart.h"
#include "daemon/cli/run_watcher.h"
#include "daemon/env/env.h"

namespace atolld {

// How the newest process of a peer stands.
struct PeerProcess {
  std::string id;
  int64_t pid = 0;
  // Exit code; minus the signal's number if one killed it; nothing while it runs, or if it was not
  // our child.
  std::optional<int> exit;
};

struct LocalReport {
  struct Peer {
    PeerProcess process;
    uint64_t rounds_contributed = 0;
    uint64_t tokens = 0;
    uint64_t version = 0;      // of the state that the digest is of
    std::string state_digest;  // hex; empty: none was reported
  };

  std::string run_id;
  uint64_t rounds = 0;       // committed
  uint64_t inner_steps = 0;  // a round
  uint32_t peers_started = 0;
  std::string loss_unit = {};              // "nats a byte"; empty: the run's model knows
  std::optional<double> initial_val_loss;  // nats a token, of version 0
  std::optional<double> final_val_loss;    // of the newest evaluation after it
  uint64_t tokens = 0;
  double wall_seconds = 0;  // first Train to last commit
  double compute_utilization = 0;
  std::optional<double> least_busy;  // the least share of the time that one peer trained, 0-1
  uint64_t parameters = 0;
  std::string codec;  // "int8+zstd"; "bf16/int4": updates, means
  double bytes_sent_per_peer_per_round = 0;
  double fp32_bytes_per_peer_per_round = 0;           // one fp32 all-reduce a round
  double data_parallel_bytes_per_peer_per_round = 0;  // one fp32 all-reduce an inner step
  v1::NoiseStatus noise;
  std::string state_digest;  // hex, of the seal; empty: the run is not sealed
  std::vector<Peer> peers;

  // No two peers whose digest is of the newest version differ, and none differs from the seal.
  bool digests_agree() const;
};

// Bytes that each of `peers` sends in one ring or all-to-all reduce-scatter and all-gather of
// `parameters` fp32 values.
double AllReduceBytes(uint64_t parameters, uint32_t peers);

LocalReport MakeLocalReport(const RunHistory& history, const std::vector<PeerProcess>& processes);

// The object that `atoll local --json` writes; keys are stable.
std::string ReportJson(const LocalReport& report);

// Lines for people.
std::vector<std::string> ReportTable(const LocalReport& report);

// Validation and training loss over the rounds.
Chart LossChart(const RunHistory& history);

// -----------------------------------------------------------------------------------------------

struct LocalEpilogue {
  std::string dir;      // of the run
  std::string config;   // the file that was asked for
  std::string worker;   // the program; empty: the model is a stub, nothing is made of it
  std::string base;     // of a run of adapters: the file beneath them; else empty
  std::string json;     // where the report goes; empty: nowhere, "-": standard output
  size_t columns = 80;  // of what is shown
  Charset charset = Charset::kAscii;
  FILE* out = nullptr;  // where it is shown
};

// Writes the report and the curve, exports the model and samples from it. What fails is said in one
// line and does not keep the rest from happening; false if the report could not be written or the
// replicas differ.
bool FinishLocalRun(Files& files, const RunHistory& history, const LocalReport& report,
                    const LocalEpilogue& epilogue);

}  // namespace atolld
