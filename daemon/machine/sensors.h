// Sensors: what a peer sees of its machine and of those who use it, for its owner's limits.
//
// LinuxSensors reads /proc and /sys alone, and needs no library and no rights:
//
//   keyboard, mouse   when terminals (/dev/tty*, /dev/pts/*) were last read from, changes of the
//                     interrupt counts of i8042 (notebooks, PS/2), and, of a desktop, what
//                     `loginctl show-seat` says is idle since when
//   battery, mains    /sys/class/power_supply
//   temperature       hwmon sensors of processors and GPUs; where none is, thermal zones; of an
//                     NVIDIA GPU what nvidia-smi says
//   others' CPU       /proc/stat, less the CPU time of this daemon and all below it, over the last
//                     ten seconds
//   others' GPU       AMD: gpu_busy_percent, less what the worker's own fdinfo says; NVIDIA:
//                     nvidia-smi pmon
//   memory            what this process can still take, by control groups too
//   disk              what is free where the replica lies
//
// A machine without one of them does not tell it. Loop thread; the reading is done on the pool, and
// programs run as children, which are given up after kProgramLimit.
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
#include "daemon/env/env.h"
#include "daemon/env/process_events.h"
#include "daemon/machine/owner_limits.h"

namespace atolld {

class Sensors {
 public:
  virtual ~Sensors() = default;
  // `done` is given what these limits ask for, later, on the loop. One at a time.
  virtual void Read(const MachineConfig& limits, std::function<void(const MachineView&)> done) = 0;
};

// CPU time since the machine's start, in ticks of the kernel.
struct CpuTimes {
  uint64_t busy = 0;  // of all processes
  uint64_t total = 0;
  uint64_t own = 0;           // of `pid` and all below it, those that have ended included
  uint64_t worker_bytes = 0;  // resident memory of those below it
};

// The parts that are pure but for the files below `root`, which stands before /proc, /sys and /dev.
// Blocking; any thread.
std::optional<CpuTimes> ReadCpuTimes(const std::string& root, uint64_t pid);
std::optional<bool> ReadOnBattery(const std::string& root);
std::optional<double> ReadCharge(const std::string& root);
std::optional<double> ReadCelsius(const std::string& root);
std::optional<double> ReadGpuBusy(const std::string& root);  // AMD, the busiest one, per cent
uint64_t ReadOwnGpuNanoseconds(const std::string& root, uint64_t pid);  // of all below it too
std::optional<absl::Time> ReadLastTerminalInput(const std::string& root);
std::optional<uint64_t> ReadInputInterrupts(const std::string& root);

// Per cent of the processors that others have used between two readings; empty: too short a time.
std::optional<double> OthersShare(const CpuTimes& before, const CpuTimes& after);

// Of what `nvidia-smi pmon -c 1 -s u` prints: the share of processes that are none of `own`; empty:
// it prints no processes.
std::optional<double> OthersOfPmon(absl::string_view printed, const std::vector<uint64_t>& own);
// Of `loginctl show-seat seat0`: since when nobody has touched it, by the wall clock;
// InfiniteFuture where somebody does; empty: nobody is at the seat, or it does not say.
std::optional<absl::Time> IdleSinceOfSeat(absl::string_view printed);

class LinuxSensors final : public Sensors {
 public:
  static constexpr absl::Duration kProgramLimit = absl::Seconds(5);

  // `dir`: where the replica lies. `pid`: this process.
  LinuxSensors(Env env, std::string dir, uint64_t pid, std::string root = "");

  void Read(const MachineConfig& limits, std::function<void(const MachineView&)> done) override;

 private:
  struct Readings {  // what the pool has read of the files
    MachineView view;
    std::optional<CpuTimes> cpu;
    std::optional<double> gpu_busy;
    uint64_t own_gpu_nanoseconds = 0;
    std::optional<absl::Time> terminal_input;
    std::optional<uint64_t> input_interrupts;
    std::vector<uint64_t> own;          // this process and all below it
    std::vector<std::string> programs;  // of those below that there are
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

  // Loop thread.
  std::function<void(const MachineView&)> done_;
  MachineView view_;
  std::deque<Sample> samples_;
  std::optional<absl::Time> gpu_read_at_;
  uint64_t gpu_nanoseconds_ = 0;
  std::optional<uint64_t> interrupts_;
  absl::Time touched_;                    // by the interrupts, as far as they tell
  std::optional<absl::Time> seat_idle_;   // since when, as the seat's last answer said
  std::optional<absl::Time> last_input_;  // of the last look, apart from the seat
  bool asks_for_input_ = false;
  std::optional<double> nvidia_others_;
  std::optional<double> nvidia_celsius_;
  absl::Time nvidia_read_at_ = absl::InfinitePast();
  size_t running_ = 0;  // programs
  std::map<uint64_t, std::unique_ptr<ChildProcess>> programs_;
  uint64_t next_program_ = 0;
  CallbackGuard guard_;
};

}  // namespace atolld
