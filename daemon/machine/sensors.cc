#include "daemon/machine/sensors.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "compression/base/process_limits.h"

namespace atolld {
namespace {

namespace fs = std::filesystem;

// Others' work is that of the last seconds: a page that opens is no reason to pause.
constexpr absl::Duration kWindow = absl::Seconds(10);
constexpr uint64_t kFewestTicks = 20;  // of all processors together, for a share to mean something

// Each reading wakes the driver up.
constexpr absl::Duration kBetweenGpuReadings = absl::Seconds(10);

// The second is that of Windows' driver in WSL2.
constexpr const char* kNvidia[] = {"/usr/bin/nvidia-smi", "/usr/lib/wsl/lib/nvidia-smi"};
constexpr char kLoginctl[] = "/usr/bin/loginctl";

// hwmon drivers of processors and GPUs. Others measure disks, radios and boards, and some of their
// inputs are not connected.
constexpr absl::string_view kHotDrivers[] = {"coretemp", "k10temp",    "zenpower", "cpu_thermal",
                                             "amdgpu",   "radeon",     "nouveau",  "xe",
                                             "i915",     "soc_thermal"};
constexpr double kHottest = 150;  // what is above is no temperature

std::string ReadText(const std::string& path) {
  std::ifstream stream(path);
  std::ostringstream text;
  text << stream.rdbuf();
  return std::string(absl::StripAsciiWhitespace(text.str()));
}

std::optional<double> ReadNumber(const std::string& path) {
  double number = 0;
  if (!absl::SimpleAtod(ReadText(path), &number)) return std::nullopt;
  return number;
}

// Returns their paths, sorted; nothing if there is no such folder.
std::vector<std::string> EntriesOf(const std::string& folder) {
  std::vector<std::string> paths;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    paths.push_back(entry->path().string());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::string NameOf(const std::string& path) { return fs::path(path).filename().string(); }

struct ProcessTimes {
  uint64_t parent = 0;
  uint64_t ticks = 0;  // its own and those of children that it has waited for
  uint64_t resident_pages = 0;
};

// Parses /proc/PID/stat: "1 (a name) S 0 ..."; the name may contain anything.
std::optional<ProcessTimes> ParseStat(const std::string& text) {
  const size_t end = text.rfind(')');
  if (end == std::string::npos) return std::nullopt;
  const std::vector<absl::string_view> words =
      absl::StrSplit(absl::string_view(text).substr(end + 1), ' ', absl::SkipEmpty());
  constexpr size_t kParent = 1, kTicks = 11, kResident = 21;
  if (words.size() <= kResident) return std::nullopt;
  ProcessTimes times;
  uint64_t ticks = 0;
  if (!absl::SimpleAtoi(words[kParent], &times.parent)) return std::nullopt;
  for (size_t i = kTicks; i < kTicks + 4; ++i) {
    if (!absl::SimpleAtoi(words[i], &ticks)) return std::nullopt;
    times.ticks += ticks;
  }
  if (!absl::SimpleAtoi(words[kResident], &times.resident_pages)) return std::nullopt;
  return times;
}

std::map<uint64_t, ProcessTimes> ReadProcesses(const std::string& root) {
  std::map<uint64_t, ProcessTimes> processes;
  for (const std::string& path : EntriesOf(root + "/proc")) {
    uint64_t pid = 0;
    if (!absl::SimpleAtoi(NameOf(path), &pid)) continue;
    const std::optional<ProcessTimes> times = ParseStat(ReadText(path + "/stat"));
    if (times) processes[pid] = *times;
  }
  return processes;
}

std::vector<uint64_t> TreeOf(const std::map<uint64_t, ProcessTimes>& processes, uint64_t pid) {
  std::vector<uint64_t> tree = {pid};
  for (size_t i = 0; i < tree.size(); ++i) {
    for (const auto& [other, times] : processes) {
      if (times.parent == tree[i] && other != pid) tree.push_back(other);
    }
  }
  return tree;
}

struct PowerSupplies {
  bool battery = false;
  bool discharging = false;
  bool mains = false;
  bool online = false;  // one of the mains
  std::optional<double> charge;
};

PowerSupplies ReadPower(const std::string& root) {
  PowerSupplies power;
  for (const std::string& path : EntriesOf(root + "/sys/class/power_supply")) {
    const std::string type = ReadText(path + "/type");
    if (type == "Battery") {
      if (ReadText(path + "/scope") == "Device") continue;  // of a mouse, say
      power.battery = true;
      power.discharging |= ReadText(path + "/status") == "Discharging";
      const std::optional<double> capacity = ReadNumber(path + "/capacity");
      if (capacity) power.charge = std::min(power.charge.value_or(100), *capacity);
    } else if (type == "Mains" || absl::StartsWith(type, "USB")) {
      power.mains = true;
      power.online |= ReadText(path + "/online") == "1";
    }
  }
  return power;
}

void NoteTemperature(const std::string& path, std::optional<double>* hottest) {
  const std::optional<double> thousandths = ReadNumber(path);
  if (!thousandths || *thousandths <= 0 || *thousandths > kHottest * 1000) return;
  *hottest = std::max(hottest->value_or(0), *thousandths / 1000);
}

}  // namespace

std::optional<CpuTimes> ReadCpuTimes(const std::string& root, uint64_t pid) {
  std::ifstream stream(root + "/proc/stat");
  std::string line;
  if (!std::getline(stream, line)) return std::nullopt;
  const std::vector<absl::string_view> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
  // user nice system idle iowait irq softirq steal; guests are in user.
  constexpr size_t kIdle = 4, kWaiting = 5, kLast = 8;
  if (words.size() <= kLast || words[0] != "cpu") return std::nullopt;
  CpuTimes times;
  for (size_t i = 1; i <= kLast; ++i) {
    uint64_t ticks = 0;
    if (!absl::SimpleAtoi(words[i], &ticks)) return std::nullopt;
    times.total += ticks;
    if (i != kIdle && i != kWaiting) times.busy += ticks;
  }
  const std::map<uint64_t, ProcessTimes> processes = ReadProcesses(root);
  const auto page_bytes = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  for (const uint64_t one : TreeOf(processes, pid)) {
    const auto found = processes.find(one);
    if (found == processes.end()) continue;
    times.own += found->second.ticks;
    if (one != pid) times.worker_bytes += found->second.resident_pages * page_bytes;
  }
  return times;
}

std::optional<double> OthersShare(const CpuTimes& before, const CpuTimes& after) {
  if (after.total < before.total + kFewestTicks) return std::nullopt;
  const auto all = static_cast<double>(after.total - before.total);
  const double busy = static_cast<double>(after.busy) - static_cast<double>(before.busy);
  const double own = static_cast<double>(after.own) - static_cast<double>(before.own);
  return std::clamp((busy - std::max(own, 0.0)) / all * 100, 0.0, 100.0);
}

std::optional<bool> ReadOnBattery(const std::string& root) {
  const PowerSupplies power = ReadPower(root);
  if (!power.battery) return std::nullopt;
  return power.mains ? !power.online : power.discharging;
}

std::optional<double> ReadCharge(const std::string& root) { return ReadPower(root).charge; }

std::optional<double> ReadCelsius(const std::string& root) {
  std::optional<double> hottest;
  for (const std::string& path : EntriesOf(root + "/sys/class/hwmon")) {
    const std::string driver = ReadText(path + "/name");
    if (std::find(std::begin(kHotDrivers), std::end(kHotDrivers), driver) == std::end(kHotDrivers))
      continue;
    for (const std::string& file : EntriesOf(path)) {
      const std::string name = NameOf(file);
      if (absl::StartsWith(name, "temp") && absl::EndsWith(name, "_input")) {
        NoteTemperature(file, &hottest);
      }
    }
  }
  if (hottest) return hottest;
  for (const std::string& path : EntriesOf(root + "/sys/class/thermal")) {
    if (absl::StartsWith(NameOf(path), "thermal_zone")) NoteTemperature(path + "/temp", &hottest);
  }
  return hottest;
}

std::optional<double> ReadGpuBusy(const std::string& root) {
  std::optional<double> busiest;
  for (const std::string& path : EntriesOf(root + "/sys/class/drm")) {
    const std::optional<double> busy = ReadNumber(path + "/device/gpu_busy_percent");
    if (busy) busiest = std::max(busiest.value_or(0), *busy);
  }
  return busiest;
}

uint64_t ReadOwnGpuNanoseconds(const std::string& root, uint64_t pid) {
  uint64_t sum = 0;
  for (const uint64_t one : TreeOf(ReadProcesses(root), pid)) {
    std::set<std::string> clients;  // a descriptor that was copied tells the same again
    for (const std::string& path : EntriesOf(absl::StrCat(root, "/proc/", one, "/fdinfo"))) {
      std::istringstream info(ReadText(path));
      std::string line;
      uint64_t of_client = 0;
      std::string client = path;
      while (std::getline(info, line)) {
        absl::string_view rest = line;
        if (absl::ConsumePrefix(&rest, "drm-client-id:")) {
          client = std::string(absl::StripAsciiWhitespace(rest));
        }
        const std::vector<absl::string_view> words =
            absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
        uint64_t nanoseconds = 0;
        if (words.size() == 3 && absl::StartsWith(words[0], "drm-engine-") && words[2] == "ns" &&
            absl::SimpleAtoi(words[1], &nanoseconds)) {
          of_client += nanoseconds;
        }
      }
      if (clients.insert(client).second) sum += of_client;
    }
  }
  return sum;
}

std::optional<absl::Time> ReadLastTerminalInput(const std::string& root) {
  std::optional<absl::Time> last;
  std::vector<std::string> terminals = EntriesOf(root + "/dev/pts");
  for (const std::string& path : EntriesOf(root + "/dev")) {
    const std::string name = NameOf(path);
    // "/dev/tty", without a number, is the terminal of the process that asks; those with letters
    // are serial lines.
    if (name.size() > 3 && absl::StartsWith(name, "tty") &&
        absl::ascii_isdigit(static_cast<unsigned char>(name[3]))) {
      terminals.push_back(path);
    }
  }
  for (const std::string& path : terminals) {
    struct stat status = {};
    if (NameOf(path) == "ptmx" || stat(path.c_str(), &status) != 0) continue;
    const absl::Time read = absl::TimeFromTimespec(status.st_atim);
    last = std::max(last.value_or(read), read);
  }
  return last;
}

std::optional<uint64_t> ReadInputInterrupts(const std::string& root) {
  std::ifstream stream(root + "/proc/interrupts");
  std::string line;
  std::optional<uint64_t> sum;
  while (std::getline(stream, line)) {
    if (!absl::StrContains(line, "i8042")) continue;
    const std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    for (size_t i = 1; i < words.size(); ++i) {
      uint64_t count = 0;
      if (!absl::SimpleAtoi(words[i], &count)) break;  // the columns of the processors are over
      sum = sum.value_or(0) + count;
    }
  }
  return sum;
}

// Parses "# gpu  pid  type  sm  mem  enc  dec  command", then a line for each process; "-" means
// nothing.
std::optional<double> OthersOfPmon(absl::string_view printed, const std::vector<uint64_t>& own) {
  std::map<std::string, double> by_gpu;
  bool processes = false;
  for (const absl::string_view line : absl::StrSplit(printed, '\n')) {
    const std::vector<std::string> words =
        absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
    uint64_t gpu = 0;
    if (words.size() < 4 || !absl::SimpleAtoi(words[0], &gpu)) continue;
    processes = true;
    uint64_t pid = 0;
    double share = 0;
    if (!absl::SimpleAtoi(words[1], &pid) || !absl::SimpleAtod(words[3], &share)) continue;
    if (std::find(own.begin(), own.end(), pid) == own.end()) by_gpu[words[0]] += share;
  }
  if (!processes) return std::nullopt;
  double most = 0;
  for (const auto& [gpu, share] : by_gpu) most = std::max(most, share);
  return std::min(most, 100.0);
}

std::optional<absl::Time> IdleSinceOfSeat(absl::string_view printed) {
  std::map<std::string, std::string> values;
  for (const absl::string_view line : absl::StrSplit(printed, '\n')) {
    const std::pair<std::string, std::string> sides = absl::StrSplit(line, absl::MaxSplits('=', 1));
    values[sides.first] = sides.second;
  }
  if (values["ActiveSession"].empty()) return std::nullopt;
  if (values["IdleHint"] == "no") return absl::InfiniteFuture();
  int64_t microseconds = 0;
  if (values["IdleHint"] != "yes" || !absl::SimpleAtoi(values["IdleSinceHint"], &microseconds) ||
      microseconds <= 0) {
    return std::nullopt;
  }
  return absl::FromUnixMicros(microseconds);
}

// -----------------------------------------------------------------------------------------------

LinuxSensors::LinuxSensors(Env env, std::string dir, uint64_t pid, std::string root)
    : env_(env),
      dir_(std::move(dir)),
      pid_(pid),
      root_(std::move(root)),
      touched_(env.executor.WallTime()) {}

void LinuxSensors::Read(const MachineConfig& limits, std::function<void(const MachineView&)> done) {
  done_ = std::move(done);
  const auto read = std::make_shared<Readings>();
  env_.executor.Offload([root = root_, dir = dir_, pid = pid_, limits,
                         read] { ReadFiles(root, dir, pid, limits, read.get()); },
                        guard_.Wrap([this, limits, read] { Take(limits, *read); }));
}

// Values that no limit needs are not read.
void LinuxSensors::ReadFiles(const std::string& root, const std::string& dir, uint64_t pid,
                             const MachineConfig& limits, Readings* out) {
  if (limits.others_above > 0 || limits.memory_floor > 0) out->cpu = ReadCpuTimes(root, pid);
  if (!limits.on_battery) out->view.on_battery = ReadOnBattery(root);
  if (limits.charge_below > 0) out->view.charge = ReadCharge(root);
  if (limits.hotter_than > 0) out->view.celsius = ReadCelsius(root);
  if (limits.memory_floor > 0) {
    const MemoryLimit memory = ReadProcessLimits(root).memory;
    if (memory.bytes > 0) out->view.memory_available_bytes = memory.free_bytes;
  }
  if (limits.disk_floor > 0) {
    std::error_code error;
    const fs::space_info space = fs::space(dir, error);
    if (!error) out->view.disk_free_bytes = space.available;
  }
  if (limits.in_use > absl::ZeroDuration()) {
    out->terminal_input = ReadLastTerminalInput(root);
    out->input_interrupts = ReadInputInterrupts(root);
    if (fs::exists(root + kLoginctl)) out->programs.push_back(root + kLoginctl);
  }
  if (limits.gpu_others_above > 0) {
    out->gpu_busy = ReadGpuBusy(root);
    if (out->gpu_busy) out->own_gpu_nanoseconds = ReadOwnGpuNanoseconds(root, pid);
    out->own = TreeOf(ReadProcesses(root), pid);
  }
  if (limits.gpu_others_above > 0 || limits.hotter_than > 0) {
    const auto nvidia = std::find_if(std::begin(kNvidia), std::end(kNvidia),
                                     [&](const char* path) { return fs::exists(root + path); });
    if (nvidia != std::end(kNvidia)) out->programs.push_back(root + *nvidia);
  }
}

void LinuxSensors::TakeCpu(const CpuTimes& cpu) {
  const absl::Time now = env_.executor.Now();
  samples_.push_back({now, cpu});
  while (samples_.size() > 2 && now - samples_[1].at >= kWindow) samples_.pop_front();
  view_.others = OthersShare(samples_.front().cpu, cpu);
  view_.worker_bytes = cpu.worker_bytes;
}

void LinuxSensors::TakeInput(const Readings& read) {
  const absl::Time now = env_.executor.WallTime();
  if (read.input_interrupts) {
    if (interrupts_ && *interrupts_ != *read.input_interrupts) touched_ = now;
    interrupts_ = read.input_interrupts;
  }
  last_input_ = read.terminal_input;
  if (read.input_interrupts) last_input_ = std::max(last_input_.value_or(touched_), touched_);
}

void LinuxSensors::Take(const MachineConfig& limits, const Readings& read) {
  view_ = read.view;
  if (read.cpu) TakeCpu(*read.cpu);
  if (!read.cpu) samples_.clear();
  last_input_.reset();
  asks_for_input_ = limits.in_use > absl::ZeroDuration();
  if (asks_for_input_) TakeInput(read);
  if (read.gpu_busy) {
    const absl::Time now = env_.executor.Now();
    if (gpu_read_at_ && now > *gpu_read_at_) {
      const double own = 100 *
                         static_cast<double>(read.own_gpu_nanoseconds -
                                             std::min(read.own_gpu_nanoseconds, gpu_nanoseconds_)) /
                         absl::ToDoubleNanoseconds(now - *gpu_read_at_);
      view_.gpu_others = std::max(0.0, *read.gpu_busy - own);
    }
    gpu_read_at_ = now;
    gpu_nanoseconds_ = read.own_gpu_nanoseconds;
  }
  RunPrograms(limits, read);
}

void LinuxSensors::RunPrograms(const MachineConfig& limits, const Readings& read) {
  ++running_;  // this function
  const absl::Time now = env_.executor.Now();
  for (const std::string& program : read.programs) {
    if (absl::EndsWith(program, kLoginctl)) {
      Run({program, "show-seat", "seat0"},
          [this](const std::string& printed) { seat_idle_ = IdleSinceOfSeat(printed); });
    } else if (now - nvidia_read_at_ >= kBetweenGpuReadings) {
      nvidia_read_at_ = now;
      if (limits.gpu_others_above > 0) {
        Run({program, "pmon", "-c", "1", "-s", "u"}, [this, own = read.own](const std::string& p) {
          nvidia_others_ = OthersOfPmon(p, own);
        });
      }
      Run({program, "--query-gpu=temperature.gpu", "--format=csv,noheader,nounits"},
          [this](const std::string& printed) {
            nvidia_celsius_.reset();
            for (const absl::string_view line : absl::StrSplit(printed, '\n')) {
              double celsius = 0;
              if (!absl::SimpleAtod(line, &celsius)) continue;
              nvidia_celsius_ = std::max(nvidia_celsius_.value_or(celsius), celsius);
            }
          });
    }
  }
  if (--running_ == 0) Finish();
}

void LinuxSensors::Run(std::vector<std::string> arguments,
                       std::function<void(const std::string&)> take) {
  const uint64_t id = ++next_program_;
  const auto printed = std::make_shared<std::string>();
  ChildProcess::Options options;
  options.arguments = std::move(arguments);
  options.death_signal = SIGKILL;
  ChildProcess::Events events;
  events.on_output_line = [printed](const std::string& line) {
    absl::StrAppend(printed.get(), line, "\n");
  };
  events.on_exit = [this, id, printed, take = std::move(take)](const ExitStatus& status) {
    take(status.ok() ? *printed : "");
    programs_.erase(id);
    if (--running_ == 0) Finish();
  };
  absl::StatusOr<std::unique_ptr<ChildProcess>> process =
      ChildProcess::Spawn(env_.executor, std::move(options), std::move(events));
  if (!process.ok()) return;
  ++running_;
  (programs_[id] = *std::move(process))->KillAfter(kProgramLimit);
}

void LinuxSensors::Finish() {
  if (asks_for_input_) {
    const absl::Time now = env_.executor.WallTime();
    std::optional<absl::Time> last = last_input_;
    if (seat_idle_)
      last = std::max(last.value_or(absl::InfinitePast()), std::min(*seat_idle_, now));
    if (last) view_.untouched = std::max(absl::ZeroDuration(), now - *last);
  }
  if (nvidia_others_) {
    view_.gpu_others = std::max(view_.gpu_others.value_or(0), *nvidia_others_);
  }
  if (nvidia_celsius_) view_.celsius = std::max(view_.celsius.value_or(0), *nvidia_celsius_);
  std::exchange(done_, nullptr)(view_);
}

}  // namespace atolld
