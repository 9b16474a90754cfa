// What an experiment is, as its file says it: a run's config, what is tried with it, and who takes
// part.
//
// A setting is one combination of the grid with one [[setting]]; each runs with each seed. Plain
// data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "daemon/config/config_value.h"

namespace atolld {

// A key of the file with a value of its own.
struct SettingChange {
  std::string section;
  std::string key;
  RawValue value;
  std::string place;  // "dirichlet.toml:31"

  std::string Name() const;       // "outer.rule"
  std::string ValueText() const;  // as a table shows it: "adam", "0.1"
};

struct ExperimentSetting {
  std::string name;  // "FedProx", "alpha = 0.1"; each once
  std::vector<SettingChange> changes;
};

// [faults], where zero is never.
struct FaultKeys {
  absl::Duration kill_every = absl::ZeroDuration();
  absl::Duration pause_every = absl::ZeroDuration();
  absl::Duration cut_every = absl::ZeroDuration();  // of containers alone
  absl::Duration down = absl::Seconds(10);          // how long one that was hit is away
};

// What a setting may change of [experiment] and [faults].
struct ExperimentKeys {
  uint32_t parties = 0;  // 0: as many as [run] peers, or as the partition makes
  uint32_t hosts = 0;    // peers that host the parties as virtual ones; 0: each is a peer
  std::string ramp;      // "20:8,40:4": 8 peers from round 20 on
  std::string speeds;    // "1,2,4,8": how many times slower each peer is; empty: as the run says
  FaultKeys faults;
};

// The line of the parties whose names match `pattern`: "party-1", "party-*", "default".
struct LinkKeys {
  std::string pattern;
  uint64_t up = 0;  // bytes a second; 0: no limit
  uint64_t down = 0;
  absl::Duration delay = absl::ZeroDuration();  // one way
  double loss = 0;                              // per cent of the packets
};

struct Experiment {
  std::string path;    // as it was given
  std::string folder;  // absolute: where relative paths start
  std::string text;    // of the file
  std::string name;
  std::vector<uint64_t> seeds = {1};
  uint32_t jobs = 0;                     // settings at once; 0: as many as fit
  std::string place = "local";           // [experiment] in: "local", "lab", "compose"
  double target_loss = 0;                // 0: none
  ExperimentKeys keys;                   // before a setting changes them
  std::vector<SettingChange> data;       // of [data] what a partition reads
  std::vector<SettingChange> partition;  // [partition]
  std::string partition_place;           // of its heading; empty: there is none
  std::vector<LinkKeys> links;           // "default" first
  std::vector<ExperimentSetting> settings;
  std::string run_text;  // the file with all but a run's sections blanked: lines stay lines

  bool has_partition() const { return !partition_place.empty(); }
};

// What a name has in a path: "FedProx, alpha = 0.1" is "fedprox-alpha-0-1".
std::string PathName(absl::string_view name);

}  // namespace atolld
