// What a party keeps from round to round: its place in its data, the optimiser's state, personal
// tensors, SCAFFOLD's control variate. Of the parties of a worker one at a time is in the trainer;
// the others' lie beside the worker's state file, one file each.
//
// The law: what is kept is as the party's last finished round left it, so that a turn of it is bit
// for bit that of a worker of its own. A control variate c_i changes only with an update that was
// taken into an entry; until then the next one waits, on disk too. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "atoll/v1/run.pb.h"
#include "worker/training/trainer.h"
#include "worker/training/worker_state.h"

namespace atolld {

class PartyKeeper {
 public:
  // The trainer must outlive it. With an empty `state_path` nothing outlives the process, nor a
  // party its turn.
  PartyKeeper(Trainer& trainer, const v1::RunSpec& spec, std::string state_path,
              std::function<void(const std::string&)> log);

  // Whether a run of this kind keeps anything but the optimiser's state.
  static bool Keeps(const v1::RunSpec& spec);

  // Party `number`, or the worker's own with 0, is the trainer's from now on; it begins anew where
  // there is no state of it. Costs nothing if it was before.
  absl::Status TakeUp(uint32_t number);

  // The trainer begins anew, with a party of which nothing is kept, at this place of its data.
  // FAILED_PRECONDITION: the run has tensors or variates that live from round to round.
  absl::Status BeginAnew(uint64_t position);

  // Drops what the present party's round has changed so far, which is given up: the next TakeUp
  // takes what its last finished round left. Without a `state_path` the change stays.
  void GiveUp();

  // The variate that waits is the party's if its update was taken into an entry, else it is
  // dropped.
  void Settle(bool taken);

  // Whose turn it is; none: nobody's, or one of which nothing is kept.
  absl::optional<uint32_t> current() const { return current_; }

  // How many samples of its data the party went through in the rounds that it finished.
  uint64_t position() const { return position_; }

  absl::Span<const float> control() const { return control_; }

  // A round is done, which went `samples` further and from x to y in steps whose rates sum up to
  // `rates`: `update` is x - y, `common` the variate c, empty without variates.
  void Finish(uint64_t samples, absl::Span<const float> update, absl::Span<const float> common,
              double rates);

  // Writes the present party's state, as it is now.
  absl::Status Save(Durability durability);

  // The personal tensors of a party, wherever they are.
  absl::StatusOr<std::vector<float>> PersonalOf(uint32_t number);

  std::string PathOf(uint32_t number) const;

 private:
  PartyParts Parts();
  void Reset();

  Trainer& trainer_;
  const v1::RunSpec spec_;
  const std::string state_path_;
  const std::function<void(const std::string&)> log_;
  const std::vector<float> first_personal_;  // that a party begins with

  absl::optional<uint32_t> current_;
  uint64_t position_ = 0;
  uint64_t pending_ = 0;                       // 1: next_control_ waits
  std::vector<float> control_, next_control_;  // empty without control variates
};

}  // namespace atolld
