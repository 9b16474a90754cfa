// Keeps a party's state from round to round: its position in its data, the optimiser's state,
// personal tensors, and SCAFFOLD's control variate. The trainer holds the state of one of the
// worker's parties at a time. The state of every other party is in a file of its own beside the
// worker's state file.
//
// Law: the training for version v begins with the state that the party had after the last
// training that it completed for an earlier version. A training that is repeated, because its
// worker or daemon died or its update was refused, therefore gives the same bits as before, and a
// party that shares a worker with others gets the same result as a party with a worker of its own.
// For this reason the state is on disk before the daemon is told that the training is done, and the
// previous state is kept on disk with it. If writing takes long, the optimiser's state is not
// written after every training; a repeated training then continues from the state on disk, and the
// worker logs that. A control variate c_i changes only when the update that was trained with it was
// taken into an entry; until then the next control variate waits, also on disk.
//
// TakeUp gives the optimiser state of the tensors that the party's last training trained. The
// caller then says which ones are trained now (Trainer::Freeze). Used by one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "atoll/v1/run.pb.h"
#include "worker/training/trainer.h"
#include "worker/training/worker_state.h"

namespace atolld {

class PartyKeeper {
 public:
  // `trainer` must outlive this object. If `state_path` is empty, nothing is written: a party's
  // state is lost at the end of its turn.
  PartyKeeper(Trainer& trainer, const v1::RunSpec& spec, std::string state_path,
              std::function<absl::Time()> now, std::function<void(const std::string&)> log);

  // Loads the last state of the worker's own party into the trainer, for evaluations before it
  // trains.
  absl::Status Open();

  // Puts the state of party `number` (0 is the worker's own party) into the trainer, for a training
  // for `version`. A party without a state begins anew. Costs nothing if the trainer already holds
  // the party's state, the party has not yet finished a training for `version`, and no training was
  // begun and not finished.
  absl::Status TakeUp(uint32_t number, uint64_t version);

  // Resets the trainer for a party whose state is not kept, at this position in its data. Fails
  // with FAILED_PRECONDITION if the run has personal tensors or control variates, because they must
  // be kept from round to round.
  absl::Status BeginAnew(uint64_t position);

  // Ends the wait of the next control variate. It becomes the control variate if `taken` is true,
  // which means that its update was taken into an entry; otherwise it is dropped.
  void Settle(bool taken);

  // Returns the number of samples that the party has used in its finished rounds.
  uint64_t position() const { return position_; }

  absl::Span<const float> control() const { return control_; }

  // Records that the training for `version` is done. The training used `samples` samples and moved
  // the parameters from x to y, in steps whose learning rates sum to `rates`. `update` is x - y.
  // `common` is the common control variate c, and is empty if the run has no control variates.
  void Finish(uint64_t version, uint64_t samples, absl::Span<const float> update,
              absl::Span<const float> common, double rates);

  // Writes the state after the finished training, or postpones the writing if it takes long.
  absl::Status Save();
  // Writes a state whose writing was postponed, and makes the file survive a crash of the machine.
  // Called when the worker ends, and from time to time. If only the optimiser's state is kept, it
  // is also written in the middle of a training.
  absl::Status Sync();

  // Returns the personal tensors of a party, from the trainer or from the party's file.
  absl::StatusOr<std::vector<float>> PersonalOf(uint32_t number);

  std::string PathOf(uint32_t number) const;

 private:
  // The party whose state is in the trainer.
  struct Present {
    uint32_t number = 0;
    // The mark of the party's state, or of the state with which its training began.
    PartyMark mark;
    bool dirty = false;  // True if a training has begun and has not finished.
    // True if a state with that mark is on disk, or if there never was a state.
    bool on_disk = true;
    bool has_file = false;  // True if a file is at PathOf(number); its version is file_version.
    uint64_t file_version = 0;
    std::string from;  // The file from which the state was read; empty once that has been logged.
  };

  PartyParts Parts();
  void Reset();
  absl::Status ShapeAs(const std::vector<uint64_t>& began);
  absl::Status Load(uint32_t number, uint64_t version);
  std::vector<std::string> FilesFor(uint64_t version);
  void TellFile(uint64_t version);
  absl::Status Write(const PartyMark& mark, bool synced);
  void DropFormer(uint64_t version);

  Trainer& trainer_;
  const v1::RunSpec spec_;
  const std::string state_path_;
  const std::function<absl::Time()> now_;
  const std::function<void(const std::string&)> log_;
  const bool keeps_;                         // True if more than the optimiser's state is kept.
  const std::vector<float> first_personal_;  // The personal tensors with which a party begins.

  absl::optional<Present> present_;
  uint64_t position_ = 0;
  uint64_t pending_ = 0;  // 1 if next_control_ waits to become control_; otherwise 0.
  std::vector<float> control_, next_control_;  // Empty if the run has no control variates.
  absl::Time may_save_ = absl::InfinitePast();
  std::vector<uint32_t> former_;  // The virtual parties whose previous file is kept.
  uint64_t former_for_ = 0;       // The version whose training may need these files again.
};

}  // namespace atolld
