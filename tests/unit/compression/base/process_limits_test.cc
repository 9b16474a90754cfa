// Would break: a container of two cores on a machine of 64 starts 64 threads, or is told that it
// has the machine's memory.
#include "compression/base/process_limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/unit/daemon/env/temporary_directory.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kGiB = uint64_t{1} << 30;

// A made-up /proc and /sys.
class MachineTree {
 public:
  MachineTree() {
    Write("sys/devices/system/cpu/online", "0-15\n");
    Write("proc/self/status", "Name:\tx\nCpus_allowed:\tffff\nCpus_allowed_list:\t0-15\n");
    Write("proc/meminfo", "MemTotal: 67108864 kB\nMemFree: 1 kB\nMemAvailable: 33554432 kB\n");
    Limits("unlimited", "1024", "524288", "unlimited");
  }

  void Write(const std::string& name, const std::string& text) {
    const std::filesystem::path path = directory_.File(name);
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }

  void Limits(const std::string& address_space, const std::string& files_soft,
              const std::string& files_hard, const std::string& file_size) {
    Write("proc/self/limits",
          "Limit                     Soft Limit           Hard Limit           Units     \n"
          "Max file size             " +
              file_size +
              "            unlimited            bytes\n"
              "Max data size             unlimited            unlimited            bytes     \n"
              "Max open files            " +
              files_soft + "      " + files_hard +
              "       files\n"
              "Max address space         " +
              address_space + "            unlimited     bytes\n");
  }

  // This process's group of version 2, in a mount that shows `shown`.
  void InGroup(const std::string& path, const std::string& shown = "/") {
    Write("proc/self/cgroup", "0::" + path + "\n");
    Write("proc/self/mountinfo", "24 1 8:1 / / rw - ext4 /dev/a rw\n31 24 0:28 " + shown +
                                     " /sys/fs/cgroup ro,nosuid shared:9 - cgroup2 cgroup rw\n");
  }

  std::string root() const { return directory_.path(); }

  ProcessLimits Read() const { return ReadProcessLimits(directory_.path()); }

 private:
  TemporaryDirectory directory_;
};

// Broken: a daemon that gets no thread ends without saying which limit to raise.
TEST(ThreadLimit, IsTheGroupsWithTheLeastLeft) {
  MachineTree machine;
  EXPECT_EQ(ReadThreadLimit(machine.root()).most, kNoLimit);
  EXPECT_THAT(Describe(ReadThreadLimit(machine.root())), HasSubstr("threads-max"));
  machine.InGroup("/a/b");
  machine.Write("sys/fs/cgroup/a/b/pids.max", "max\n");
  machine.Write("sys/fs/cgroup/a/pids.max", "40\n");
  machine.Write("sys/fs/cgroup/a/pids.current", "38\n");
  machine.Write("sys/fs/cgroup/pids.max", "30000\n");
  const ThreadLimit limit = ReadThreadLimit(machine.root());
  EXPECT_EQ(limit.most, 40u);
  EXPECT_EQ(limit.used, 38u);
  EXPECT_THAT(Describe(limit), HasSubstr("cgroup pids.max of /a is 40, and 38 are in use"));
}

// Broken: a worker that the kernel has killed for want of memory is "killed by signal 9".
TEST(OomKills, AreCountedByTheGroupOrTheMachine) {
  MachineTree machine;
  EXPECT_TRUE(ReadOomKills(machine.root()).source.empty());
  machine.Write("proc/vmstat", "pgfault 9\noom_kill 2\n");
  EXPECT_EQ(ReadOomKills(machine.root()).count, 2u);
  machine.InGroup("/a");
  machine.Write("sys/fs/cgroup/a/memory.events", "oom 7\noom_kill 3\noom_group_kill 0\n");
  EXPECT_EQ(ReadOomKills(machine.root()).count, 3u);
  EXPECT_EQ(ReadOomKills(machine.root()).source, "cgroup memory.events");
  machine.Write("proc/self/cgroup", "4:memory:/a\n");
  machine.Write("proc/self/mountinfo",
                "31 24 0:28 / /sys/fs/cgroup rw - cgroup cgroup rw,memory\n");
  machine.Write("sys/fs/cgroup/a/memory.oom_control", "oom_kill_disable 0\noom_kill 5\n");
  EXPECT_EQ(ReadOomKills(machine.root()).count, 5u);
}

TEST(ProcessLimits, AMachineWithoutLimits) {
  const ProcessLimits limits = MachineTree().Read();
  EXPECT_EQ(limits.cores.threads(), 16u);
  EXPECT_EQ(Describe(limits.cores), "16 cores");
  EXPECT_EQ(limits.memory.bytes, 64 * kGiB);
  EXPECT_EQ(limits.memory.free_bytes, 32 * kGiB);
  EXPECT_EQ(limits.memory.source, "");
  EXPECT_EQ(limits.descriptors, 524288u);
  EXPECT_EQ(limits.file_bytes, kNoLimit);
}

TEST(ProcessLimits, AContainerOfVersion2) {
  MachineTree tree;
  tree.InGroup("/");
  tree.Write("sys/fs/cgroup/cpu.max", "200000 100000\n");
  tree.Write("sys/fs/cgroup/memory.max", "4294967296\n");
  tree.Write("sys/fs/cgroup/memory.current", "3221225472\n");
  tree.Write("sys/fs/cgroup/memory.stat", "anon 5\ninactive_file 1073741824\nactive_file 7\n");
  const ProcessLimits limits = tree.Read();
  EXPECT_EQ(limits.cores.threads(), 2u);
  EXPECT_EQ(Describe(limits.cores), "2 of 16 cores: cgroup cpu.max");
  EXPECT_EQ(limits.memory.bytes, 4 * kGiB);
  EXPECT_EQ(limits.memory.free_bytes, 2 * kGiB);  // pages of files are given back
  EXPECT_EQ(limits.memory.source, "cgroup memory.max");
}

TEST(ProcessLimits, TheTightestOfAllGroupsCounts) {
  MachineTree tree;
  tree.InGroup("/batch.slice/job 7");
  tree.Write("sys/fs/cgroup/batch.slice/cpu.max", "150000 100000\n");
  tree.Write("sys/fs/cgroup/batch.slice/job 7/cpu.max", "400000 100000\n");
  tree.Write("sys/fs/cgroup/batch.slice/memory.max", "max\n");
  tree.Write("sys/fs/cgroup/batch.slice/memory.high", "2147483648\n");
  tree.Write("sys/fs/cgroup/batch.slice/job 7/memory.max", "8589934592\n");
  tree.Write("sys/fs/cgroup/batch.slice/job 7/memory.current", "8053063680\n");
  const ProcessLimits limits = tree.Read();
  EXPECT_EQ(limits.cores.threads(), 1u);
  EXPECT_EQ(Describe(limits.cores), "1.5 of 16 cores: cgroup cpu.max of /batch.slice");
  EXPECT_EQ(limits.memory.bytes, 2 * kGiB);
  EXPECT_EQ(limits.memory.source, "cgroup memory.high of /batch.slice");
  EXPECT_EQ(limits.memory.free_bytes, kGiB / 2);  // the other group is nearly full
}

// Docker without a namespace of its own: the group's name is the machine's, the mount shows only
// the container's part.
TEST(ProcessLimits, AContainerOfVersion1) {
  MachineTree tree;
  tree.Write("proc/self/cgroup", "4:memory:/docker/a\n3:cpu,cpuacct:/docker/a\n1:name=x:/\n0::/\n");
  tree.Write("proc/self/mountinfo",
             "33 30 0:29 /docker/a /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n"
             "34 30 0:30 /docker/a /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n");
  tree.Write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "300000\n");
  tree.Write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  tree.Write("sys/fs/cgroup/memory/memory.limit_in_bytes", "1073741824\n");
  tree.Write("sys/fs/cgroup/memory/memory.usage_in_bytes", "536870912\n");
  const ProcessLimits limits = tree.Read();
  EXPECT_EQ(Describe(limits.cores), "3 of 16 cores: cgroup cpu.cfs_quota_us");
  EXPECT_EQ(limits.memory.bytes, kGiB);
  EXPECT_EQ(limits.memory.free_bytes, kGiB / 2);
  EXPECT_EQ(limits.memory.source, "cgroup memory.limit_in_bytes");
}

TEST(ProcessLimits, NoLimitOfVersion1) {
  MachineTree tree;
  tree.Write("proc/self/cgroup", "4:memory:/a/b\n3:cpu:/a/b\n");
  tree.Write("proc/self/mountinfo",
             "33 30 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
             "34 30 0:30 / /sys/fs/cgroup/mem\\040ory rw - cgroup m memory\n");
  tree.Write("sys/fs/cgroup/cpu/a/b/cpu.cfs_quota_us", "-1\n");
  tree.Write("sys/fs/cgroup/cpu/a/b/cpu.cfs_period_us", "100000\n");
  tree.Write("sys/fs/cgroup/mem ory/a/b/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(Describe(tree.Read().cores), "16 cores");
  EXPECT_EQ(tree.Read().memory.source, "");
  tree.Write("sys/fs/cgroup/mem ory/a/memory.limit_in_bytes", "1073741824\n");
  EXPECT_EQ(tree.Read().memory.source, "cgroup memory.limit_in_bytes of /a");
}

TEST(ProcessLimits, TheRestOfTheProcess) {
  MachineTree tree;
  // The kernel lists cores that the machine does not have.
  tree.Write("proc/self/status", "Cpus_allowed_list:\t3,8-9,64-127\n");
  tree.Limits("1073741824", "256", "256", "1048576");
  const ProcessLimits limits = tree.Read();
  EXPECT_EQ(Describe(limits.cores), "3 of 16 cores: CPU affinity");
  EXPECT_EQ(limits.memory.bytes, kGiB);
  EXPECT_EQ(limits.memory.free_bytes, kGiB);
  EXPECT_EQ(limits.memory.source, "RLIMIT_AS");
  EXPECT_EQ(limits.descriptors, 256u);
  EXPECT_EQ(limits.file_bytes, 1048576u);
  tree.InGroup("/");
  tree.Write("sys/fs/cgroup/cpu.max", "50000 100000\n");
  EXPECT_EQ(tree.Read().cores.threads(), 1u);
}

// Whatever a system leaves out or writes otherwise limits nothing.
TEST(ProcessLimits, WhatCannotBeReadLimitsNothing) {
  const TemporaryDirectory empty;
  const ProcessLimits limits = ReadProcessLimits(empty.path());
  EXPECT_GE(limits.cores.threads(), 1u);
  EXPECT_EQ(limits.memory.bytes, 0u);
  EXPECT_EQ(limits.descriptors, kNoLimit);
  MachineTree tree;
  tree.InGroup("/../../other");
  tree.Write("sys/fs/cgroup/cpu.max", "max\n");
  tree.Write("sys/fs/cgroup/memory.max", "\n");
  tree.Write("proc/self/status", "Cpus_allowed_list:\tnonsense\n");
  EXPECT_EQ(Describe(tree.Read().cores), "16 cores");
  EXPECT_EQ(tree.Read().memory.source, "");
}

TEST(ProcessLimits, ThisProcess) {
  const ProcessLimits limits = ReadProcessLimits();
  EXPECT_GE(limits.cores.of_machine, limits.cores.threads());
  EXPECT_GT(limits.memory.free_bytes, 0u);
  EXPECT_GE(limits.memory.bytes, limits.memory.free_bytes);
  EXPECT_THAT(Describe(limits.cores), HasSubstr(" core"));
}

}  // namespace
}  // namespace atolld
