// RoundRunner, the residual on disk: loaded once, saved when a commit has settled it.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/peer/residual_file.h"
#include "daemon/peer/round_runner.h"

namespace atolld {
namespace {

// After a save it rests so many times as long as that took: writing it takes a twentieth of the
// time at most, whatever the model's size. A save that is left out costs only a restart its
// residual.
constexpr int kRest = 19;

}  // namespace

void RoundRunner::LoadResidual(const std::string& dir) {
  kept_.dir = dir;
  settled_version_ = keeper_.version();
  if (!keeper_.has_state() || !keeper_.genesis().spec().exchange().error_feedback()) return;
  absl::StatusOr<std::vector<float>> values =
      atolld::LoadResidual(env_.files, dir, keeper_.genesis(), keeper_.version(), self_);
  if (!values.ok()) {
    // Losing it is legal: training goes on, the updates lose a little once.
    if (!absl::IsNotFound(values.status())) env_.log.Warning(values.status().message());
    return;
  }
  residual_ = std::make_shared<const std::vector<float>>(*std::move(values));
  kept_.version = keeper_.version();
  kept_.loaded = true;
  kept_.saved = kept_.version;
  env_.log.Info(absl::StrCat("version ", keeper_.version(), ": the residual was found on disk"));
}

// After a commit: what it settled goes to the disk, unless that was kept busy with it enough.
void RoundRunner::KeepResidual() {
  if (env_.executor.Now() >= kept_.may_save) SaveResidual(nullptr);
}

void RoundRunner::SaveResidual(Task done) {
  if (done) kept_.waiting.push_back(std::move(done));
  if (kept_.saving) return;
  if (residual_ == nullptr || kept_.dir.empty() || kept_.version == kept_.saved) {
    for (const Task& waiting : std::exchange(kept_.waiting, {})) waiting();
    return;
  }
  kept_.saving = true;
  const absl::Time began = env_.executor.Now();
  auto status = std::make_shared<absl::Status>();
  env_.executor.Offload(
      [files = &env_.files, dir = kept_.dir, genesis = keeper_.genesis(), version = kept_.version,
       residual = residual_,
       status] { *status = atolld::SaveResidual(*files, dir, genesis, version, *residual); },
      guard_.Wrap([this, status, began, version = kept_.version] {
        kept_.saving = false;
        kept_.saved = version;
        const absl::Time now = env_.executor.Now();
        kept_.may_save = now + kRest * (now - began);
        if (!status->ok()) env_.log.Warning(absl::StrCat("residual: ", status->message()));
        if (!kept_.waiting.empty()) SaveResidual(nullptr);
      }));
}

}  // namespace atolld
