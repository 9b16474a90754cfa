// Sensors: reads the values on which an owner can set limits, such as battery, temperature and the
// use of keyboard and processors.
//
// LinuxSensors reads only /proc, /sys and /dev and runs a few programs. It needs no library and no
// privileges:
//
//   keyboard, mouse   the time at which terminals (/dev/tty*, /dev/pts/*) were last read, changes
//                     in the interrupt counts of i8042 (notebooks, PS/2) and, on a desktop, the
//                     idle time that `loginctl show-seat` reports
//   battery, mains    /sys/class/power_supply
//   temperature       hwmon sensors of processors and GPUs, or thermal zones if there are no such
//                     sensors; for an NVIDIA GPU the output of nvidia-smi
//   others' CPU       /proc/stat, minus the CPU time of this daemon and all its descendants, over
//                     the last ten seconds
//   others' GPU       for AMD gpu_busy_percent, minus the worker's own use in its fdinfo; for
//                     NVIDIA the output of nvidia-smi pmon
//   memory            the memory that this process can still allocate, within its control groups
//   disk              the free space of the disk on which the replica is
//
// A value that the machine lacks is not reported. Used on the loop thread. Files are read on the
// pool, and programs run as child processes, which are abandoned after kProgramLimit.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "daemon/config/machine_config.h"
#include "daemon/env/child_process.h"
#include "daemon/env/env.h"
#include "daemon/machine/owner_limits.h"

namespace atolld {

class Sensors {
 public:
  virtual ~Sensors() = default;
  // Reads the values that these limits need and calls `done` with them later, on the loop. Only one
  // Read may be under way at a time.
  virtual void Read(const MachineConfig& limits, std::function<void(const MachineView&)> done) = 0;
};

// The CPU time since the machine's start, in ticks of the kernel.
struct CpuTimes {
  uint64_t busy = 0;  // The time of all processes.
  uint64_t total = 0;
  uint64_t own = 0;  // The time of `pid` and all its descendants, including those that have ended.
  uint64_t worker_bytes = 0;  // The resident memory of the descendants.
};

// These functions read only files below `root`, which is a prefix of the paths /proc, /sys and
// /dev, for tests. They return nullopt if the machine does not report the value. They block, and
// may be called from any thread.
std::optional<CpuTimes> ReadCpuTimes(const std::string& root, uint64_t pid);
std::optional<bool> ReadOnBattery(const std::string& root);
std::optional<double> ReadCharge(const std::string& root);
std::optional<double> ReadCelsius(const std::string& root);
// Returns the use of the busiest AMD GPU in per cent.
std::optional<double> ReadGpuBusy(const std::string& root);
// Includes the descendants of `pid`.
uint64_t ReadOwnGpuNanoseconds(const std::string& root, uint64_t pid);
std::optional<absl::Time> ReadLastTerminalInput(const std::string& root);
std::optional<uint64_t> ReadInputInterrupts(const std::string& root);

// Returns the percentage of the processors that other programs have used between two readings;
// nullopt if the time between them is too short.
std::optional<double> OthersShare(const CpuTimes& before, const CpuTimes& after);

// Parses the output of `nvidia-smi pmon -c 1 -s u`. Returns the percentage of the GPU that
// processes outside `own` use; nullopt if the output lists no processes.
std::optional<double> OthersOfPmon(absl::string_view printed, const std::vector<uint64_t>& own);
// Parses the output of `loginctl show-seat seat0`. Returns the time of the wall clock since which
// the seat has been idle, or InfiniteFuture if it is in use. Returns nullopt if no user is at the
// seat or the output does not say.
std::optional<absl::Time> IdleSinceOfSeat(absl::string_view printed);

// Reads the sensors that are listed at the top of this file. It has more than twenty members
// because each kind of sensor keeps its last reading until the next one.
class LinuxSensors final : public Sensors {
 public:
  static constexpr absl::Duration kProgramLimit = absl::Seconds(5);

  // `dir` is the folder of the replica. `pid` is the id of this process. `root` is a prefix of all
  // paths, for tests.
  LinuxSensors(Env env, std::string dir, uint64_t pid, std::string root = "");

  void Read(const MachineConfig& limits, std::function<void(const MachineView&)> done) override;

 private:
  struct Readings {  // The values that were read from files on the pool.
    MachineView view;
    std::optional<CpuTimes> cpu;
    std::optional<double> gpu_busy;
    uint64_t own_gpu_nanoseconds = 0;
    std::optional<absl::Time> terminal_input;
    std::optional<uint64_t> input_interrupts;
    std::vector<uint64_t> own;  // The ids of this process and all its descendants.
    // The paths of the programs that LinuxSensors uses and that exist.
    std::vector<std::string> programs;
  };
  struct Sample {
    absl::Time at;
    CpuTimes cpu;
  };

  static void ReadFiles(const std::string& root, const std::string& dir, uint64_t pid,
                        const MachineConfig& limits, Readings* out);
  void Take(const MachineConfig& limits, const Readings& read);
  void TakeCpu(const CpuTimes& cpu);
  void TakeInput(const Readings& read);
  void RunPrograms(const MachineConfig& limits, const Readings& read);
  void Run(std::vector<std::string> arguments, std::function<void(const std::string&)> take);
  void Finish();

  const Env env_;
  const std::string dir_;
  const uint64_t pid_;
  const std::string root_;

  // Used on the loop thread.
  std::function<void(const MachineView&)> done_;
  MachineView view_;
  std::deque<Sample> samples_;
  std::optional<absl::Time> gpu_read_at_;
  uint64_t gpu_nanoseconds_ = 0;
  std::optional<uint64_t> interrupts_;
  // The time at which the interrupt counts last showed a use of keyboard or mouse.
  absl::Time touched_;
  // The time since which the seat has been idle, in its last report.
  std::optional<absl::Time> seat_idle_;
  // The last input at the last reading, without the seat's report.
  std::optional<absl::Time> last_input_;
  bool asks_for_input_ = false;
  std::optional<double> nvidia_others_;
  std::optional<double> nvidia_celsius_;
  absl::Time nvidia_read_at_ = absl::InfinitePast();
  size_t running_ = 0;  // The number of programs that are running.
  std::map<uint64_t, std::unique_ptr<ChildProcess>> programs_;
  uint64_t next_program_ = 0;
  CallbackGuard guard_;
};

}  // namespace atolld
