#include "daemon/peer/round_mode.h"

#include <cstdint>
#include <limits>
#include <utility>

#include "absl/base/casts.h"
#include "compression/base/planted_bug.h"
#include "membership/history/fragment.h"
#include "membership/history/run_mode.h"

namespace atolld {
namespace {

// Modes "sync" and "async": the worker's base moves with theta, however theta has moved.
// Its parameters stay where its own steps have brought them. So a late update is the way from them
// to the newest theta, as in DiLoCo (arXiv:2311.08105, drop-outs): what other peers have learnt
// meanwhile, often the same, does not count twice. A party's control variate is the mean of its own
// gradients, and so follows from its steps alone: with variates, parameters and base move alike.
class FromTheta : public RoundMode {
 public:
  FromTheta(const v1::RunSpec& spec, Parts parts)
      : FromTheta(parts, !spec.inner().control_variates()) {}

  // It is a straggler's training or, in mode "eager", one that runs ahead of an offered update. The
  // latter has begun from a guess of the entry that has taken that update.
  void OnEntry(const v1::EntryHeader& header, bool offered, bool included, bool) override {
    PeerTraining& training = parts_.training;
    if (!training.begun()) return;
    if (!offered && training.train().version() > header.version()) return;
    training.NoteEntries(1);
    training.SetMissed(included);
    if (!included && !Planted(PlantedBug::kStragglerNotRebased)) Rebase(header.version());
  }

  void OnOpened(bool) override {
    if (parts_.training.begun()) Rebase(parts_.keeper.version());
  }

 protected:
  FromTheta(Parts parts, bool keep_parameters)
      : RoundMode(parts), keep_parameters_(keep_parameters) {}

 private:
  void Rebase(uint64_t version) {
    parts_.training.SetMissed(false);
    if (!parts_.training.has_worker()) return;
    v1::DaemonMessage message;
    message.mutable_rebase()->set_version(version);
    message.mutable_rebase()->set_keep_parameters(keep_parameters_);
    parts_.worker.Send(message);
  }

  const bool keep_parameters_;
};

// Mode "delayed": a training that runs beside an offered update is late by the entry of that
// update, as all others are in this mode, and counts from the state that it leads to. The worker
// takes that state as its base at the end of its steps, and waits for it there: a Merge that leaves
// all of its own parameters.
class Delayed final : public RoundMode {
 public:
  explicit Delayed(Parts parts) : RoundMode(parts) {}

  void Fill(v1::TrainSteps* steps) const override {
    if (!parts_.own.held()) return;
    steps->set_merge_after(std::numeric_limits<uint32_t>::max());
    steps->set_merge_version(parts_.keeper.version() + 1);
  }

  void OnEntry(const v1::EntryHeader& header, bool offered, bool included, bool) override {
    PeerTraining& training = parts_.training;
    if (!training.begun()) return;
    if (!offered && training.train().version() > header.version()) return;
    training.NoteEntries(1);
    // A worker that has not waited has handed over what counts from the state before.
    training.SetMissed(included && training.state() != PeerTraining::State::kStepping);
    if (!Planted(PlantedBug::kStragglerNotRebased)) Merge(header.version());
  }

  void OnOpened(bool) override {
    parts_.training.SetMissed(false);
    if (parts_.training.begun()) Merge(parts_.keeper.version());
  }

 private:
  void Merge(uint64_t version) {
    if (!parts_.training.has_worker()) return;
    v1::DaemonMessage message;
    message.mutable_merge()->set_version(version);
    message.mutable_merge()->set_own_share_bits(absl::bit_cast<uint32_t>(1.0f));
    parts_.worker.Send(message);
  }
};

// Mode "eager". A training beside an offered update has begun from a guess of the state that the
// update leads to, and counts from that guess: counted from the state, what the guess was wrong by
// would come back in the update, and at higher outer rates grow from entry to entry.
class FromGuess final : public FromTheta {
 public:
  // The guess has a share of the offered update in it. If the entry leaves that out, it must not be
  // in the next update as well, so parameters and base move alike.
  explicit FromGuess(Parts parts)
      : FromTheta(parts, /*keep_parameters=*/false), guess_(parts.keeper, parts.own) {}

  EagerGuess* guess() override { return &guess_; }
  bool KeepsUpdate() const override { return true; }
  void OnMoving(const v1::EntryHeader& header) override { guess_.OnCommitted(header); }
  void OnDropped() override { guess_.Forget(); }
  void OnOpened(bool worker_ready) override {
    guess_.Forget();
    FromTheta::OnOpened(worker_ready);
  }

 private:
  EagerGuess guess_;
};

// Mode "streaming": nothing is missed, because the worker merges each entry.
class FromOwn final : public RoundMode {
 public:
  FromOwn(const v1::RunSpec& spec, Parts parts) : RoundMode(parts), spec_(spec) {}

  std::string Start() override { return std::exchange(lost_, false) ? "" : "own"; }
  bool KeepsUpdate() const override { return true; }

  void Fill(v1::TrainSteps* steps) const override {
    if (!parts_.own.held()) return;
    // Its entry is on its way.
    steps->set_merge_after(spec_.mode().overlap_steps());
    steps->set_merge_version(parts_.keeper.version() + 1);
  }

  void OnHeld(uint64_t version) override {
    held_for_ = version;
    of_worker_ = parts_.training.has_worker();
  }
  void OnWorkerLost() override { of_worker_ = false; }
  void OnRefused() override { lost_ = true; }
  void OnDropped() override { lost_ = true; }

  void OnEntry(const v1::EntryHeader& header, bool offered, bool included,
               bool worker_ready) override {
    if (worker_ready) Merge(header.version(), false, included && of_worker_);
    if (parts_.training.begun() && !offered) parts_.training.NoteEntries(1);
  }
  void OnTakenUnseen(uint64_t version) override { taken_unseen_ = version; }
  void OnMaybeTaken() override { taken_unseen_ = held_for_; }

  void OnOpened(bool worker_ready) override {
    const uint64_t version = parts_.keeper.version();
    // The next entry covers another fragment.
    if (parts_.own.held() && held_for_ <= version) parts_.own.Drop();
    const uint64_t taken = std::exchange(taken_unseen_, 0);
    if (!worker_ready) return;
    if (taken != 0 && of_worker_) Merge(taken, false, true);
    Merge(version, true, false);
  }

 private:
  // The worker's own parameters take in what an entry has made of its fragment; or all of theta,
  // where entries were not seen.
  void Merge(uint64_t version, bool whole, bool included) {
    v1::DaemonMessage message;
    v1::Merge* const merge = message.mutable_merge();
    merge->set_version(version);
    if (!whole) {
      const auto ranges = FragmentRanges(spec_, parts_.keeper.genesis().manifest(), version);
      for (const FragmentRange& range : ranges) {
        v1::ValueRange* const values = merge->add_ranges();
        values->set_first(range.first);
        values->set_count(range.count);
      }
    }
    merge->set_own_share_bits(spec_.mode().merge_bits());
    merge->set_rebase(!included);
    parts_.worker.Send(message);
  }

  const v1::RunSpec spec_;
  bool lost_ = false;       // the worker's own parameters are to be forgotten: it begins from theta
  uint64_t held_for_ = 0;   // the entry for which the newest update was encoded
  bool of_worker_ = false;  // the worker that runs has made it, and has it in its parameters
  // An entry that has taken the update, or may have, and was passed over by a snapshot; 0 if there
  // is none. It must not count twice.
  uint64_t taken_unseen_ = 0;
};

}  // namespace

std::unique_ptr<RoundMode> RoundMode::Of(const v1::RunSpec& spec, Parts parts) {
  if (IsStreaming(spec)) return std::make_unique<FromOwn>(spec, parts);
  if (spec.mode().kind() == "delayed") return std::make_unique<Delayed>(parts);
  if (spec.mode().kind() == "eager") return std::make_unique<FromGuess>(parts);
  return std::make_unique<FromTheta>(spec, parts);
}

}  // namespace atolld
