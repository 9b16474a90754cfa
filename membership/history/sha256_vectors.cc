#include "membership/history/sha256_vectors.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "compression/base/check.h"
#include "membership/history/sha256_parts.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "membership/history/sha256_vectors.cc"
#include <hwy/foreach_target.h>
// Must come after foreach_target.h.
#include <hwy/highway.h>

#ifndef ATOLL_DAEMON_REPLICA_SHA256_VECTORS_ONCE
#define ATOLL_DAEMON_REPLICA_SHA256_VECTORS_ONCE
namespace atolld {
namespace {

constexpr size_t kWords = 16;  // a block's
constexpr size_t kMostLanes = 16;

using sha256::kBlock;
using sha256::kConstants;
using sha256::kInitial;
using sha256::kRounds;
using sha256::kStateWords;

}  // namespace
}  // namespace atolld
#endif  // ATOLL_DAEMON_REPLICA_SHA256_VECTORS_ONCE

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
  const size_t whole = sha256::WholeBlocks(bytes);
  for (size_t offset = 0; offset < whole; offset += kBlock) {
    LoadBlocks(d, pieces, offset, words);
    Compress(d, words, state);
  }
  std::vector<sha256::Tail> tails;
  tails.reserve(lanes);
  const uint8_t* ends[kMostLanes];
  for (size_t i = 0; i < lanes; ++i) ends[i] = tails.emplace_back(pieces[i], bytes).bytes;
  for (size_t offset = 0; offset < tails[0].size; offset += kBlock) {
    LoadBlocks(d, ends, offset, words);
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

void Sha256InVectors(absl::Span<const uint8_t* const> pieces, size_t bytes,
                     absl::Span<Digest> digests) {
  CHECK(pieces.size() == Sha256Lanes() && digests.size() == pieces.size());
  HWY_DYNAMIC_DISPATCH(Digests)(pieces.data(), bytes, digests.data());
}

}  // namespace atolld
#endif  // HWY_ONCE
