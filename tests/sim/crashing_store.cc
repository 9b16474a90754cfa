#include "tests/sim/crashing_store.h"

#include "daemon/status_macros.h"

namespace atolld {

absl::Status CrashingStore::Apply(const RunUpdate& update) {
  const bool dies = ++plan_->applied == plan_->crash_at;
  if (!dies || plan_->durable) {
    RETURN_IF_ERROR(store_->Apply(update));
    if (plan_->on_applied) plan_->on_applied();
  }
  if (!dies) return absl::OkStatus();
  plan_->die();
  return absl::UnavailableError("the process is dead");
}

}  // namespace atolld
