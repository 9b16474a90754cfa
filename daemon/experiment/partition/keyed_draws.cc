#include "daemon/experiment/partition/keyed_draws.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "compression/base/check.h"
#include "membership/history/digest.h"

namespace atolld {
namespace {

// The paper's multipliers and the Weyl constants that the key is bumped by.
constexpr uint32_t kMultiplier0 = 0xD2511F53;
constexpr uint32_t kMultiplier1 = 0xCD9E8D57;
constexpr uint32_t kWeyl0 = 0x9E3779B9;
constexpr uint32_t kWeyl1 = 0xBB67AE85;
constexpr int kPhiloxRounds = 10;

constexpr double kLn2 = 0.693147180559945309417;
// ln 2 in two parts: the first has 32 bits, so that small multiples of it are exact.
constexpr double kLn2High = 6.93147180369123816490e-01;
constexpr double kLn2Low = 1.90821492927058770002e-10;

}  // namespace

PhiloxCounter Philox(PhiloxCounter counter, PhiloxKey key) {
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const uint64_t a = uint64_t{kMultiplier0} * counter[0];
    const uint64_t b = uint64_t{kMultiplier1} * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(a)};
    key = {key[0] + kWeyl0, key[1] + kWeyl1};
  }
  return counter;
}

// x = m * 2^e with m in [sqrt(1/2), sqrt(2)); log m = 2 artanh(s), s = (m - 1) / (m + 1), as a
// series, where s^2 < 0.0295.
double PortableLog(double x) {
  int exponent = 0;
  double mantissa = std::frexp(x, &exponent);
  if (mantissa < 0.70710678118654752440) {
    mantissa *= 2;
    --exponent;
  }
  const double s = (mantissa - 1) / (mantissa + 1);
  const double square = s * s;
  double sum = 0;
  for (int term = 25; term >= 3; term -= 2) sum = (sum + 1.0 / term) * square;
  const double whole = exponent;
  return whole * kLn2High + (whole * kLn2Low + 2 * (s + s * sum));
}

// x = k ln 2 + r with |r| <= ln 2 / 2; exp r as its Taylor series.
double PortableExp(double x) {
  if (x < -745.2) return 0;
  if (x > 709.7) return std::numeric_limits<double>::infinity();
  const double multiple = std::floor(x / kLn2 + 0.5);
  const double rest = (x - multiple * kLn2High) - multiple * kLn2Low;
  double sum = 1;
  for (int term = 16; term >= 1; --term) sum = 1 + sum * rest / term;
  return std::ldexp(sum, static_cast<int>(multiple));
}

KeyedDraws::KeyedDraws(uint64_t seed, absl::string_view purpose, uint64_t number) {
  const Digest digest =
      DigestBuilder("atoll.keyed.draws.1").U64(seed).Bytes(purpose).U64(number).Finish();
  for (size_t word = 0; word < key_.size(); ++word) {
    key_[word] = 0;
    for (size_t byte = 0; byte < 4; ++byte) {
      key_[word] |= uint32_t{digest[4 * word + byte]} << (8 * byte);
    }
  }
}

uint64_t KeyedDraws::Next() {
  if (left_ == 0) {
    const PhiloxCounter words =
        Philox({static_cast<uint32_t>(block_), static_cast<uint32_t>(block_ >> 32), 0, 0}, key_);
    ready_ = {words[0] | uint64_t{words[1]} << 32, words[2] | uint64_t{words[3]} << 32};
    left_ = ready_.size();
    ++block_;
  }
  return ready_[ready_.size() - left_--];
}

uint64_t KeyedDraws::Below(uint64_t bound) {
  CHECK(bound > 0);
  const uint64_t most = std::numeric_limits<uint64_t>::max();
  const uint64_t beyond = most - (most % bound + 1) % bound;  // the last of whole spans
  for (;;) {
    const uint64_t drawn = Next();
    if (drawn <= beyond) return drawn % bound;
  }
}

double KeyedDraws::Uniform() {
  return (static_cast<double>(Next() >> 12) + 0.5) / 4503599627370496.0;  // 2^52
}

double KeyedDraws::Normal() {
  if (has_spare_) {
    has_spare_ = false;
    return spare_;
  }
  for (;;) {
    const double x = 2 * Uniform() - 1;
    const double y = 2 * Uniform() - 1;
    const double square = x * x + y * y;
    if (square >= 1 || square == 0) continue;
    const double factor = std::sqrt(-2 * PortableLog(square) / square);
    spare_ = y * factor;
    has_spare_ = true;
    return x * factor;
  }
}

double KeyedDraws::LogGamma(double shape) {
  if (shape < 1) {
    const double larger = LogGamma(shape + 1);
    return larger + PortableLog(Uniform()) / shape;
  }
  const double d = shape - 1.0 / 3;
  const double c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = Normal();
    const double root = 1 + c * x;
    if (root <= 0) continue;
    const double v = root * root * root;
    const double u = Uniform();
    if (PortableLog(u) < 0.5 * x * x + d - d * v + d * PortableLog(v)) {
      return PortableLog(d) + PortableLog(v);
    }
  }
}

std::vector<double> KeyedDraws::Dirichlet(double alpha, size_t parts) {
  std::vector<double> drawn(parts);
  for (double& part : drawn) part = LogGamma(alpha);
  const double largest = parts == 0 ? 0 : *std::max_element(drawn.begin(), drawn.end());
  double sum = 0;
  for (double& part : drawn) {
    part = PortableExp(part - largest);
    sum += part;
  }
  for (double& part : drawn) part /= sum;
  return drawn;
}

}  // namespace atolld
