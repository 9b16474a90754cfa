// The floating-point modes that every replica's arithmetic is defined under: round to nearest even,
// denormals kept.
//
// Libraries in the process may change them (flush-to-zero for speed), and a thread with other modes
// computes other bits. Per thread.
#pragma once

namespace atolld {

// Puts the calling thread into the default modes, exceptions masked.
void SetDefaultFloatMode();

// Whether the calling thread is in the default modes.
bool FloatModeIsDefault();

}  // namespace atolld
