// Oracles for the codecs: they apply the formulas of the formats in the plainest form, to single
// values and with libm, and share no code with compression/. Unit tests check kernels against them,
// and the simulation checks whole entries.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"

namespace atolld {

// These functions return the bytes that the codec's Encode, EncodeMean and EncodeStochastic must
// write. Values must be finite.
std::vector<uint8_t> ReferenceEncode(const std::string& codec, absl::Span<const float> values);
std::vector<uint8_t> ReferenceEncodeMean(const std::string& codec, absl::Span<const float> values);
std::vector<uint8_t> ReferenceEncodeStochastic(const std::string& codec,
                                               absl::Span<const float> values, uint64_t key);

// Returns ChunkKey(RoundingKey(seed, occasion, part), chunk).
uint64_t ReferenceKey(uint64_t seed, uint64_t occasion, uint64_t part, uint64_t chunk);

// Decodes bytes that an encoder has written. Other bytes are not allowed.
std::vector<float> ReferenceDecode(const std::string& codec, absl::Span<const uint8_t> bytes,
                                   size_t elements);

// Returns, for int8 and int4, the sum over blocks of the scale's square times the sum of the codes'
// squares.
double ReferenceSquaredNorm(const std::string& codec, absl::Span<const uint8_t> bytes,
                            size_t elements);

// For topk_reference.cc: returns the int2 codes of one block and appends its codebook to
// `codebook`.
std::vector<int> ReferenceInt2Codes(absl::Span<const float> block, std::vector<uint8_t>* codebook);
std::vector<uint8_t> ReferenceTopkEncode(absl::Span<const float> values, bool mean);
std::vector<float> ReferenceTopkDecode(absl::Span<const uint8_t> bytes, size_t elements);

}  // namespace atolld
