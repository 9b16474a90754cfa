// The instruction sets that worker/kernels is compiled for; to be included before Highway.
//
// The baseline, SSE4, AVX2 with FMA, and AVX-512; what lies between and beyond them costs the
// compiler's time and gains little here. Vectors of SVE do not fit into arrays, as the tiles of a
// product need.
#pragma once

// What Highway calls AVX10.2, AVX3_SPR and AVX3_ZEN4, of which Debian 12's does not know the names.
#define ATOLL_BEYOND_AVX512 (1LL << 3 | 1LL << 4 | 1LL << 6)

#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_AVX3_DL | ATOLL_BEYOND_AVX512 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
