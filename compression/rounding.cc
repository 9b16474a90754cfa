#include "compression/rounding.h"

namespace atolld {
namespace {

uint64_t Mix(uint64_t state) {
  state += 0x9e3779b97f4a7c15;
  state = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9;
  state = (state ^ (state >> 27)) * 0x94d049bb133111eb;
  return state ^ (state >> 31);
}

}  // namespace

uint64_t RoundingKey(uint64_t seed, uint64_t occasion, uint64_t part) {
  return Mix(Mix(Mix(seed) ^ occasion) ^ part);
}

uint64_t ChunkKey(uint64_t key, uint64_t chunk) { return Mix(key ^ chunk); }

}  // namespace atolld
