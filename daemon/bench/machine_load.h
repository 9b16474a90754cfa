// MachineLoad: how busy all cores of this machine were between two moments, whoever used them.
//
// From /proc/stat, in hundredths of a second. One thread.
#pragma once

#include <cstdint>

namespace atolld {

class MachineLoad {
 public:
  MachineLoad();  // the first moment

  // Since then, of all cores' time the share that was not idle, 0 to 1; negative: not known.
  double BusyShare() const;

 private:
  struct Times {
    uint64_t all = 0;
    uint64_t idle = 0;  // and waiting for a disk
  };
  static Times Now();

  const Times first_;
};

}  // namespace atolld
