#include "membership/masking/byte_field.h"

#include <algorithm>
#include <utility>

#include "compression/base/check.h"

namespace atolld {
namespace {

void Trim(Polynomial* polynomial) {
  while (!polynomial->empty() && polynomial->back() == 0) polynomial->pop_back();
}

Polynomial Sum(const Polynomial& a, const Polynomial& b) {
  Polynomial sum(std::max(a.size(), b.size()));
  for (size_t i = 0; i < sum.size(); ++i) {
    sum[i] = static_cast<uint8_t>((i < a.size() ? a[i] : 0) ^ (i < b.size() ? b[i] : 0));
  }
  Trim(&sum);
  return sum;
}

Polynomial Product(const Polynomial& a, const Polynomial& b) {
  if (a.empty() || b.empty()) return {};
  Polynomial product(a.size() + b.size() - 1);
  for (size_t i = 0; i < a.size(); ++i) {
    for (size_t j = 0; j < b.size(); ++j) product[i + j] ^= FieldProduct(a[i], b[j]);
  }
  return product;
}

// Returns quotient and remainder.
std::pair<Polynomial, Polynomial> Quotient(Polynomial dividend, const Polynomial& divisor) {
  CHECK(!divisor.empty());
  if (dividend.size() < divisor.size()) return {{}, std::move(dividend)};
  Polynomial quotient(dividend.size() - divisor.size() + 1);
  const uint8_t leading = FieldInverse(divisor.back());
  for (size_t power = quotient.size(); power-- > 0;) {
    const uint8_t factor = FieldProduct(dividend[power + divisor.size() - 1], leading);
    quotient[power] = factor;
    for (size_t i = 0; i < divisor.size(); ++i) {
      dividend[power + i] ^= FieldProduct(factor, divisor[i]);
    }
  }
  Trim(&dividend);
  return {std::move(quotient), std::move(dividend)};
}

}  // namespace

// The product modulo x^8 + x^4 + x^3 + x + 1, in the same steps for all factors.
uint8_t FieldProduct(uint8_t a, uint8_t b) {
  uint32_t product = 0;
  uint32_t shifted = a;
  for (int bit = 0; bit < 8; ++bit) {
    product ^= shifted & (0U - ((static_cast<uint32_t>(b) >> bit) & 1U));
    shifted = (shifted << 1) ^ (0x11bU & (0U - (shifted >> 7)));
  }
  return static_cast<uint8_t>(product);
}

// a^254, which is 1/a.
uint8_t FieldInverse(uint8_t a) {
  uint8_t power = a;
  uint8_t inverse = 1;
  for (int bit = 1; bit < 8; ++bit) {
    power = FieldProduct(power, power);
    inverse = FieldProduct(inverse, power);
  }
  return inverse;
}

uint8_t ValueAt(const Polynomial& polynomial, uint8_t x) {
  uint8_t value = 0;
  for (size_t power = polynomial.size(); power-- > 0;) {
    value = static_cast<uint8_t>(FieldProduct(value, x) ^ polynomial[power]);
  }
  return value;
}

Interpolation::Interpolation(std::vector<uint8_t> places)
    : places_(std::move(places)), zeros_({1}) {
  for (const uint8_t place : places_) zeros_ = Product(zeros_, {place, 1});
  for (const uint8_t place : places_) {
    uint8_t product = 1;
    for (const uint8_t other : places_) {
      if (other != place) product = FieldProduct(product, static_cast<uint8_t>(place ^ other));
    }
    weights_.push_back(FieldInverse(product));
  }
}

Polynomial Interpolation::Through(absl::Span<const uint8_t> values) const {
  CHECK(values.size() == places_.size());
  Polynomial sum(places_.size());
  for (size_t at = 0; at < places_.size(); ++at) {
    const uint8_t factor = FieldProduct(values[at], weights_[at]);
    // The coefficients of zeros_ / (x - place), from the highest power down, added as they are
    // found.
    uint8_t coefficient = 0;
    for (size_t power = places_.size(); power-- > 0;) {
      coefficient =
          static_cast<uint8_t>(FieldProduct(coefficient, places_[at]) ^ zeros_[power + 1]);
      sum[power] ^= FieldProduct(factor, coefficient);
    }
  }
  Trim(&sum);
  return sum;
}

bool Interpolation::Decode(absl::Span<const uint8_t> values, size_t terms,
                           Polynomial* decoded) const {
  Polynomial before = zeros_, rest = Through(values);
  Polynomial factor_before, factor = {1};
  while (!rest.empty() && 2 * (rest.size() - 1) >= places_.size() + terms) {
    auto [quotient, next] = Quotient(std::move(before), rest);
    before = std::exchange(rest, std::move(next));
    Polynomial sum = Sum(factor_before, Product(quotient, factor));
    factor_before = std::exchange(factor, std::move(sum));
  }
  auto [quotient, remainder] = Quotient(std::move(rest), factor);
  *decoded = std::move(quotient);
  return remainder.empty() && decoded->size() <= terms;
}

}  // namespace atolld
