#include "membership/history/sha256_pair.h"

#include "compression/base/check.h"

#if defined(__x86_64__)

#include <cpuid.h>
#include <immintrin.h>

#include "membership/history/sha256_parts.h"

#define ATOLL_SHA_TARGET __attribute__((target("sha,ssse3,sse4.1")))

namespace atolld {
namespace {

constexpr size_t kVectorWords = 4;
constexpr size_t kVectors = sha256::kBlock / sizeof(__m128i);  // a block's
constexpr size_t kSteps = sha256::kRounds / kVectorWords;

// The state's words as the instructions want them, the highest first.
struct State {
  __m128i abef;
  __m128i cdgh;
};

__m128i* At(void* bytes) { return static_cast<__m128i*>(bytes); }
const __m128i* At(const void* bytes) { return static_cast<const __m128i*>(bytes); }

ATOLL_SHA_TARGET inline __m128i BigEndianWords(__m128i bytes) {
  return _mm_shuffle_epi8(bytes,
                          _mm_set_epi8(12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3));
}

ATOLL_SHA_TARGET inline State Initial() {
  const uint32_t* const h = sha256::kInitial;
  const auto words = [](uint32_t high, uint32_t third, uint32_t second, uint32_t low) {
    return _mm_set_epi32(static_cast<int>(high), static_cast<int>(third), static_cast<int>(second),
                         static_cast<int>(low));
  };
  return {words(h[0], h[1], h[4], h[5]), words(h[2], h[3], h[6], h[7])};
}

ATOLL_SHA_TARGET inline void Store(const State& state, Digest* digest) {
  const __m128i feba = _mm_shuffle_epi32(state.abef, 0x1b);
  const __m128i dchg = _mm_shuffle_epi32(state.cdgh, 0xb1);
  const __m128i dcba = _mm_blend_epi16(feba, dchg, 0xf0);
  const __m128i hgfe = _mm_alignr_epi8(dchg, feba, 8);
  _mm_storeu_si128(At(digest->data()), BigEndianWords(dcba));
  _mm_storeu_si128(At(digest->data() + sizeof(__m128i)), BigEndianWords(hgfe));
}

// Four rounds of one message, and the words for those that come sixteen later.
ATOLL_SHA_TARGET inline void Step(size_t step, __m128i (&words)[kVectors], State* state) {
  __m128i& current = words[step % kVectors];
  const __m128i constants = _mm_loadu_si128(At(sha256::kConstants + kVectorWords * step));
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

ATOLL_SHA_TARGET void Compress(const uint8_t* const* blocks, size_t bytes, State* states) {
  for (size_t offset = 0; offset < bytes; offset += sha256::kBlock) {
    const State before[kPair] = {states[0], states[1]};
    State worked[kPair] = {states[0], states[1]};
    __m128i words[kPair][kVectors];
    for (size_t i = 0; i < kPair; ++i) {
      for (size_t v = 0; v < kVectors; ++v) {
        words[i][v] = BigEndianWords(_mm_loadu_si128(At(blocks[i] + offset + v * sizeof(__m128i))));
      }
    }
#pragma GCC unroll 16
    for (size_t step = 0; step < kSteps; ++step) {
      Step(step, words[0], &worked[0]);
      Step(step, words[1], &worked[1]);
    }
    for (size_t i = 0; i < kPair; ++i) {
      states[i].abef = _mm_add_epi32(before[i].abef, worked[i].abef);
      states[i].cdgh = _mm_add_epi32(before[i].cdgh, worked[i].cdgh);
    }
  }
}

ATOLL_SHA_TARGET void Digests(const uint8_t* const* pieces, size_t bytes, Digest* digests) {
  State states[kPair] = {Initial(), Initial()};
  Compress(pieces, sha256::WholeBlocks(bytes), states);
  const sha256::Tail tails[kPair] = {{pieces[0], bytes}, {pieces[1], bytes}};
  const uint8_t* const ends[kPair] = {tails[0].bytes, tails[1].bytes};
  Compress(ends, tails[0].size, states);
  for (size_t i = 0; i < kPair; ++i) Store(states[i], &digests[i]);
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
  Digests(pieces, bytes, digests);
}

}  // namespace atolld

#else

namespace atolld {

bool HasSha256Pair() { return false; }

void Sha256Pair(const uint8_t* const*, size_t, Digest*) { CHECK(HasSha256Pair()); }

}  // namespace atolld

#endif  // __x86_64__
