#include "worker/training/math_library.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <dlfcn.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "compression/base/process_limits.h"

namespace atolld {
namespace {

constexpr const char* kCoreType = "OPENBLAS_CORETYPE";
constexpr const char* kStartedAgain = "ATOLL_WORKER_STARTED_AGAIN";  // never more than once
constexpr double kWarnBelow = 0.4;

template <typename Function>
Function* Symbol(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_DEFAULT, name));
}

// Returns an empty text if OpenBLAS is not the library.
std::string OpenBlasKernel() {
  const auto name = Symbol<const char*()>("openblas_get_corename");
  return name == nullptr ? "" : std::string(name());
}

// Returns how many fp32 values a vector of this CPU has; 0 if the CPU is not an x86.
int CpuLanes() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")) {
    return 16;
  }
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? 8 : 4;
#else
  return 0;
#endif
}

double ThreadCpuSeconds() {
  timespec now;
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// Returns the CPU's clock according to the kernel: the highest one if it knows that, else the
// current one; 0 if unknown.
double ClockGhz() {
  double value = 0;
  std::ifstream highest("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq");
  if (highest >> value) return value * 1e-6;
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (!absl::StartsWith(line, "cpu MHz")) continue;
    const std::pair<std::string, std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 1));
    if (absl::SimpleAtod(parts.second, &value)) return value * 1e-3;
  }
  return 0;
}

}  // namespace

int KernelLanes(absl::string_view kernel) {
  static constexpr absl::string_view k512[] = {"SkylakeX", "Cooperlake", "SapphireRapids"};
  static constexpr absl::string_view k256[] = {"Haswell", "Zen", "Sandybridge", "Excavator"};
  static constexpr absl::string_view k128[] = {
      "Prescott",  "Core2",  "Penryn",    "Dunnington", "Nehalem",    "Atom",
      "Nano",      "Katmai", "Northwood", "Banias",     "Opteron",    "Opteron_SSE3",
      "Barcelona", "Bobcat", "Bulldozer", "Piledriver", "Steamroller"};
  const auto among = [&](const auto& names) {
    return std::any_of(std::begin(names), std::end(names), [&](absl::string_view name) {
      return absl::EqualsIgnoreCase(name, kernel);
    });
  };
  return among(k512) ? 16 : among(k256) ? 8 : among(k128) ? 4 : 0;
}

void ChooseMathKernel(char** argv) {
  if (std::getenv(kCoreType) != nullptr || std::getenv(kStartedAgain) != nullptr) return;
  const int lanes = KernelLanes(OpenBlasKernel());
  if (lanes == 0 || lanes >= CpuLanes()) return;
  ::setenv(kCoreType, CpuLanes() == 16 ? "SkylakeX" : "Haswell", 1);
  ::setenv(kStartedAgain, "1", 1);
  ::execv("/proc/self/exe", argv);
  // Could not: go on as we are, without a name that has no effect. The warning after the
  // measurement tells.
  ::unsetenv(kCoreType);
}

int SetMathThreads(int threads) {
  if (threads <= 0) threads = static_cast<int>(ReadProcessLimits().cores.threads());
  at::set_num_threads(threads);
  // OpenBLAS on plain threads does not follow libtorch's number.
  if (const auto set = Symbol<void(int)>("openblas_set_num_threads"); set != nullptr) set(threads);
  return threads;
}

MathProbe ProbeMath() {
  constexpr int64_t kSize = 512;
  constexpr double kSeconds = 0.2;
  SetMathThreads(1);
  MathProbe probe;
  const std::string openblas = OpenBlasKernel();
  probe.kernel = !openblas.empty() ? absl::StrCat("OpenBLAS ", openblas)
                 : at::hasMKL()    ? "MKL"
                                   : "BLAS";
  const at::NoGradGuard no_grad;
  const at::Tensor a = at::ones({kSize, kSize}), b = at::ones({kSize, kSize});
  at::Tensor c = at::mm(a, b);
  const double begin = ThreadCpuSeconds();
  double now = begin;
  while (now - begin < kSeconds) {
    at::mm_out(c, a, b);
    const double before = now;
    now = ThreadCpuSeconds();
    probe.gflops =
        std::max(probe.gflops, 2e-9 * kSize * kSize * kSize / std::max(now - before, 1e-9));
  }
  probe.peak_gflops = ClockGhz() * CpuLanes() * 2 * 2;
  return probe;
}

std::string Describe(const MathProbe& probe) {
  return absl::StrFormat("math: %s, %.0f GFLOP/s on one thread", probe.kernel, probe.gflops);
}

std::string Warning(const MathProbe& probe) {
  if (probe.gflops >= kWarnBelow * probe.peak_gflops) return "";
  return absl::StrFormat(
      "warning: the matrix product reaches %.0f of about %.0f GFLOP/s that this CPU can do; "
      "training is slower by as much (set %s, or install a newer OpenBLAS)",
      probe.gflops, probe.peak_gflops, kCoreType);
}

}  // namespace atolld
