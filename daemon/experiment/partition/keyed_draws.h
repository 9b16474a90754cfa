// KeyedDraws: random numbers that depend only on a key and a position, with the same bits on every
// machine.
//
// Philox4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC
// 2011) encrypts a counter; its key is the first 64 bits of SHA-256 over (seed, purpose, number).
// Real numbers are fp64 and computed only with + - * / and the square root, for which IEEE 754
// prescribes one rounding, in a fixed order. For the same reason, the logarithm and the exponential
// are implemented in this file's source: those of a C library depend on the CPU. Each stream is
// used by one thread.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"

namespace atolld {

using PhiloxCounter = std::array<uint32_t, 4>;
using PhiloxKey = std::array<uint32_t, 2>;
PhiloxCounter Philox(PhiloxCounter counter, PhiloxKey key);

// The natural logarithm and the exponential, both exact to within 4 units in the last place.
// PortableLog requires a finite `x` above 0. PortableExp returns 0 or infinity if the result is
// beyond the range of fp64.
double PortableLog(double x);
double PortableExp(double x);

class KeyedDraws {
 public:
  // `purpose` says what is drawn ("iid"). `number` distinguishes streams with the same purpose,
  // such as one for each party.
  KeyedDraws(uint64_t seed, absl::string_view purpose, uint64_t number = 0);

  uint64_t Next();

  // Returns a number in [0, bound), with equal probability for each: a draw that would favour some
  // numbers is repeated. `bound` must be above 0.
  uint64_t Below(uint64_t bound);

  // Returns a number in the open interval (0, 1): (k + 1/2) / 2^52 from 52 bits.
  double Uniform();

  // Returns a standard normal number, by the polar method (Marsaglia and Bray, SIAM Review 6,
  // 1964).
  double Normal();

  // Returns the logarithm of a draw of Gamma(shape, 1), by Marsaglia and Tsang ("A simple method
  // for generating gamma variables", ACM TOMS 26, 2000). For a shape below 1 the result is log
  // Gamma(shape + 1) + log(U) / shape. The logarithm is returned because the number itself would
  // round to 0 for a small shape.
  double LogGamma(double shape);

  // Returns a draw of the symmetric Dirichlet distribution: `parts` numbers of at least 0 with the
  // sum 1. They are draws of Gamma(alpha, 1), divided by their sum.
  std::vector<double> Dirichlet(double alpha, size_t parts);

  // Shuffles the items by the method of Fisher and Yates, from the last item on.
  template <typename T>
  void Shuffle(std::vector<T>* items) {
    for (size_t left = items->size(); left > 1; --left) {
      std::swap((*items)[left - 1], (*items)[Below(left)]);
    }
  }

 private:
  PhiloxKey key_;
  uint64_t block_ = 0;
  std::array<uint64_t, 2> ready_ = {};
  size_t left_ = 0;  // the numbers of ready_ that were not returned yet
  double spare_ = 0;
  bool has_spare_ = false;
};

}  // namespace atolld
