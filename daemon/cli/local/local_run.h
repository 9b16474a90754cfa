// `atoll local`: a whole run on this machine, from a config file to a trained model.
//
// Makes the run's folder, or goes on with the run that it holds, and with those of its processes
// that outlived the last `atoll local`; starts a coordinator and its
// peers, shows what they do, tells who died and how to start it again, and ends when the run is
// sealed and every process is gone, when a signal asks for it, or when none of its workers can
// start. However it ends, it leaves nothing running, says what was reached and how to go on, and
// takes nothing away.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace atolld {

struct LocalOptions {
  std::string config_path;        // empty: the one that `dir` holds
  std::optional<int64_t> peers;   // instead of the config's
  std::optional<int64_t> rounds;  // instead of the config's
  std::string data;               // instead of the config's; empty: as it says
  std::string dir;                // new, empty, or a run's to go on; empty: ./atoll-run-TIME
  std::string json;               // where the report goes; empty: nowhere, "-": standard output
  std::string listen;  // HOST:PORT where others find the coordinator; empty: the config's
  int port = 0;        // of the coordinator; 0: a free one
  // What happens to the peers, as local_plan.h has it; empty: nothing.
  std::string ramp;         // "20:8,40:4"
  std::string lines;        // "*=20Mbit/100Mbit,peer-1=2Mbit/"
  std::string speeds;       // "1,2,4,8"
  std::string kill_every;   // "2m"
  std::string pause_every;  // the same
  std::string down = "10s";
  std::string topology;  // of a lab that the run is in; empty: in none
};

// Returns the exit code: 0 the run is sealed, 1 it is not, 2 the call or the config is wrong. One
// process, once.
int RunLocal(const LocalOptions& options);

}  // namespace atolld
