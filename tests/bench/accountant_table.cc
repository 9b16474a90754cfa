// Prints the accountant's results for rounds, one per line, for accountant_table.py. Standard input
// has lines of "noise sampling rounds delta"; standard output has epsilon for each.
#include <cstdio>

#include "membership/privacy/accountant.h"

int main() {
  double noise = 0, sampling = 0, rounds = 0, delta = 0;
  while (std::scanf("%lf %lf %lf %lf", &noise, &sampling, &rounds, &delta) == 4) {
    std::printf("%.12g\n",
                atolld::PrivacyAccountant().EpsilonAfter(sampling, noise, rounds, delta));
  }
  return 0;
}
