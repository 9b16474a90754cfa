// The finite field GF(2^8) with the polynomial of AES (FIPS 197), which secret sharing uses, and
// polynomials over this field. Addition and subtraction are both exclusive or.
//
// FieldProduct and FieldInverse do not branch on their arguments or use them as table indices,
// because an argument may be part of a secret. The functions that take a Polynomial are only for
// shares that have been revealed. Pure. May be called from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace atolld {

uint8_t FieldProduct(uint8_t a, uint8_t b);
uint8_t FieldInverse(uint8_t a);  // returns 0 if a is 0

// The coefficients of a polynomial, lowest power first; the last one is not 0.
using Polynomial = std::vector<uint8_t>;

uint8_t ValueAt(const Polynomial& polynomial, uint8_t x);

// Finds polynomials from their values at a fixed set of distinct places.
class Interpolation {
 public:
  explicit Interpolation(std::vector<uint8_t> places);

  const std::vector<uint8_t>& places() const { return places_; }
  // Returns the polynomial that has these values at the places, and a degree below the number of
  // places.
  Polynomial Through(absl::Span<const uint8_t> values) const;
  // Finds the polynomial of degree below `terms` that has these values at all but at most (places -
  // terms) / 2 of the places. Returns false if there is none. This decodes Reed-Solomon codes by
  // Euclid's algorithm (Gao, "A new algorithm for decoding Reed-Solomon codes", 2003).
  bool Decode(absl::Span<const uint8_t> values, size_t terms, Polynomial* decoded) const;

 private:
  std::vector<uint8_t> places_;
  Polynomial zeros_;  // the polynomial that is 0 at all places, the product of (x - place)
  // The factors of Lagrange's formula: 1 / the product of the distances.
  std::vector<uint8_t> weights_;
};

}  // namespace atolld
