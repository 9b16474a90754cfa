#include "daemon/publication/private_run.h"

namespace atolld {

bool HasNoise(const v1::PrivacySpec& privacy) {
  return privacy.clip_bits() != 0 && privacy.noise_bits() != 0;  // 0 is the bits of 0.0 too
}

bool IsPrivateRun(const v1::RunSpec& spec) {
  return spec.data().private_() || spec.privacy().masked() || HasNoise(spec.privacy());
}

}  // namespace atolld
