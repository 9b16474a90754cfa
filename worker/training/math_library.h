// The library behind libtorch's matrix products: which kernel it runs, how fast, and making it run
// the right one.
//
// Debian's OpenBLAS does not know CPUs younger than itself and falls back to its oldest kernels, at
// a fifth of the speed. It reads OPENBLAS_CORETYPE when it is loaded, so the only cure is to start
// the process again with that set. Nothing here needs OpenBLAS to be there. Main thread, before
// other threads start, but for SetMathThreads.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace atolld {

// Starts this program anew, once, if OpenBLAS runs a kernel of narrower vectors than the CPU has
// and the user did not choose one. Returns if there is nothing to do.
void ChooseMathKernel(char** argv);

// Threads of libtorch, for what this thread computes, and of OpenBLAS, for the whole process; 0:
// one a core that the process may use. Returns the number set. Any thread.
int SetMathThreads(int threads);

struct MathProbe {
  std::string kernel;  // for instance "OpenBLAS SkylakeX"
  // fp32 matrix product on one thread, by CPU time, so that busy neighbours do not count
  double gflops = 0;
  double peak_gflops = 0;  // clock x values a vector x 2 operations x 2 units; 0: not known
};

// Takes about 0.2 s; leaves one thread set.
MathProbe ProbeMath();

// "math: OpenBLAS SkylakeX, 150 GFLOP/s on one thread".
std::string Describe(const MathProbe& probe);

// What the user should know if the product runs below 40 % of the peak (a good kernel reaches 60-90
// %, one of half the vector width 50 % at best); empty if all is well.
std::string Warning(const MathProbe& probe);

// fp32 values a vector of the named OpenBLAS kernel: 16, 8 or 4; 0 for a name of another
// architecture.
int KernelLanes(absl::string_view kernel);

}  // namespace atolld
