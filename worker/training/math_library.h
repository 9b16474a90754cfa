// Checks the library that computes libtorch's matrix products: finds out which kernel it runs and
// how fast that is, and makes it run the right kernel.
//
// Debian's OpenBLAS does not recognise CPUs that are newer than itself, and then runs its oldest
// kernels at a fifth of the speed. It reads OPENBLAS_CORETYPE when it is loaded, so the only remedy
// is to restart the process with that variable set. These functions also work if libtorch does not
// use OpenBLAS. All of them except SetMathThreads must be called on the main thread before other
// threads start.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace atolld {

// Restarts this program once if OpenBLAS runs a kernel with narrower vectors than the CPU has and
// the user has not chosen a kernel. Otherwise returns and does nothing.
void ChooseMathKernel(char** argv);

// Sets the number of threads that libtorch uses for the work of the calling thread, and that
// OpenBLAS uses for the whole process. 0 means one thread for each core that the process may use.
// Returns the number that was set. May be called from any thread.
int SetMathThreads(int threads);

struct MathProbe {
  std::string kernel;  // For example "OpenBLAS SkylakeX".
  // The speed of an fp32 matrix product on one thread. It is measured in CPU time, so that other
  // busy processes do not change it.
  double gflops = 0;
  double peak_gflops = 0;  // The clock x values per vector x 2 operations x 2 units; 0 if unknown.
};

// Measures the speed. Takes about 0.2 s, and leaves the number of threads set to 1.
MathProbe ProbeMath();

// Returns for example "math: OpenBLAS SkylakeX, 150 GFLOP/s on one thread".
std::string Describe(const MathProbe& probe);

// Returns a warning for the user if the matrix product runs below 40 % of the peak, and an empty
// text otherwise. A good kernel reaches 60-90 %; a kernel that uses half the CPU's vector width
// reaches 50 % at most.
std::string Warning(const MathProbe& probe);

// Returns how many fp32 values one vector of the named OpenBLAS kernel holds: 16, 8 or 4, or 0 if
// the kernel is for another architecture.
int KernelLanes(absl::string_view kernel);

}  // namespace atolld
