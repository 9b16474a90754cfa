#include "worker/schedule.h"

#include <cmath>

namespace atolld {

double LearningRate(const v1::InnerSpec& inner, uint64_t step) {
  const double peak = inner.learning_rate();
  if (step < inner.warmup_steps()) {
    // One more in both, as nanoGPT has it: neither the first step is lost nor the peak reached
    // twice.
    return peak * static_cast<double>(step + 1) / static_cast<double>(inner.warmup_steps() + 1);
  }
  if (inner.decay_steps() == 0) return peak;
  if (step >= inner.decay_steps()) return inner.min_learning_rate();
  const double ratio = static_cast<double>(step - inner.warmup_steps()) /
                       static_cast<double>(inner.decay_steps() - inner.warmup_steps());
  const double weight = 0.5 * (1.0 + std::cos(3.14159265358979323846 * ratio));
  return inner.min_learning_rate() + weight * (peak - inner.min_learning_rate());
}

}  // namespace atolld
