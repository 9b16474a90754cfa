#include "daemon/env/process_figures.h"

#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <system_error>
#include <utility>

#include "compression/base/process_limits.h"

namespace atolld {
namespace {

double SecondsOf(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

uint64_t CountDescriptors() {
  std::error_code error;
  uint64_t count = 0;
  std::filesystem::directory_iterator entry("/proc/self/fd", error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) ++count;
  return count > 0 ? count - 1 : 0;  // without the one that reads the list
}

}  // namespace

ProcessFigures ReadProcessFigures(const std::string& dir) {
  ProcessFigures figures;
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  std::ifstream pages("/proc/self/statm");
  uint64_t size = 0;
  uint64_t resident = 0;
  if (pages >> size >> resident) {
    figures.virtual_bytes = size * page;
    figures.resident_bytes = resident * page;
  }
  rusage usage = {};
  if (getrusage(RUSAGE_SELF, &usage) == 0) {
    figures.cpu_seconds = SecondsOf(usage.ru_utime) + SecondsOf(usage.ru_stime);
  }
  figures.open_descriptors = CountDescriptors();
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) figures.most_descriptors = limit.rlim_cur;
  struct statvfs disk = {};
  if (statvfs(dir.c_str(), &disk) == 0) {
    figures.disk_free_bytes = static_cast<uint64_t>(disk.f_bavail) * disk.f_frsize;
  }
  figures.memory_available_bytes = ReadProcessLimits().memory.free_bytes;
  return figures;
}

ProcessSampler::ProcessSampler(Env env, std::string dir)
    : env_(env),
      dir_(std::move(dir)),
      started_unix_seconds_(absl::ToDoubleSeconds(env.executor.WallTime() - absl::UnixEpoch())),
      due_(env.executor.Now() + kBetweenLooks),
      figures_(ReadProcessFigures(dir_)) {
  env_.executor.RunAfter(kBetweenLooks, guard_.Wrap([this] { Look(); }));
  env_.executor.RunAfter(kBetweenReads, guard_.Wrap([this] { Read(); }));
}

ProcessFigures ProcessSampler::newest() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  ProcessFigures figures = figures_;
  figures.started_unix_seconds = started_unix_seconds_;
  figures.late_seconds = absl::ToDoubleSeconds(late_);
  return figures;
}

void ProcessSampler::Read() {
  auto figures = std::make_shared<ProcessFigures>();
  env_.executor.Offload([figures, dir = dir_] { *figures = ReadProcessFigures(dir); },
                        guard_.Wrap([this, figures] {
                          {
                            const std::lock_guard<std::mutex> lock(mutex_);
                            figures_ = *figures;
                          }
                          env_.executor.RunAfter(kBetweenReads, guard_.Wrap([this] { Read(); }));
                        }));
}

void ProcessSampler::Look() {
  const absl::Time now = env_.executor.Now();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    late_ += std::max(now - due_, absl::ZeroDuration());
  }
  due_ = now + kBetweenLooks;
  env_.executor.RunAfter(kBetweenLooks, guard_.Wrap([this] { Look(); }));
}

}  // namespace atolld
