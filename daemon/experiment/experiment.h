// The contents of an experiment's file: the config of a run, the settings that vary it, and the
// parties that take part.
//
// A setting is one combination of the grid with one [[setting]]; each setting runs with each seed.
// Plain data.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "daemon/config/config_value.h"

namespace atolld {

// A key of the file to which a setting gives a value.
struct SettingChange {
  std::string section;
  std::string key;
  RawValue value;
  std::string place;  // "dirichlet.toml:31"

  std::string Name() const;       // "outer.rule"
  std::string ValueText() const;  // the value as tables show it: "adam", "0.1"
};

struct ExperimentSetting {
  std::string name;  // "FedProx", "alpha = 0.1"; unique in the experiment
  std::vector<SettingChange> changes;
};

// The section [faults]. A time of zero means never.
struct FaultKeys {
  absl::Duration kill_every = absl::ZeroDuration();
  absl::Duration pause_every = absl::ZeroDuration();
  absl::Duration cut_every = absl::ZeroDuration();  // only for experiments in containers
  // The time for which a peer that was hit is away.
  absl::Duration down = absl::Seconds(10);
};

// The keys of [experiment] and [faults] that a setting may change.
struct ExperimentKeys {
  uint32_t parties = 0;  // 0 means as many as [run] peers, or as the partition makes
  // The number of peers that together host all parties as virtual ones; 0 means no hosting.
  uint32_t hosts = 0;
  std::string ramp;  // "20:8,40:4": 8 peers from round 20 on
  // "1,2,4,8": how many times slower each peer is; if empty, as in the config
  std::string speeds;
  FaultKeys faults;
};

// The line of the parties whose names match `pattern`: "party-1", "party-*", "default".
struct LinkKeys {
  std::string pattern;
  uint64_t up = 0;  // in bytes a second; 0 means no limit
  uint64_t down = 0;
  absl::Duration delay = absl::ZeroDuration();  // the delay in one direction
  double loss = 0;                              // per cent of the packets that are lost
};

struct Experiment {
  std::string path;    // the path of the file, as the user gave it
  std::string folder;  // the absolute path of the folder in which relative paths start
  std::string text;    // the text of the file
  std::string name;
  std::vector<uint64_t> seeds = {1};
  uint32_t jobs = 0;                     // the number of runs at once; 0 means as many as fit
  std::string place = "local";           // [experiment] in: "local", "lab", "compose"
  double target_loss = 0;                // 0 means no target
  ExperimentKeys keys;                   // the values before a setting changes them
  std::vector<SettingChange> data;       // the keys of [data] that a partition reads
  std::vector<SettingChange> partition;  // [partition]
  // The place of the heading [partition]; empty if there is none.
  std::string partition_place;
  std::vector<LinkKeys> links;  // with the pattern "default" first
  std::vector<ExperimentSetting> settings;
  // The ids of the runs that the experiment's folder already holds, by setting and seed. These runs
  // keep their ids.
  std::map<std::pair<std::string, uint64_t>, std::string> begun;
  // The file with other sections than a run's blanked out, so that lines keep their numbers.
  std::string run_text;

  bool has_partition() const { return !partition_place.empty(); }
  std::vector<std::string> SettingNames() const;
};

// Returns a name in the form that is used in paths: "FedProx, alpha = 0.1" becomes
// "fedprox-alpha-0-1".
std::string PathName(absl::string_view name);

}  // namespace atolld
