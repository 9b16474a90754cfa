// Would break: a limit acts on what is not so - the daemon's own work taken for somebody else's, a
// mouse's battery for the machine's - or never, since nothing is seen.
#include "daemon/machine/sensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "daemon/env/posix_executor.h"
#include "daemon/env/posix_files.h"
#include "tests/unit/daemon/env/temporary_directory.h"

namespace atolld {
namespace {

namespace fs = std::filesystem;

constexpr absl::Duration kLimit = absl::Seconds(30);

class PlantedMachine : public ::testing::Test {
 protected:
  void Plant(const std::string& path, const std::string& text) {
    const fs::path file = root() + path;
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text << "\n";
  }
  // "1 (name) S parent ...": ticks of its own in user and system, of its children, and its pages.
  void PlantProcess(int pid, int parent, const std::string& name, int ticks, int of_children,
                    int pages) {
    Plant(absl::StrCat("/proc/", pid, "/stat"),
          absl::StrCat(pid, " (", name, ") S ", parent, " 1 1 0 -1 0 0 0 0 0 ", ticks, " 0 ",
                       of_children, " 0 20 0 1 0 100 100000 ", pages, " 0 0"));
  }
  void PlantCpu(int user, int system, int idle, int waiting) {
    Plant("/proc/stat", absl::StrCat("cpu  ", user, " 0 ", system, " ", idle, " ", waiting,
                                     " 0 0 0 0 0\ncpu0 1 2 3 4 5 6 7 8 9 10"));
  }
  std::string root() const { return dir_.path(); }

  TemporaryDirectory dir_;
};

TEST_F(PlantedMachine, OthersWorkIsAllWorkButThatOfTheDaemonAndAllBelowIt) {
  EXPECT_EQ(ReadCpuTimes(root(), 10), std::nullopt);
  PlantCpu(1000, 500, 8000, 500);
  PlantProcess(1, 0, "init", 50, 900, 7);
  PlantProcess(10, 1, "atolld", 100, 20, 5);
  PlantProcess(11, 10, "a (worker) S 1", 300, 0, 1000);  // whatever it is called
  PlantProcess(12, 11, "helper", 40, 0, 1);
  PlantProcess(13, 1, "game", 700, 0, 3);
  const std::optional<CpuTimes> before = ReadCpuTimes(root(), 10);
  ASSERT_TRUE(before.has_value());
  EXPECT_EQ(before->busy, 1500u);
  EXPECT_EQ(before->total, 10000u);
  EXPECT_EQ(before->own, 460u);
  EXPECT_EQ(before->worker_bytes, 1001u * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)));

  // Of 1000 ticks of the processors 500 are busy: 300 of the worker, 200 of the game.
  PlantCpu(1400, 600, 8400, 600);
  PlantProcess(11, 10, "a (worker) S 1", 600, 0, 1000);
  PlantProcess(13, 1, "game", 900, 0, 3);
  EXPECT_EQ(OthersShare(*before, *ReadCpuTimes(root(), 10)), 20.0);

  // A worker that has ended is in its parent's count, and nobody else's work.
  fs::remove_all(root() + "/proc/11");
  fs::remove_all(root() + "/proc/12");
  PlantProcess(10, 1, "atolld", 100, 20 + 600 + 40, 5);
  EXPECT_EQ(OthersShare(*before, *ReadCpuTimes(root(), 10)), 20.0);
  EXPECT_EQ(OthersShare(*before, *before), std::nullopt) << "no time has passed";
}

TEST_F(PlantedMachine, ABatteryIsTheMachinesOwn) {
  EXPECT_EQ(ReadOnBattery(root()), std::nullopt);
  EXPECT_EQ(ReadCharge(root()), std::nullopt);
  const std::string power = "/sys/class/power_supply/";
  Plant(power + "mouse/type", "Battery");
  Plant(power + "mouse/scope", "Device");
  Plant(power + "mouse/status", "Discharging");
  Plant(power + "mouse/capacity", "3");
  EXPECT_EQ(ReadOnBattery(root()), std::nullopt);
  Plant(power + "BAT0/type", "Battery");
  Plant(power + "BAT0/status", "Discharging");
  Plant(power + "BAT0/capacity", "64");
  EXPECT_EQ(ReadOnBattery(root()), true);
  EXPECT_EQ(ReadCharge(root()), 64);
  // A full battery on mains may discharge a little.
  Plant(power + "AC/type", "Mains");
  Plant(power + "AC/online", "1");
  EXPECT_EQ(ReadOnBattery(root()), false);
  Plant(power + "AC/online", "0");
  EXPECT_EQ(ReadOnBattery(root()), true);
}

TEST_F(PlantedMachine, TheHottestOfProcessorsAndGpusCounts) {
  EXPECT_EQ(ReadCelsius(root()), std::nullopt);
  Plant("/sys/class/thermal/thermal_zone0/temp", "41000");
  EXPECT_EQ(ReadCelsius(root()), 41);
  Plant("/sys/class/hwmon/hwmon0/name", "nvme");
  Plant("/sys/class/hwmon/hwmon0/temp1_input", "99000");
  EXPECT_EQ(ReadCelsius(root()), 41);
  Plant("/sys/class/hwmon/hwmon1/name", "k10temp");
  Plant("/sys/class/hwmon/hwmon1/temp1_input", "55125");
  Plant("/sys/class/hwmon/hwmon1/temp1_max", "70000");
  Plant("/sys/class/hwmon/hwmon2/name", "amdgpu");
  Plant("/sys/class/hwmon/hwmon2/temp1_input", "71500");
  Plant("/sys/class/hwmon/hwmon2/temp2_input", "255000");  // is not connected
  EXPECT_EQ(ReadCelsius(root()), 71.5);
}

TEST_F(PlantedMachine, AnAmdGpusWorkIsTold) {
  EXPECT_EQ(ReadGpuBusy(root()), std::nullopt);
  Plant("/sys/class/drm/card0/device/gpu_busy_percent", "12");
  Plant("/sys/class/drm/card1/device/gpu_busy_percent", "80");
  EXPECT_EQ(ReadGpuBusy(root()), 80);
  PlantProcess(10, 1, "atolld", 0, 0, 0);
  PlantProcess(11, 10, "worker", 0, 0, 0);
  const std::string info =
      "drm-driver:\tamdgpu\ndrm-client-id:\t7\ndrm-engine-gfx:\t100 ns\n"
      "drm-engine-compute:\t4000 ns\ndrm-memory-vram:\t9 KiB";
  Plant("/proc/11/fdinfo/5", info);
  Plant("/proc/11/fdinfo/6", info);  // the same client by another descriptor
  Plant("/proc/11/fdinfo/7", "pos:\t0");
  EXPECT_EQ(ReadOwnGpuNanoseconds(root(), 10), 4100u);
}

TEST(PmonTest, OthersOnAnNvidiaGpuAreTold) {
  const char* printed =
      "# gpu         pid   type     sm    mem    enc    dec    command\n"
      "# Idx           #    C/G      %      %      %      %    name\n"
      "    0      1234     G     30     10      -      -    Xorg\n"
      "    0      5678     C     60     20      -      -    atoll-worker\n"
      "    1      4321     C      5      1      -      -    game\n"
      "    1      4322     G      -      -      -      -    shell\n";
  EXPECT_EQ(OthersOfPmon(printed, {5678}), 30);
  EXPECT_EQ(OthersOfPmon(printed, {}), 90);
  EXPECT_EQ(OthersOfPmon("    0         -     -      -      -      -      -    -\n", {}), 0);
  EXPECT_EQ(OthersOfPmon("Failed to initialize NVML\n", {}), std::nullopt);
}

TEST(SeatTest, ASeatSaysSinceWhenItIsIdle) {
  const char* used = "Id=seat0\nActiveSession=2\nIdleHint=no\nIdleSinceHint=0\n";
  EXPECT_EQ(IdleSinceOfSeat(used), absl::InfiniteFuture());
  EXPECT_EQ(IdleSinceOfSeat("ActiveSession=2\nIdleHint=yes\nIdleSinceHint=1700000000000000\n"),
            absl::FromUnixSeconds(1700000000));
  EXPECT_EQ(IdleSinceOfSeat("ActiveSession=\nIdleHint=no\n"), std::nullopt);
  EXPECT_EQ(IdleSinceOfSeat(""), std::nullopt);
}

TEST_F(PlantedMachine, InputIsSeenAtTerminalsAndByInterrupts) {
  EXPECT_EQ(ReadLastTerminalInput(root()), std::nullopt);
  EXPECT_EQ(ReadInputInterrupts(root()), std::nullopt);
  Plant("/dev/ttyS0", "a serial line");
  Plant("/dev/tty", "whoever asks");
  EXPECT_EQ(ReadLastTerminalInput(root()), std::nullopt);
  const absl::Time before = absl::FromUnixSeconds(1000000000);
  Plant("/dev/tty1", "");
  Plant("/dev/pts/0", "");
  EXPECT_GT(*ReadLastTerminalInput(root()), before);
  Plant("/proc/interrupts",
        "            CPU0       CPU1\n"
        "   1:        100         20   IO-APIC   1-edge      i8042\n"
        "   8:          1          0   IO-APIC   8-edge      rtc0\n"
        "  12:       3000          0   IO-APIC  12-edge      i8042");
  EXPECT_EQ(ReadInputInterrupts(root()), 3120u);
}

class QuietLog final : public atolld::Log {
 public:
  void Write(atolld::Log::Level, absl::string_view) override {}
};

class NoTransport final : public Transport {
 public:
  absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string&, Acceptor) override {
    return absl::UnimplementedError("");
  }
  std::unique_ptr<Call> Dial(const std::string&, const std::string&, absl::Duration) override {
    return nullptr;
  }
};

TEST_F(PlantedMachine, OnlyWhatALimitAsksForIsReadAndProgramsAreAsked) {
  PosixExecutor executor{PosixExecutor::Options()};
  PosixFiles files;
  NoTransport transport;
  QuietLog log;
  LinuxSensors sensors(Env{executor, files, transport, log}, dir_.path(), 10, root());
  const auto read = [&](const MachineConfig& limits) {
    std::optional<MachineView> seen;
    sensors.Read(limits, [&](const MachineView& view) { seen = view; });
    EXPECT_TRUE(executor.RunUntil([&] { return seen.has_value(); }, kLimit));
    return seen.value_or(MachineView());
  };
  Plant("/sys/class/hwmon/hwmon1/name", "k10temp");
  Plant("/sys/class/hwmon/hwmon1/temp1_input", "55000");
  PlantProcess(10, 1, "atolld", 0, 0, 0);
  PlantProcess(11, 10, "worker", 0, 0, 0);
  Plant("/usr/bin/nvidia-smi",
        "#!/bin/sh\nif [ \"$1\" = pmon ]; then echo '0 11 C 50 1 - - worker'; "
        "echo '0 99 G 33 1 - - game'; else echo 77; fi");
  fs::permissions(root() + "/usr/bin/nvidia-smi", fs::perms::owner_all);
  Plant("/usr/bin/loginctl",
        "#!/bin/sh\necho ActiveSession=1; echo IdleHint=yes; echo IdleSinceHint=1000000000000000");
  fs::permissions(root() + "/usr/bin/loginctl", fs::perms::owner_all);

  MachineView view = read(MachineConfig());
  EXPECT_FALSE(view.celsius || view.untouched || view.gpu_others || view.disk_free_bytes);
  MachineConfig limits;
  limits.hotter_than = 80;
  limits.gpu_others_above = 10;
  limits.in_use = absl::Minutes(1);
  limits.disk_floor = 1;
  view = read(limits);
  EXPECT_EQ(view.celsius, 77) << "of the GPU";
  EXPECT_EQ(view.gpu_others, 33);
  ASSERT_TRUE(view.untouched.has_value());
  EXPECT_GT(*view.untouched, absl::Hours(24 * 365));
  EXPECT_GT(view.disk_free_bytes.value_or(0), 0u);
}

// Broken: in WSL2 a limit on the heat of the GPU would have no effect.
TEST_F(PlantedMachine, TheGpuOfWindowsIsAskedInWsl2) {
  PosixExecutor executor{PosixExecutor::Options()};
  PosixFiles files;
  NoTransport transport;
  QuietLog log;
  LinuxSensors sensors(Env{executor, files, transport, log}, dir_.path(), 10, root());
  // WSL2 shows no use of a GPU by process.
  Plant("/usr/lib/wsl/lib/nvidia-smi", "#!/bin/sh\n[ \"$1\" = pmon ] && exit 1; echo 71");
  fs::permissions(root() + "/usr/lib/wsl/lib/nvidia-smi", fs::perms::owner_all);
  MachineConfig limits;
  limits.hotter_than = 80;
  limits.gpu_others_above = 10;
  std::optional<MachineView> seen;
  sensors.Read(limits, [&](const MachineView& view) { seen = view; });
  ASSERT_TRUE(executor.RunUntil([&] { return seen.has_value(); }, kLimit));
  EXPECT_EQ(seen->celsius, 71);
  EXPECT_EQ(seen->gpu_others, std::nullopt);
}

}  // namespace
}  // namespace atolld
