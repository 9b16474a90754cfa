// RoundRunner, the replica has moved: what an entry says of this peer's update, its residual and
// its training.
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compression/base/planted_bug.h"
#include "daemon/peer/residual.h"
#include "daemon/peer/round_runner.h"

namespace atolld {
namespace {

// Whether the header speaks of the update that was made ready so: its samples are spent by one
// entry alone. Without leases, or by a header that does not name them, it cannot be told; then it
// is.
bool SameSamples(const v1::Contributor& contributor, const v1::Ready& ready) {
  std::set<uint64_t> held;
  for (const v1::SampleRange& range : ready.samples()) held.insert(range.first());
  if (held.empty() || contributor.samples_size() == 0) return true;
  for (const v1::SampleRange& range : contributor.samples()) {
    if (held.count(range.first()) != 0) return true;
  }
  return false;
}

}  // namespace

void RoundRunner::OnSkipped(const v1::EntryHeader& header) {
  if (header.version() != settled_version_ + 1) return;  // OnOpened sees the gap
  SettleUpdate(header);
  if (training_) ++age_;
}

void RoundRunner::OnOpened() {
  EndExchange();  // a snapshot may have led past its entry
  if (settled_version_ < keeper_.version()) {
    // Nobody can tell whether an entry between has taken the update that this peer holds, or one of
    // its former life: offered again, it would count twice.
    const bool told = update_.has_value();
    if (training_) age_ += static_cast<uint32_t>(keeper_.version() - settled_version_);
    if (told || kept_.loaded) residual_ = nullptr;
    update_.reset();
    settled_version_ = keeper_.version();
    if (told) events_.on_update_lost();
  }
  measure_.Load();
  // Theta has moved under it, whether or not the headers between were seen.
  if (training_) Rebase(keeper_.version());
  StartTraining();
  GoOn();
  CheckIdle();
}

void RoundRunner::EndExchange() {
  if (exchange_ == nullptr || exchange_->version() > keeper_.version()) return;
  server_->SetCurrent(nullptr);
  exchange_.reset();
  vote_.reset();
  events_.on_busy(false);
}

// What was said for a version that was still to come. Evaluation first: a commit waits for it.
void RoundRunner::GoOn() {
  for (const v1::Evaluate& evaluate : std::exchange(next_evaluates_, {})) OnEvaluate(evaluate);
  if (next_train_) OnTrain(v1::Train(*next_train_));
  if (!next_plan_) return;
  const absl::Status taken = OnPlan(v1::Plan(*next_plan_));
  if (!taken.ok()) events_.on_refused(taken);
}

void RoundRunner::OnCommitted(const v1::EntryHeader& header) {
  EndExchange();
  measure_.Load();
  SettleUpdate(header);
  KeepResidual();
  if (training_ && assigned_->version() <= header.version()) {
    ++age_;
    if (Planted(PlantedBug::kStragglerNotRebased)) return GoOn();
    Rebase(header.version());
  }
  GoOn();
  CheckIdle();
}

// The worker's base moves with theta, however theta has moved.
void RoundRunner::Rebase(uint64_t version) {
  v1::DaemonMessage message;
  message.mutable_rebase()->set_version(version);
  trainer_.Send(message);
}

// What the header says of this peer's update: included, or left for a later entry.
void RoundRunner::SettleUpdate(const v1::EntryHeader& header) {
  settled_version_ = header.version();
  int position = -1;
  for (int i = 0; i < header.contributors_size(); ++i) {
    if (header.contributors(i).peer() == self_) position = i;
  }
  // The update of a former life of this process may have been taken while a new one stands.
  const bool former =
      position >= 0 && update_ && !SameSamples(header.contributors(position), update_->ready);
  if (position >= 0) SettleResidual(header, former ? -1 : position);
  if (!update_) return;
  if (position < 0 || former) {
    // Older by one entry; it is offered to the next one when the new state's digest is known. With
    // error feedback it still is update + residual, and the residual stays as it was.
    update_->ready.set_age(update_->ready.age() + 1);
    return;
  }
  update_.reset();
}

// Only now, when the header has settled it: a = update + residual, less what was taken of it.
void RoundRunner::SettleResidual(const v1::EntryHeader& header, int position) {
  if (!spec_.exchange().error_feedback()) return;
  kept_.version = header.version();
  kept_.loaded = false;
  if (!update_ || position < 0) {
    residual_ = nullptr;  // a former life's update was taken: what it lost is not known any more
    return;
  }
  std::vector<float> rest = std::move(update_->values);
  const absl::Status kept =
      SubtractIncluded(header, position, keeper_.grid(), *codecs_.updates.codec,
                       *update_->contribution, absl::MakeSpan(rest));
  if (!kept.ok()) env_.log.Error(absl::StrCat("residual: ", kept.message()));
  residual_ = std::make_shared<const std::vector<float>>(std::move(rest));
}

void RoundRunner::OnDigest() {
  if (update_ && exchange_ == nullptr) SendReady();
}

}  // namespace atolld
