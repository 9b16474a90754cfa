#include "daemon/bench/machine_load.h"

#include <fstream>
#include <string>

namespace atolld {

MachineLoad::MachineLoad() : first_(Now()) {}

double MachineLoad::BusyShare() const {
  const Times now = Now();
  if (now.all <= first_.all) return -1;
  const uint64_t idle = now.idle - first_.idle;
  return 1 - static_cast<double>(idle) / static_cast<double>(now.all - first_.all);
}

// "cpu  user nice system idle iowait irq softirq steal guest guest_nice"; guests are part of user.
MachineLoad::Times MachineLoad::Now() {
  std::ifstream stat("/proc/stat");
  std::string name;
  Times times;
  if (!(stat >> name)) return times;
  uint64_t hundredths = 0;
  for (int field = 0; field < 8 && stat >> hundredths; ++field) {
    times.all += hundredths;
    if (field == 3 || field == 4) times.idle += hundredths;
  }
  return times;
}

}  // namespace atolld
