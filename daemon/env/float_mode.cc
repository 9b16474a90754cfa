#include "daemon/env/float_mode.h"

#include <cfenv>
#include <cstdint>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace atolld {
namespace {

#if defined(__x86_64__)
// Intel SDM vol. 1, 10.2.3: all exceptions masked, round to nearest, flush-to-zero and
// denormals-are-zero off. The low six bits are sticky flags and have no meaning in a mode.
constexpr uint32_t kDefaultMxcsr = 0x1f80;
constexpr uint32_t kFlags = 0x3f;
#endif

}  // namespace

void SetDefaultFloatMode() {
  std::fesetround(FE_TONEAREST);
#if defined(__x86_64__)
  _mm_setcsr(kDefaultMxcsr);
#elif defined(__aarch64__)
  // FPCR zero: round to nearest, no flush-to-zero, no default NaN, traps off.
  const uint64_t control = 0;
  asm volatile("msr fpcr, %0" ::"r"(control));
#endif
}

bool FloatModeIsDefault() {
  if (std::fegetround() != FE_TONEAREST) return false;
#if defined(__x86_64__)
  return (_mm_getcsr() & ~kFlags) == kDefaultMxcsr;
#elif defined(__aarch64__)
  uint64_t control = 0;
  asm volatile("mrs %0, fpcr" : "=r"(control));
  return control == 0;
#else
  return true;
#endif
}

}  // namespace atolld
