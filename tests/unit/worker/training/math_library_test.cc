#include "worker/training/math_library.h"

#include <gtest/gtest.h>

namespace atolld {
namespace {

// Broken: a CPU with wide vectors would be left with a narrow kernel, or a good choice of
// OpenBLAS's be overruled.
TEST(MathLibraryTest, KnowsHowWideAKernelIs) {
  EXPECT_EQ(KernelLanes("SkylakeX"), 16);
  EXPECT_EQ(KernelLanes("Cooperlake"), 16);
  EXPECT_EQ(KernelLanes("Haswell"), 8);
  EXPECT_EQ(KernelLanes("Zen"), 8);
  EXPECT_EQ(KernelLanes("Prescott"), 4);
  EXPECT_EQ(KernelLanes("NEOVERSEN1"), 0);
  EXPECT_EQ(KernelLanes(""), 0);
}

// Broken: a user whose library falls back to old kernels would train several times slower without a
// word.
TEST(MathLibraryTest, WarnsFarBelowThePeakOnly) {
  MathProbe probe;
  probe.kernel = "OpenBLAS Prescott";
  probe.gflops = 32;
  probe.peak_gflops = 160;
  EXPECT_EQ(Describe(probe), "math: OpenBLAS Prescott, 32 GFLOP/s on one thread");
  EXPECT_NE(Warning(probe), "");
  probe.gflops = 80;
  EXPECT_EQ(Warning(probe), "");
  probe.gflops = 5;
  probe.peak_gflops = 0;  // not known
  EXPECT_EQ(Warning(probe), "");
}

// Broken: the worker would report no speed, and threads would stay at what the last user of the
// library set.
TEST(MathLibraryTest, MeasuresAndSetsThreads) {
  const MathProbe probe = ProbeMath();
  EXPECT_GT(probe.gflops, 0.1);
  EXPECT_NE(probe.kernel, "");
  EXPECT_EQ(SetMathThreads(2), 2);
  EXPECT_GE(SetMathThreads(0), 1);
}

}  // namespace
}  // namespace atolld
