#include "membership/history/sha256.h"

#include <openssl/evp.h>

#include <algorithm>
#include <cstring>

#include "compression/base/check.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "membership/history/sha256.cc"
#include <hwy/foreach_target.h>
// Must come after foreach_target.h.
#include <hwy/highway.h>

#ifndef ATOLL_MEMBERSHIP_HISTORY_SHA256_ONCE
#define ATOLL_MEMBERSHIP_HISTORY_SHA256_ONCE

// The constants and the padding of a message, which both implementations other than OpenSSL's use.
// FIPS 180-4, sections 4.2.2, 5.1.1 and 5.3.3.
namespace atolld {
namespace {

constexpr size_t kBlock = 64;  // in bytes
constexpr size_t kRounds = 64;
constexpr size_t kStateWords = 8;
constexpr size_t kLengthBytes = 8;

// The first 32 bits of the fractional parts of the square roots of the first eight primes.
constexpr uint32_t kInitial[kStateWords] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                            0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

// The same for the cube roots of the first 64 primes.
constexpr uint32_t kConstants[kRounds] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

// Returns how many of `bytes` bytes fill whole blocks.
constexpr size_t WholeBlocks(size_t bytes) { return bytes / kBlock * kBlock; }

// The end of a message after its whole blocks: its last bytes, a 1 bit, zeros, and the length in
// bits.
struct Tail {
  Tail(const uint8_t* message, size_t length)
      : size(length % kBlock + 1 + kLengthBytes <= kBlock ? kBlock : 2 * kBlock) {
    const size_t left = length % kBlock;
    if (left > 0) std::memcpy(bytes, message + WholeBlocks(length), left);
    bytes[left] = 0x80;
    for (size_t k = 0; k < kLengthBytes; ++k) {
      bytes[size - 1 - k] = static_cast<uint8_t>(uint64_t{length} * 8 >> (8 * k));
    }
  }

  uint8_t bytes[2 * kBlock] = {};
  size_t size;  // one block or two
};

constexpr size_t kWords = 16;  // words of a block
constexpr size_t kMostLanes = 16;

}  // namespace
}  // namespace atolld

#if defined(__x86_64__)

#include <cpuid.h>
#include <immintrin.h>

#define ATOLL_SHA_TARGET __attribute__((target("sha,ssse3,sse4.1")))

namespace atolld {
namespace {

constexpr size_t kVectorWords = 4;
constexpr size_t kVectors = kBlock / sizeof(__m128i);  // vectors of a block
constexpr size_t kSteps = kRounds / kVectorWords;

// The state's words in the order that the instructions need, the highest first.
struct PairState {
  __m128i abef;
  __m128i cdgh;
};

__m128i* At(void* bytes) { return static_cast<__m128i*>(bytes); }
const __m128i* At(const void* bytes) { return static_cast<const __m128i*>(bytes); }

ATOLL_SHA_TARGET inline __m128i BigEndianWords(__m128i bytes) {
  return _mm_shuffle_epi8(bytes,
                          _mm_set_epi8(12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3));
}

ATOLL_SHA_TARGET inline PairState InitialPairState() {
  const uint32_t* const h = kInitial;
  const auto words = [](uint32_t high, uint32_t third, uint32_t second, uint32_t low) {
    return _mm_set_epi32(static_cast<int>(high), static_cast<int>(third), static_cast<int>(second),
                         static_cast<int>(low));
  };
  return {words(h[0], h[1], h[4], h[5]), words(h[2], h[3], h[6], h[7])};
}

ATOLL_SHA_TARGET inline void StorePair(const PairState& state, Digest* digest) {
  const __m128i feba = _mm_shuffle_epi32(state.abef, 0x1b);
  const __m128i dchg = _mm_shuffle_epi32(state.cdgh, 0xb1);
  const __m128i dcba = _mm_blend_epi16(feba, dchg, 0xf0);
  const __m128i hgfe = _mm_alignr_epi8(dchg, feba, 8);
  _mm_storeu_si128(At(digest->data()), BigEndianWords(dcba));
  _mm_storeu_si128(At(digest->data() + sizeof(__m128i)), BigEndianWords(hgfe));
}

// Performs four rounds of one message, and computes the words for the rounds that come sixteen
// later.
ATOLL_SHA_TARGET inline void StepOfPair(size_t step, __m128i (&words)[kVectors], PairState* state) {
  __m128i& current = words[step % kVectors];
  const __m128i constants = _mm_loadu_si128(At(kConstants + kVectorWords * step));
  const __m128i keyed = _mm_add_epi32(current, constants);
  state->cdgh = _mm_sha256rnds2_epu32(state->cdgh, state->abef, keyed);
  state->abef = _mm_sha256rnds2_epu32(state->abef, state->cdgh, _mm_shuffle_epi32(keyed, 0x0e));
  if (step + kVectors >= kSteps) return;
  const __m128i next = words[(step + 1) % kVectors];
  const __m128i third = words[(step + 2) % kVectors];
  const __m128i last = words[(step + 3) % kVectors];
  const __m128i sum =
      _mm_add_epi32(_mm_sha256msg1_epu32(current, next), _mm_alignr_epi8(last, third, 4));
  current = _mm_sha256msg2_epu32(sum, last);
}

ATOLL_SHA_TARGET void CompressPair(const uint8_t* const* blocks, size_t bytes, PairState* states) {
  for (size_t offset = 0; offset < bytes; offset += kBlock) {
    const PairState before[kPair] = {states[0], states[1]};
    PairState worked[kPair] = {states[0], states[1]};
    __m128i words[kPair][kVectors];
    for (size_t i = 0; i < kPair; ++i) {
      for (size_t v = 0; v < kVectors; ++v) {
        words[i][v] = BigEndianWords(_mm_loadu_si128(At(blocks[i] + offset + v * sizeof(__m128i))));
      }
    }
#pragma GCC unroll 16
    for (size_t step = 0; step < kSteps; ++step) {
      StepOfPair(step, words[0], &worked[0]);
      StepOfPair(step, words[1], &worked[1]);
    }
    for (size_t i = 0; i < kPair; ++i) {
      states[i].abef = _mm_add_epi32(before[i].abef, worked[i].abef);
      states[i].cdgh = _mm_add_epi32(before[i].cdgh, worked[i].cdgh);
    }
  }
}

ATOLL_SHA_TARGET void DigestsOfPair(const uint8_t* const* pieces, size_t bytes, Digest* digests) {
  PairState states[kPair] = {InitialPairState(), InitialPairState()};
  CompressPair(pieces, WholeBlocks(bytes), states);
  const Tail tails[kPair] = {{pieces[0], bytes}, {pieces[1], bytes}};
  const uint8_t* const ends[kPair] = {tails[0].bytes, tails[1].bytes};
  CompressPair(ends, tails[0].size, states);
  for (size_t i = 0; i < kPair; ++i) StorePair(states[i], &digests[i]);
}

bool CpuHasSha() {
  unsigned int eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0) return false;
  if ((ecx & bit_SSSE3) == 0 || (ecx & bit_SSE4_1) == 0) return false;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return false;
  return (ebx & bit_SHA) != 0;
}

}  // namespace

bool HasSha256Pair() {
  static const bool has = CpuHasSha();
  return has;
}

void Sha256Pair(const uint8_t* const* pieces, size_t bytes, Digest* digests) {
  CHECK(HasSha256Pair());
  DigestsOfPair(pieces, bytes, digests);
}

}  // namespace atolld

#else

namespace atolld {

bool HasSha256Pair() { return false; }

void Sha256Pair(const uint8_t* const*, size_t, Digest*) { CHECK(HasSha256Pair()); }

}  // namespace atolld

#endif  // __x86_64__

#endif  // ATOLL_MEMBERSHIP_HISTORY_SHA256_ONCE

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

// Loads words[w] with word w of each lane's block; block[i] is lane i's.
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

// Compresses one block of every lane.
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
  const size_t whole = WholeBlocks(bytes);
  for (size_t offset = 0; offset < whole; offset += kBlock) {
    LoadBlocks(d, pieces, offset, words);
    Compress(d, words, state);
  }
  std::vector<Tail> tails;
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
namespace {

// With fewer lanes it is slower than OpenSSL with one piece after the other.
constexpr size_t kWorthwhileLanes = 16;

}  // namespace

HWY_EXPORT(CountLanes);
HWY_EXPORT(Digests);

size_t Sha256Lanes() { return HWY_DYNAMIC_DISPATCH(CountLanes)(); }

void Sha256InVectors(absl::Span<const uint8_t* const> pieces, size_t bytes,
                     absl::Span<Digest> digests) {
  CHECK(pieces.size() == Sha256Lanes() && digests.size() == pieces.size());
  HWY_DYNAMIC_DISPATCH(Digests)(pieces.data(), bytes, digests.data());
}

Digest Sha256(absl::Span<const uint8_t> bytes) {
  Digest digest;
  unsigned int size = 0;
  CHECK(EVP_Digest(bytes.data(), bytes.size(), digest.data(), &size, EVP_sha256(), nullptr) == 1);
  CHECK(size == digest.size());
  return digest;
}

// Prefers a pair to sixteen lanes, which are hardly faster, because the bytes of a pair are still
// in the cache.
size_t Sha256Together() {
  if (HasSha256Pair()) return kPair;
  return Sha256Lanes() >= kWorthwhileLanes ? Sha256Lanes() : 1;
}

std::vector<Digest> Sha256Each(absl::Span<const absl::Span<const uint8_t>> pieces) {
  std::vector<Digest> digests(pieces.size());
  std::vector<const uint8_t*> begins;
  for (const auto& piece : pieces) begins.push_back(piece.data());
  const size_t most = Sha256Together();
  size_t together = 0;
  for (size_t i = 0; i < pieces.size(); i += together) {
    const size_t bytes = pieces[i].size();
    size_t alike = 1;
    while (alike < most && i + alike < pieces.size() && pieces[i + alike].size() == bytes) ++alike;
    together = alike == most ? most : 1;
    if (together == 1) {
      digests[i] = Sha256(pieces[i]);
    } else if (together == kPair) {
      Sha256Pair(&begins[i], bytes, &digests[i]);
    } else {
      Sha256InVectors(absl::MakeConstSpan(begins).subspan(i, together), bytes,
                      absl::MakeSpan(digests).subspan(i, together));
    }
  }
  return digests;
}

}  // namespace atolld
#endif  // HWY_ONCE
