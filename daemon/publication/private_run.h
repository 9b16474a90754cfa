// What makes a run private for those who publish it. Pure. May be called from any thread.
#pragma once

#include "atoll/v1/run.pb.h"

namespace atolld {

// Returns true if the run's updates have noise.
bool HasNoise(const v1::PrivacySpec& privacy);

// Returns true if the run's data is private, or masks or noise guard its updates. Losses are
// measured on that data and have no noise, so no site of such a run has them.
bool IsPrivateRun(const v1::RunSpec& spec);

}  // namespace atolld
