#include "worker/base/schedule.h"

#include <cmath>

namespace atolld {

double LearningRate(const v1::InnerSpec& inner, uint64_t step) {
  const double peak = inner.learning_rate();
  if (step < inner.warmup_steps()) {
    // One more in both, as nanoGPT has it: neither the first step is lost nor the peak reached
    // twice.
    return peak * static_cast<double>(step + 1) / static_cast<double>(inner.warmup_steps() + 1);
  }
  if (inner.decay_steps() == 0 || inner.schedule() == "constant") return peak;
  if (step >= inner.decay_steps()) return inner.min_learning_rate();
  if (inner.schedule() == "wsd") {
    const uint64_t left = inner.decay_steps() - step;
    if (left >= inner.cooldown_steps()) return peak;
    const double done =
        1.0 - static_cast<double>(left) / static_cast<double>(inner.cooldown_steps());
    return inner.min_learning_rate() + (1.0 - std::sqrt(done)) * (peak - inner.min_learning_rate());
  }
  const double ratio = static_cast<double>(step - inner.warmup_steps()) /
                       static_cast<double>(inner.decay_steps() - inner.warmup_steps());
  const double weight = 0.5 * (1.0 + std::cos(3.14159265358979323846 * ratio));
  return inner.min_learning_rate() + weight * (peak - inner.min_learning_rate());
}

uint64_t StepOfRun(uint64_t first_step, uint32_t done, uint32_t assigned, uint32_t nominal) {
  if (assigned == nominal || assigned == 0) return first_step + done;
  return first_step + uint64_t{done} * nominal / assigned;
}

}  // namespace atolld
