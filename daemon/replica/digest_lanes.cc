#include "daemon/replica/digest_lanes.h"

#include <algorithm>
#include <cstring>

#include "daemon/status_macros.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "daemon/replica/digest_lanes.cc"
#include <hwy/foreach_target.h>
// Must come after foreach_target.h.
#include <hwy/highway.h>

#ifndef ATOLL_DAEMON_REPLICA_DIGEST_LANES_ONCE
#define ATOLL_DAEMON_REPLICA_DIGEST_LANES_ONCE
namespace atolld {
namespace {

constexpr size_t kBlock = 64;  // bytes
constexpr size_t kWords = 16;  // a block's
constexpr size_t kRounds = 64;
constexpr size_t kStateWords = 8;
constexpr size_t kLengthBytes = 8;
constexpr size_t kMostLanes = 16;

// The first 32 bits of the fractional parts of the square roots of the first eight primes.
constexpr uint32_t kInitial[kStateWords] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                            0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

// The same of the cube roots of the first 64.
constexpr uint32_t kConstants[kRounds] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

}  // namespace
}  // namespace atolld
#endif  // ATOLL_DAEMON_REPLICA_DIGEST_LANES_ONCE

HWY_BEFORE_NAMESPACE();
namespace atolld {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

using Lanes = hn::CappedTag<uint32_t, kMostLanes>;
using Word = hn::Vec<Lanes>;

template <int kFirst, int kSecond, int kThird>
HWY_INLINE Word RotateXor3(Word x) {
  return hn::Xor(hn::Xor(hn::RotateRight<kFirst>(x), hn::RotateRight<kSecond>(x)),
                 hn::RotateRight<kThird>(x));
}

template <int kFirst, int kSecond, int kShift>
HWY_INLINE Word RotateXor2Shift(Word x) {
  return hn::Xor(hn::Xor(hn::RotateRight<kFirst>(x), hn::RotateRight<kSecond>(x)),
                 hn::ShiftRight<kShift>(x));
}

HWY_INLINE Word BigEndian(Lanes d, Word x) {
  const Word outer = hn::And(hn::RotateRight<8>(x), hn::Set(d, 0xff00ff00));
  const Word inner = hn::And(hn::RotateRight<24>(x), hn::Set(d, 0x00ff00ff));
  return hn::Or(outer, inner);
}

// words[w] holds word w of each lane's block: block[i] is lane i's.
HWY_INLINE void LoadBlocks(Lanes d, const uint8_t* const* blocks, size_t offset, Word* words) {
  HWY_ALIGN uint32_t rows[kMostLanes * kWords];
  const size_t lanes = hn::Lanes(d);
  for (size_t i = 0; i < lanes; ++i) std::memcpy(rows + i * kWords, blocks[i] + offset, kBlock);
  const hn::RebindToSigned<Lanes> di;
  const auto row = hn::ShiftLeft<4>(hn::Iota(di, 0));  // kWords apart
  for (size_t w = 0; w < kWords; ++w) {
    words[w] = BigEndian(d, hn::GatherIndex(d, rows + w, row));
  }
}

// One block of every lane.
HWY_INLINE void Compress(Lanes d, Word* words, Word* state) {
  Word a = state[0], b = state[1], c = state[2], e = state[4], f = state[5], g = state[6];
  Word upper = state[3], h = state[7];
  for (size_t round = 0; round < kRounds; round += kWords) {
    for (size_t w = 0; w < kWords; ++w) {
      if (round > 0) {
        const Word s0 = RotateXor2Shift<7, 18, 3>(words[(w + 1) % kWords]);
        const Word s1 = RotateXor2Shift<17, 19, 10>(words[(w + 14) % kWords]);
        words[w] = hn::Add(hn::Add(words[w], s0), hn::Add(words[(w + 9) % kWords], s1));
      }
      const Word choice = hn::Xor(g, hn::And(e, hn::Xor(f, g)));
      const Word majority = hn::Or(hn::And(a, b), hn::And(c, hn::Or(a, b)));
      const Word keyed = hn::Add(words[w], hn::Set(d, kConstants[round + w]));
      const Word one = hn::Add(hn::Add(h, RotateXor3<6, 11, 25>(e)), hn::Add(choice, keyed));
      const Word two = hn::Add(RotateXor3<2, 13, 22>(a), majority);
      h = g;
      g = f;
      f = e;
      e = hn::Add(upper, one);
      upper = c;
      c = b;
      b = a;
      a = hn::Add(one, two);
    }
  }
  const Word worked[kStateWords] = {a, b, c, upper, e, f, g, h};
  for (size_t i = 0; i < kStateWords; ++i) state[i] = hn::Add(state[i], worked[i]);
}

size_t CountLanes() { return hn::Lanes(Lanes()); }

void Digests(const uint8_t* const* pieces, size_t bytes, Digest* digests) {
  const Lanes d;
  const size_t lanes = hn::Lanes(d);
  Word state[kStateWords];
  for (size_t i = 0; i < kStateWords; ++i) state[i] = hn::Set(d, kInitial[i]);
  Word words[kWords];
  const size_t whole = bytes / kBlock * kBlock;
  for (size_t offset = 0; offset < whole; offset += kBlock) {
    LoadBlocks(d, pieces, offset, words);
    Compress(d, words, state);
  }
  // What is left, a 1 bit, zeros, and the length in bits: one block or two.
  uint8_t tails[kMostLanes][2 * kBlock] = {};
  const uint8_t* tail[kMostLanes];
  const size_t left = bytes - whole;
  const size_t padded = left + 1 + kLengthBytes <= kBlock ? kBlock : 2 * kBlock;
  for (size_t i = 0; i < lanes; ++i) {
    if (left > 0) std::memcpy(tails[i], pieces[i] + whole, left);
    tails[i][left] = 0x80;
    for (size_t k = 0; k < kLengthBytes; ++k) {
      tails[i][padded - 1 - k] = static_cast<uint8_t>(uint64_t{bytes} * 8 >> (8 * k));
    }
    tail[i] = tails[i];
  }
  for (size_t offset = 0; offset < padded; offset += kBlock) {
    LoadBlocks(d, tail, offset, words);
    Compress(d, words, state);
  }
  HWY_ALIGN uint32_t column[kMostLanes];
  for (size_t w = 0; w < kStateWords; ++w) {
    hn::Store(BigEndian(d, state[w]), d, column);
    for (size_t i = 0; i < lanes; ++i) std::memcpy(&digests[i][4 * w], &column[i], 4);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace atolld
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace atolld {

HWY_EXPORT(CountLanes);
HWY_EXPORT(Digests);

size_t Sha256Lanes() { return HWY_DYNAMIC_DISPATCH(CountLanes)(); }

void Sha256SideBySide(absl::Span<const uint8_t* const> pieces, size_t bytes,
                      absl::Span<Digest> digests) {
  CHECK(pieces.size() == Sha256Lanes() && digests.size() == pieces.size());
  HWY_DYNAMIC_DISPATCH(Digests)(pieces.data(), bytes, digests.data());
}

}  // namespace atolld
#endif  // HWY_ONCE
