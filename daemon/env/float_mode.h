// The floating-point modes under which every replica's arithmetic is defined: round to nearest
// even, denormals kept.
//
// Each thread has modes of its own. Libraries in the process may change them (flush-to-zero for
// speed), and a thread with other modes computes different bits.
#pragma once

namespace atolld {

// Sets the default modes for the calling thread, with floating-point exceptions masked.
void SetDefaultFloatMode();

// Returns true if the calling thread has the default modes.
bool FloatModeIsDefault();

}  // namespace atolld
