// A made-up trace of parties that come and go by day and night (daemon/machine/availability.h reads
// it).
//
// A party lives in one of `zones` time zones, each equally likely, which shifts its clock by that
// part of a day, and by a standard normal number of hours beside. Its sessions begin as a Poisson
// process with the rate
//
//   rate(t) = sessions_a_day / 86400 * (1 + depth * cos(2 pi (t + shift - peak) / 86400))
//
// by thinning (Lewis and Shedler, "Simulation of nonhomogeneous Poisson processes by thinning",
// 1979). The peak is at 2:00 of the party's clock, when machines are idle and charge, and depth is
// 0.6: the most and the fewest parties of a day are then 1.6 to 0.4, the factor of 4 that Bonawitz
// et al. saw ("Towards federated learning at scale: system design", 2019). A session lasts
// median_hours * exp(spread * z), z standard normal: lengths are log-normal. What goes on at the
// trace's end goes on at its beginning; sessions of a party that touch are one. Times are whole
// seconds; the same pattern gives the same text on every machine.
#pragma once

#include <cstdint>
#include <string>

namespace atolld {

struct DailyPattern {
  uint32_t parties = 1;
  uint64_t seed = 1;
  uint32_t days = 7;  // then it repeats
  uint32_t zones = 3;
  double sessions_a_day = 3;
  double median_hours = 1.5;
  double spread = 0.8;
  double depth = 0.6;
};

std::string DailyTrace(const DailyPattern& pattern);

}  // namespace atolld
