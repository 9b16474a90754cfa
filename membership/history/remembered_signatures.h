// For a simulation, where many machines of one thread check the same signatures.
#pragma once

namespace atolld {

// From now on this process remembers which signatures VerifySignature has found right, and checks
// each of them once. One thread. Never in production.
void RememberRightSignatures();

}  // namespace atolld
