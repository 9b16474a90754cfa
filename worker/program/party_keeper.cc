#include "worker/program/party_keeper.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"
#include "compression/base/words.h"
#include "worker/training/gradient_terms.h"

namespace atolld {

PartyKeeper::PartyKeeper(Trainer& trainer, const v1::RunSpec& spec, std::string state_path,
                         std::function<void(const std::string&)> log)
    : trainer_(trainer),
      spec_(spec),
      state_path_(std::move(state_path)),
      log_(std::move(log)),
      first_personal_(trainer.personal().begin(), trainer.personal().end()) {
  if (!spec.inner().control_variates()) return;
  control_.resize(trainer.manifest().elements());
  next_control_.resize(control_.size());
}

bool PartyKeeper::Keeps(const v1::RunSpec& spec) {
  return spec.data().private_() || spec.model().local_size() > 0 || spec.inner().control_variates();
}

std::string PartyKeeper::PathOf(uint32_t number) const {
  return number == 0 ? state_path_ : PartyPath(state_path_, number);
}

PartyParts PartyKeeper::Parts() {
  const InnerOptimizer::State optimizer = trainer_.optimizer().state();
  PartyParts parts{optimizer.steps, &position_, &pending_, {}};
  parts.values = {trainer_.personal(), absl::MakeSpan(control_), absl::MakeSpan(next_control_)};
  parts.values.insert(parts.values.end(), optimizer.buffers.begin(), optimizer.buffers.end());
  return parts;
}

void PartyKeeper::Reset() {
  const PartyParts parts = Parts();
  *parts.steps = 0;
  position_ = 0;
  pending_ = 0;
  for (const absl::Span<float> values : parts.values) std::fill(values.begin(), values.end(), 0.0f);
  std::copy(first_personal_.begin(), first_personal_.end(), trainer_.personal().begin());
}

absl::Status PartyKeeper::TakeUp(uint32_t number) {
  if (current_ == number) return absl::OkStatus();
  current_ = number;
  Reset();
  if (!state_path_.empty()) {
    const std::string path = PathOf(number);
    const absl::Status status = LoadParty(path, spec_.run_id(), Parts());
    if (!status.ok()) Reset();
    if (status.ok() && number == 0 && log_) {
      log_(absl::StrCat("state of ", Counted(position_, "sample"), " of the data taken from ",
                        path));
    } else if (!status.ok() && !absl::IsNotFound(status) && log_) {
      log_(absl::StrCat("warning: a party's state not used: ", status.message()));
    }
  }
  return trainer_.PushState();
}

absl::Status PartyKeeper::BeginAnew(uint64_t position) {
  if (!first_personal_.empty() || !control_.empty()) {
    return absl::FailedPreconditionError(
        "personal tensors (model.local) and control variates live from round to round, and "
        "nothing is kept of these parties: say [parties] keep = true");
  }
  current_ = absl::nullopt;
  Reset();
  position_ = position;
  return trainer_.PushState();
}

void PartyKeeper::GiveUp() {
  if (!state_path_.empty()) current_ = absl::nullopt;
}

void PartyKeeper::Settle(bool taken) {
  if (pending_ != 0 && taken) control_.swap(next_control_);
  pending_ = 0;
}

void PartyKeeper::Finish(uint64_t samples, absl::Span<const float> update,
                         absl::Span<const float> common, double rates) {
  position_ += samples;
  if (control_.empty()) return;
  next_control_ = control_;
  UpdateControl(common, update, rates, absl::MakeSpan(next_control_));
  pending_ = 1;
}

absl::Status PartyKeeper::Save(Durability durability) {
  if (state_path_.empty() || !current_.has_value()) return absl::OkStatus();
  RETURN_IF_ERROR(trainer_.FetchState());
  return SaveParty(PathOf(*current_), spec_.run_id(), Parts(), durability);
}

absl::StatusOr<std::vector<float>> PartyKeeper::PersonalOf(uint32_t number) {
  if (current_ == number) {
    return std::vector<float>(trainer_.personal().begin(), trainer_.personal().end());
  }
  if (first_personal_.empty() || state_path_.empty()) return first_personal_;
  auto kept = ReadPersonalTensors(PathOf(number), spec_.run_id(), first_personal_.size());
  if (kept.ok()) return kept;
  return first_personal_;  // it has not trained yet
}

}  // namespace atolld
