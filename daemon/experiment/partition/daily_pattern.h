// Makes a synthetic trace of the times at which parties are available, with a daily pattern.
// daemon/machine/availability.h reads such traces.
//
// A party is in one of `zones` equally likely time zones, spread over the day, and its clock is
// shifted further by a standard normal number of hours. Its sessions begin as a Poisson process
// with the rate
//
//   rate(t) = sessions_a_day / 86400 * (1 + depth * cos(2 pi (t + shift - peak) / 86400))
//
// by thinning (Lewis and Shedler, "Simulation of nonhomogeneous Poisson processes by thinning",
// 1979). The peak is at 2:00 on the party's clock, when machines are idle and charging. The default
// depth of 0.6 makes the rates at the peak and at the low 1.6 and 0.4 of the mean, which is the
// factor of 4 that Bonawitz et al. observed ("Towards federated learning at scale: system design",
// 2019). A session lasts median_hours * exp(spread * z), with z standard normal, so its length is
// log-normal. A session that lasts beyond the end of the trace continues at the trace's beginning,
// and sessions of a party that touch are merged. Times are whole seconds. The same pattern gives
// the same text on every machine. Pure. May be called from any thread.
#pragma once

#include <cstdint>
#include <string>

namespace atolld {

struct DailyPattern {
  uint32_t parties = 1;
  uint64_t seed = 1;
  uint32_t days = 7;  // the length of the trace, after which it repeats
  uint32_t zones = 3;
  double sessions_a_day = 3;
  double median_hours = 1.5;
  double spread = 0.8;
  double depth = 0.6;
};

std::string DailyTrace(const DailyPattern& pattern);

}  // namespace atolld
