// The instruction sets for which worker/kernels is compiled; include it before Highway.
//
// They are the baseline, SSE4, AVX2 with FMA, and AVX-512; other sets would cost compile time and
// gain little speed. SVE is left out because its vectors cannot be stored in arrays, which the
// tiles of a matrix product need.
#pragma once

// Highway's AVX10.2, AVX3_SPR and AVX3_ZEN4, by their bits, because the Highway of Debian 12 does
// not have these names.
#define ATOLL_BEYOND_AVX512 (1LL << 3 | 1LL << 4 | 1LL << 6)

#undef HWY_DISABLED_TARGETS  // for ARM the build defines what its other programs leave out
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_AVX3_DL | ATOLL_BEYOND_AVX512 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
