// If these fail, a run is told to be busier than it is, or bytes are told to be hidden that
// somebody waited for.
#include "daemon/peer/work_meter.h"

#include <gtest/gtest.h>

namespace atolld {
namespace {

absl::Time MeterAt(double seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); }

v1::Ready MeterTold(const WorkMeter& meter) {
  v1::Ready ready;
  meter.Tell(&ready);
  return ready;
}

TEST(WorkMeter, TheFirstUpdateHasNoTimeBeforeIt) {
  WorkMeter meter;
  meter.OnTraining(MeterAt(5), 100);
  meter.OnBoundary(MeterAt(9), 400, 0);
  EXPECT_EQ(MeterTold(meter).waited_seconds(), 0);
  EXPECT_EQ(MeterTold(meter).hidden_bytes(), 0u);
  EXPECT_EQ(MeterTold(meter).waited_bytes(), 0u);
}

TEST(WorkMeter, WhatPassesBetweenBoundaryAndTrainingIsWaitedFor) {
  WorkMeter meter;
  meter.OnTraining(MeterAt(0), 0);
  meter.OnBoundary(MeterAt(10), 0, 0);
  meter.OnCommitted(MeterAt(12), 900);
  meter.OnTraining(MeterAt(13), 900);
  meter.OnBoundary(MeterAt(23), 1000, 0);
  EXPECT_EQ(MeterTold(meter).waited_seconds(), 3);
  EXPECT_EQ(MeterTold(meter).waited_bytes(), 900u);
  EXPECT_EQ(MeterTold(meter).hidden_bytes(), 100u);
}

TEST(WorkMeter, TrainingThatCameToNothingIsLost) {
  WorkMeter meter;
  meter.OnTraining(MeterAt(0), 0);
  meter.OnBoundary(MeterAt(10), 0, 0);
  meter.OnTraining(MeterAt(11), 0);
  meter.OnTraining(MeterAt(15), 50);  // the worker had died
  meter.OnBoundary(MeterAt(25), 80, 0);
  EXPECT_EQ(MeterTold(meter).waited_seconds(), 5);
  EXPECT_EQ(MeterTold(meter).waited_bytes(), 50u);
  EXPECT_EQ(MeterTold(meter).hidden_bytes(), 30u);
}

TEST(WorkMeter, AMergeThatIsWaitedForEndsWithACommit) {
  WorkMeter meter;
  meter.OnTraining(MeterAt(0), 0);
  meter.OnBoundary(MeterAt(10), 0, 0);
  meter.OnTraining(MeterAt(11), 100);
  meter.OnCommitted(MeterAt(15), 500);  // 1 s of these 4 s it waited
  meter.OnBoundary(MeterAt(21), 500, 1);
  EXPECT_EQ(MeterTold(meter).waited_seconds(), 2);
  EXPECT_EQ(MeterTold(meter).waited_bytes(), 200u);
  EXPECT_EQ(MeterTold(meter).hidden_bytes(), 300u);
}

TEST(WorkMeter, APauseByTheOwnerIsNobodysWait) {
  WorkMeter meter;
  meter.OnTraining(MeterAt(0), 0);
  meter.OnBoundary(MeterAt(10), 0, 0);
  meter.Forget();
  meter.OnTraining(MeterAt(1000), 70);
  meter.OnBoundary(MeterAt(1010), 80, 0);
  EXPECT_EQ(MeterTold(meter).waited_seconds(), 0);
  EXPECT_EQ(MeterTold(meter).hidden_bytes(), 0u);
}

}  // namespace
}  // namespace atolld
