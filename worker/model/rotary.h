// Rotary positions (Su et al., arXiv:2104.09864) of models whose context has been extended:
// computes the factors by which the rotation of each pair of a head's values is slowed down.
//
// The functions do not use libtorch. Pure. May be called from any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "compression/base/decoder.h"

namespace atolld {

// Returns the factors of the frequencies theta^(-2i / width) for i below width / 2; empty if all
// factors are 1. With "linear" scaling (kaiokendev 2023) each factor is 1 / rope_factor. "llama3"
// is computed as in Llama 3.1. "yarn" follows Peng et al., arXiv:2309.00071, section 3.2, with the
// bounds rounded outwards as in transformers.
std::vector<double> RotaryFactors(const DecoderShape& shape, double theta, uint64_t width);

// Returns the factor by which cos and sin are multiplied. With "yarn" it is rope_attention, or the
// value that the paper recommends if rope_attention is not set; otherwise it is 1.
double RotaryScale(const DecoderShape& shape);

}  // namespace atolld
