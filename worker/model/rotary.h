// Rotary positions (Su et al., arXiv:2104.09864) of models whose context has been made longer: by
// how much each pair of a head's values turns less than it did.
//
// Pure functions without libtorch; any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "compression/base/decoder.h"

namespace atolld {

// Factors of the frequencies theta^(-2i / width), i below width / 2; empty: all are 1. Of "linear"
// (kaiokendev 2023) 1 / rope_factor; of "llama3" as Llama 3.1 computes them; of "yarn" as Peng et
// al., arXiv:2309.00071, section 3.2 with the bounds rounded outwards, as transformers has it.
std::vector<double> RotaryFactors(const DecoderShape& shape, double theta, uint64_t width);

// What cos and sin are multiplied by: of "yarn" rope_attention or what its paper recommends;
// else 1.
double RotaryScale(const DecoderShape& shape);

}  // namespace atolld
