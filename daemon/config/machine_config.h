// What the owner of a machine lends to a run ([machine]): how much of the line, the processors and
// the day, and what takes precedence.
//
// Plain data; daemon/machine/ acts on it.
#pragma once

#include <cstdint>
#include <string>

#include "absl/time/time.h"

namespace atolld {

struct MachineConfig {  // [machine], where 0 and an empty text stand for no limit
  uint64_t up_cap = 0;  // bytes a second, of all that this daemon sends to others
  uint64_t down_cap = 0;
  uint64_t bytes_a_day = 0;  // both ways together, from midnight to midnight, local time
  // When it trains, and when it exchanges: "mon-fri 18:00-08:00, sat-sun"; empty: always.
  std::string hours;
  std::string network_hours;
  // Reasons to pause.
  absl::Duration in_use = absl::ZeroDuration();  // keyboard or mouse was touched so recently
  bool on_battery = true;                        // whether it trains on battery
  double charge_below = 0;                       // per cent of the battery
  double hotter_than = 0;                        // degrees Celsius
  double others_above = 0;                       // per cent of all processors, by others' work
  double gpu_others_above = 0;                   // per cent of the GPU, by others' work
  uint64_t memory_floor = 0;                     // bytes that must stay free
  uint64_t disk_floor = 0;
  double processors =
      0;  // per cent of the processors that the worker may have; 0: [worker] threads
};

}  // namespace atolld
