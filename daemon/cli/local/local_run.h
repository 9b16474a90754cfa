// `atoll local`: a whole run on this machine, from a config file to a trained model.
//
// It makes the run's folder, or continues the run that the folder holds; processes that still run
// from the last `atoll local` are taken over. It starts a coordinator and its peers, shows what
// they do, and reports which have died and how to start them again. It ends when the run is sealed
// and every process has ended, when a signal asks for it, or when too few of the workers can start.
// In each case it leaves no process running, reports the result and how to continue, and removes
// nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "daemon/program/command_line.h"

namespace atolld {

struct LocalOptions {
  std::string config_path;        // the config file; if empty, the config in `dir` is used
  std::optional<int64_t> peers;   // replaces the config's value if set
  std::optional<int64_t> rounds;  // replaces the config's value if set
  std::string data;               // replaces the config's value if not empty
  // A new or empty folder, or that of a run to continue; if empty, ./atoll-run-TIME.
  std::string dir;
  std::string json;    // the report's file; "-" for standard output; empty for no file
  std::string listen;  // HOST:PORT of the coordinator for other machines; if empty, the config's
  int port = 0;        // the coordinator's port; 0 means the config's, or a free port
  // The events of the peers, in the forms that local_plan.h parses. An empty text means no events.
  std::string ramp;         // "20:8,40:4"
  std::string lines;        // "*=20Mbit/100Mbit,peer-1=2Mbit/"
  std::string speeds;       // "1,2,4,8"
  std::string lora_ranks;   // "4,8,16"
  std::string kill_every;   // "2m"
  std::string pause_every;  // in the same form as kill_every
  std::string down = "10s";
  std::string topology;  // the topology of the lab in which the run is; empty without a lab
};

// The last line of the output begins with this text, and the reason follows, if the run failed
// without a signal to end.
inline constexpr char kWhyItEnded[] = "it ended: ";

// Returns the exit code: 0 if the run is sealed, and 1 if it is not. Fails with an error if the
// call or the config is wrong, or if nothing could be started. Blocks until the run has ended. Call
// it once in a process.
VerbExit RunLocal(const LocalOptions& options);

}  // namespace atolld
