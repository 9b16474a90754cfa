// The part of a simulated process that remains when it is restarted: the disk and the clocks of its
// machine.
#pragma once

#include "tests/sim/sim_clock.h"
#include "tests/sim/sim_disk.h"

namespace atolld {

struct SimMachine {
  SimClock clock;
  SimDisk disk;
};

}  // namespace atolld
