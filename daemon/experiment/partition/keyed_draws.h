// KeyedDraws: random numbers that a key and a position alone decide, with the same bits on every
// machine.
//
// Philox4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC
// 2011) encrypts a counter; its key is the head of SHA-256 over (seed, purpose, number). Reals are
// fp64 made by + - * / and the square root alone, which IEEE 754 rounds in one way, in an order
// that is written out; logarithm and exponential are our own for that reason, since a C library
// picks its own by the CPU. One thread a stream.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"

namespace atolld {

using PhiloxCounter = std::array<uint32_t, 4>;
using PhiloxKey = std::array<uint32_t, 2>;
PhiloxCounter Philox(PhiloxCounter counter, PhiloxKey key);

// To within 4 units in the last place. `x` of PortableLog is above 0 and finite; PortableExp gives
// 0 and infinity where fp64 ends.
double PortableLog(double x);
double PortableExp(double x);

class KeyedDraws {
 public:
  // `purpose` says what is drawn ("iid"), `number` which one of many ("party 7").
  KeyedDraws(uint64_t seed, absl::string_view purpose, uint64_t number = 0);

  uint64_t Next();

  // In [0, bound), each equally likely: what would favour some is drawn again. `bound` above 0.
  uint64_t Below(uint64_t bound);

  // In the open interval (0, 1): (k + 1/2) / 2^52 of 52 bits.
  double Uniform();

  // Standard normal, by the polar method (Marsaglia and Bray, SIAM Review 6, 1964).
  double Normal();

  // The logarithm of a draw of Gamma(shape, 1), by Marsaglia and Tsang ("A simple method for
  // generating gamma variables", ACM TOMS 26, 2000). A shape below 1 is log Gamma(shape + 1) +
  // log(U) / shape: as a logarithm, it does not vanish for a small shape.
  double LogGamma(double shape);

  // A draw of the symmetric Dirichlet distribution: parts above or equal to 0 with the sum 1, each
  // Gamma(alpha, 1) over their sum.
  std::vector<double> Dirichlet(double alpha, size_t parts);

  // Fisher and Yates, from the end.
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
  size_t left_ = 0;  // of ready_
  double spare_ = 0;
  bool has_spare_ = false;
};

}  // namespace atolld
