// The share of a machine that its owner lends to a run ([machine]): how much of the line and the
// processors, at which hours, and what makes it pause.
//
// Plain data. The code in daemon/machine/ enforces it.
#pragma once

#include <cstdint>
#include <string>

#include "absl/time/time.h"

namespace atolld {

struct MachineConfig {  // [machine], in which 0 and an empty text mean no limit
  // Limits everything that this daemon sends to other machines, in bytes a second.
  uint64_t up_cap = 0;
  uint64_t down_cap = 0;
  uint64_t bytes_a_day = 0;  // in both directions together, from midnight to midnight, local time
  // The hours of training and the hours of exchanges: "mon-fri 18:00-08:00, sat-sun". Empty means
  // always.
  std::string hours;
  std::string network_hours;
  // The following are reasons to pause.
  absl::Duration in_use = absl::ZeroDuration();  // keyboard or mouse was used this recently
  bool on_battery = true;                        // false pauses while the machine runs on battery
  double charge_below = 0;                       // pauses below this charge, per cent
  double hotter_than = 0;                        // pauses above this temperature, degrees Celsius
  double others_above = 0;      // per cent of all processors that other programs use
  double gpu_others_above = 0;  // per cent of the GPU that other programs use
  uint64_t memory_floor = 0;    // bytes that must stay free
  uint64_t disk_floor = 0;
  // The processors that the worker may use, in per cent; 0 means as [worker] threads says.
  double processors = 0;
};

}  // namespace atolld
