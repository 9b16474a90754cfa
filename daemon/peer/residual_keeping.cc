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
  residual_dir_ = dir;
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
  residual_version_ = keeper_.version();
  saved_residual_version_ = residual_version_;
  env_.log.Info(absl::StrCat("version ", keeper_.version(), ": the residual was found on disk"));
}

// After a commit: what it settled goes to the disk, unless that was kept busy with it enough.
void RoundRunner::KeepResidual() {
  if (env_.executor.Now() >= may_save_residual_) SaveResidual(nullptr);
}

void RoundRunner::SaveResidual(Task done) {
  if (done) after_residual_.push_back(std::move(done));
  if (saving_residual_) return;
  if (residual_ == nullptr || residual_dir_.empty() ||
      residual_version_ == saved_residual_version_) {
    for (const Task& waiting : std::exchange(after_residual_, {})) waiting();
    return;
  }
  saving_residual_ = true;
  const absl::Time began = env_.executor.Now();
  auto status = std::make_shared<absl::Status>();
  env_.executor.Offload(
      [files = &env_.files, dir = residual_dir_, genesis = keeper_.genesis(),
       version = residual_version_, residual = residual_,
       status] { *status = atolld::SaveResidual(*files, dir, genesis, version, *residual); },
      guard_.Wrap([this, status, began, version = residual_version_] {
        saving_residual_ = false;
        saved_residual_version_ = version;
        const absl::Time now = env_.executor.Now();
        may_save_residual_ = now + kRest * (now - began);
        if (!status->ok()) env_.log.Warning(absl::StrCat("residual: ", status->message()));
        if (!after_residual_.empty()) SaveResidual(nullptr);
      }));
}

}  // namespace atolld
