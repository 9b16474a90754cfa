// Stochastic rounding: a value between two codes takes either at random, so that its expectation
// is the value itself.
//
// The randomness is a function of a key and of the value's place in the chunk, integer arithmetic
// alone: the same bits on every CPU, nothing to store, and anybody who knows the key encodes to the
// same bytes. (Salmon et al. 2011 call that a counter-based generator.) The error's variance is up
// to twice that of rounding to nearest; it pays where errors would add up in one direction: few
// bits without error feedback.
//
//   h = i * 0x9e3779b9 + low(key);  h = (h ^ h >> 16) * 0x85ebca6b + high(key)
//   h = (h ^ h >> 13) * 0xc2b2ae35;  h = h ^ h >> 16               (murmur3's finaliser, keyed)
//   dither = ((h >> 16) + 1/2) / 2^16 - 1/2, above -1/2 and below 1/2
//   code = round(x * inverse + dither), clamped to the codec's codes
//
// A value that is a code already stays one. dither-inl.h is the arithmetic for kernels.
#pragma once

#include <cstdint>

namespace atolld {

// How an encoder rounds: to nearest even, or by `key`.
struct Rounding {
  bool stochastic = false;
  uint64_t key = 0;
};

// The key of one encoding of all chunks: `part` tells those apart who encode on the same occasion.
// ChunkKey is that of one chunk. SplitMix64's finaliser (Steele, Lea, Flood 2014) over each in
// turn.
uint64_t RoundingKey(uint64_t seed, uint64_t occasion, uint64_t part);
uint64_t ChunkKey(uint64_t key, uint64_t chunk);

}  // namespace atolld
