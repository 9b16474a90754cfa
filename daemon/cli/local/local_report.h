// The result of a finished `atoll local` run, as JSON and as a table, and the steps at the run's
// end, which write and show the report, the loss curve, the model and a sample of its text.
//
// The functions are pure except for FinishLocalRun. May be called from any thread.
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

// The state of a peer's newest process.
struct PeerProcess {
  std::string id;
  int64_t pid = 0;
  // The exit code, or minus the signal's number if a signal killed the process. Not set while it
  // runs, or if it was not a child of this process.
  std::optional<int> exit;
};

struct LocalReport {
  struct Peer {
    PeerProcess process;
    uint64_t rounds_contributed = 0;
    uint64_t tokens = 0;
    uint64_t version = 0;      // the version of the state that has the digest
    std::string state_digest;  // hex; empty if none was reported
  };

  std::string run_id;
  uint64_t rounds = 0;       // the number of committed rounds
  uint64_t inner_steps = 0;  // the inner steps of a round
  uint32_t peers_started = 0;
  std::string loss_unit = {};  // "nats a byte"; if empty, the unit of the run's own model
  // The losses are in loss_unit. They are NaN if the model's loss is not a number, and not set if
  // there was no evaluation.
  std::optional<double> initial_val_loss;  // the loss of version 0
  std::optional<double> final_val_loss;    // the loss of the newest evaluation after version 0
  uint64_t tokens = 0;
  std::optional<double> wall_seconds;         // from the first Train message to the last commit
  std::optional<double> compute_utilization;  // 0-1
  // The smallest share of the time that any peer spent on training, 0-1.
  std::optional<double> least_busy;
  uint64_t parameters = 0;  // 0 if they are not known
  std::string codec;        // "int8+zstd", or "bf16/int4" for updates and means
  std::optional<double> bytes_sent_per_peer_per_round;
  double fp32_bytes_per_peer_per_round = 0;           // as for one fp32 all-reduce a round
  double data_parallel_bytes_per_peer_per_round = 0;  // as for one a step
  v1::NoiseStatus noise;
  std::string state_digest;  // hex, from the seal; empty if the run is not sealed
  std::vector<Peer> peers;

  // Returns true if the digests of all peers at the newest version are equal, and equal to the
  // digest in the seal.
  bool digests_agree() const;
};

// Returns the bytes that each of `peers` peers sends when `parameters` fp32 values are averaged by
// one reduce-scatter and one all-gather, in a ring or all-to-all.
double AllReduceBytes(uint64_t parameters, uint32_t peers);

LocalReport MakeLocalReport(const RunHistory& history, const std::vector<PeerProcess>& processes);

// Returns the object that `atoll local --json` writes. Its keys do not change from release to
// release. A figure that is not known is null.
std::string ReportJson(const LocalReport& report);

// Returns the report as lines for people.
std::vector<std::string> ReportTable(const LocalReport& report);

// Returns the validation and training loss over the rounds.
Chart LossChart(const RunHistory& history);

// -----------------------------------------------------------------------------------------------

struct LocalEpilogue {
  std::string dir;      // the folder of the run
  std::string config;   // the config file that the user gave
  std::string worker;   // the program; empty for a stub, which has no model to export
  std::string base;     // for a run of adapters, the file of their base; otherwise empty
  std::string json;     // the report's file; "-" for standard output; empty for no file
  size_t columns = 80;  // the width of the output
  Charset charset = Charset::kAscii;
  FILE* out = nullptr;  // where the output is printed
};

// Writes the report and the curve, exports the model and samples from it. A failure of one step is
// reported in one line and does not prevent the others. Returns the reason if the run counts as
// failed, because its report could not be written or the replicas differ; otherwise returns an
// empty text. Blocks.
std::string FinishLocalRun(Files& files, const RunHistory& history, const LocalReport& report,
                           const LocalEpilogue& epilogue);

}  // namespace atolld
