#include "worker/program/party_keeper.h"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"
#include "compression/base/words.h"
#include "worker/training/gradient_terms.h"

namespace atolld {
namespace {

// After writing an optimiser's state the worker rests this many times as long as the writing took,
// so that writing takes at most a hundredth of its time, whatever the model's size. A state that is
// written in less than kLittle is written each time.
constexpr int kRest = 99;
constexpr absl::Duration kLittle = absl::Milliseconds(100);

}  // namespace

PartyKeeper::PartyKeeper(Trainer& trainer, const v1::RunSpec& spec, std::string state_path,
                         std::function<absl::Time()> now,
                         std::function<void(const std::string&)> log)
    : trainer_(trainer),
      spec_(spec),
      state_path_(std::move(state_path)),
      now_(std::move(now)),
      log_(log ? std::move(log) : [](const std::string&) {}),
      keeps_(spec.data().private_() || spec.model().local_size() > 0 ||
             spec.inner().control_variates()),
      first_personal_(trainer.personal().begin(), trainer.personal().end()) {
  if (!spec.inner().control_variates()) return;
  control_.resize(trainer.manifest().elements());
  next_control_.resize(control_.size());
}

std::string PartyKeeper::PathOf(uint32_t number) const {
  return number == 0 ? state_path_ : PartyPath(state_path_, number);
}

PartyParts PartyKeeper::Parts() {
  const InnerOptimizer::State optimizer = trainer_.optimizer().state();
  PartyParts parts{optimizer.steps, &position_, &pending_, {}, optimizer.began};
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
  for (uint64_t& began : parts.began) {
    if (began != InnerOptimizer::kFrozen) began = 0;
  }
  std::copy(first_personal_.begin(), first_personal_.end(), trainer_.personal().begin());
}

// Makes the optimiser have state of the tensors of which a file has some.
absl::Status PartyKeeper::ShapeAs(const std::vector<uint64_t>& began) {
  std::vector<bool> trained(trainer_.optimizer().state().began.size(), true);
  if (trained.empty()) return absl::OkStatus();
  if (!began.empty() && began.size() != trained.size()) return absl::OkStatus();  // not usable
  for (size_t i = 0; i < began.size(); ++i) trained[i] = began[i] != InnerOptimizer::kFrozen;
  return trainer_.ShapeState(trained);
}

absl::Status PartyKeeper::Open() { return Load(0, std::numeric_limits<uint64_t>::max()); }

absl::Status PartyKeeper::TakeUp(uint32_t number, uint64_t version) {
  DropFormer(version);
  const bool same = present_.has_value() && present_->number == number;
  const bool as_it_is = same && !present_->dirty && present_->mark.version < version;
  // What was not written is better than what is older by some trainings.
  const bool lost = same && (state_path_.empty() || !present_->on_disk);
  if (!as_it_is && !lost) RETURN_IF_ERROR(Load(number, version));
  TellFile(version);
  present_->dirty = true;
  return absl::OkStatus();
}

absl::Status PartyKeeper::Load(uint32_t number, uint64_t version) {
  present_ = Present();
  present_->number = number;
  Reset();
  if (state_path_.empty()) return trainer_.PushState();
  for (const std::string& path : FilesFor(version)) {
    const absl::StatusOr<std::vector<uint64_t>> began = ReadBegan(path, spec_.run_id());
    if (began.ok()) RETURN_IF_ERROR(ShapeAs(*began));
    const absl::StatusOr<PartyMark> mark = LoadParty(path, spec_.run_id(), Parts());
    if (mark.ok()) {
      present_->mark = *mark;
      present_->from = path;
      break;
    }
    Reset();
    log_(absl::StrCat("warning: a state is not used: ", mark.status().message()));
  }
  return trainer_.PushState();
}

// Returns the files of the present party, the best first.
std::vector<std::string> PartyKeeper::FilesFor(uint64_t version) {
  const std::string newest = PathOf(present_->number), former = FormerPath(newest);
  const absl::StatusOr<PartyMark> newest_mark = ReadMark(newest, spec_.run_id());
  const absl::StatusOr<PartyMark> former_mark = ReadMark(former, spec_.run_id());
  present_->has_file = newest_mark.ok();
  if (newest_mark.ok()) {
    present_->file_version = newest_mark->version;
  } else if (!absl::IsNotFound(newest_mark.status())) {
    log_(absl::StrCat("warning: a state is not used: ", newest_mark.status().message()));
  }
  std::vector<std::string> files;
  if (newest_mark.ok() && newest_mark->version < version) files.push_back(newest);
  if (former_mark.ok() && former_mark->version < version) files.push_back(former);
  // The replica has gone back; or else the only training so far is the one that is done again.
  if (files.empty() && newest_mark.ok() && newest_mark->version > version) files.push_back(newest);
  return files;
}

void PartyKeeper::TellFile(uint64_t version) {
  const std::string from = std::exchange(present_->from, "");
  if (from.empty() || present_->number != 0) return;
  const PartyMark& mark = present_->mark;
  const std::string what =
      spec_.data().private_()
          ? absl::StrCat("state of ", Counted(position_, "sample"), " of the data")
          : absl::StrCat("optimiser's state of ", Counted(*Parts().steps, "step"));
  std::string but;
  if (mark.version == 0) {
    but = "an earlier release wrote it, which did not say of which version it is";
  } else if (!mark.whole) {
    but = "the worker was stopped in the middle of a training, whose start was not written";
  } else if (mark.version + 1 != version) {
    but = absl::StrCat("it is of version ", mark.version, ", and the training is for version ",
                       version);
  }
  log_(absl::StrCat(what, " taken from ", from,
                    but.empty() ? ""
                                : absl::StrCat(" (", but,
                                               ": what follows may differ from a run that was "
                                               "never stopped)")));
}

absl::Status PartyKeeper::BeginAnew(uint64_t position) {
  if (!first_personal_.empty() || !control_.empty()) {
    return absl::FailedPreconditionError(
        "personal tensors (model.local) and control variates live from round to round, and "
        "nothing is kept of these parties: say [parties] keep = true");
  }
  present_ = absl::nullopt;
  Reset();
  position_ = position;
  return trainer_.PushState();
}

void PartyKeeper::Settle(bool taken) {
  if (pending_ != 0 && taken) control_.swap(next_control_);
  pending_ = 0;
}

void PartyKeeper::Finish(uint64_t version, uint64_t samples, absl::Span<const float> update,
                         absl::Span<const float> common, double rates) {
  if (present_.has_value()) {
    present_->mark = PartyMark{version};
    present_->dirty = present_->on_disk = false;
  }
  position_ += samples;
  if (control_.empty()) return;
  next_control_ = control_;
  UpdateControl(common, update, rates, absl::MakeSpan(next_control_));
  pending_ = 1;
}

absl::Status PartyKeeper::Save() {
  if (state_path_.empty() || !present_.has_value()) return absl::OkStatus();
  if (keeps_) return Write(present_->mark, /*synced=*/false);
  const absl::Time began = now_();
  if (began < may_save_) return absl::OkStatus();
  const absl::Status status = Write(present_->mark, /*synced=*/false);
  const absl::Time ended = now_();
  if (ended - began > kLittle) may_save_ = ended + kRest * (ended - began);
  return status;
}

absl::Status PartyKeeper::Sync() {
  if (state_path_.empty() || !present_.has_value()) return absl::OkStatus();
  if (!present_->on_disk && !present_->dirty) return Write(present_->mark, /*synced=*/true);
  if (!present_->on_disk && !keeps_) {
    return Write(PartyMark{present_->mark.version, false}, /*synced=*/true);
  }
  return present_->has_file ? SyncParty(PathOf(present_->number)) : absl::OkStatus();
}

absl::Status PartyKeeper::Write(const PartyMark& mark, bool synced) {
  RETURN_IF_ERROR(trainer_.FetchState());
  Present& present = *present_;
  const bool keeps_former = present.has_file && present.file_version < mark.version;
  RETURN_IF_ERROR(SaveParty(PathOf(present.number), spec_.run_id(), Parts(), mark,
                            SaveTerms{synced, keeps_former}));
  if (keeps_former && present.number != 0) {
    former_.push_back(present.number);
    former_for_ = mark.version;
  }
  present.has_file = true;
  present.file_version = mark.version;
  present.on_disk = mark.whole;
  return absl::OkStatus();
}

// Only for virtual parties: with ten thousand of them, twice the disk space would be much.
void PartyKeeper::DropFormer(uint64_t version) {
  if (version <= former_for_) return;
  for (const uint32_t number : std::exchange(former_, {})) {
    std::remove(FormerPath(PathOf(number)).c_str());
  }
}

absl::StatusOr<std::vector<float>> PartyKeeper::PersonalOf(uint32_t number) {
  if (present_.has_value() && present_->number == number) {
    return std::vector<float>(trainer_.personal().begin(), trainer_.personal().end());
  }
  if (first_personal_.empty() || state_path_.empty()) return first_personal_;
  auto kept = ReadPersonalTensors(PathOf(number), spec_.run_id(), first_personal_.size());
  if (kept.ok()) return kept;
  return first_personal_;  // it has not trained yet
}

}  // namespace atolld
