// What a run knows about one peer's training (TrainingState), and the settings of its rounds.
//
// If the run's mode has a pipeline (membership/history/run_mode.h), a peer whose update is ready
// continues to train for the entry after the round's; this is called training *ahead*. It is given
// that training together with its training for the round, so that it need not ask for it when it is
// ready. A peer has at most one offered update and one current training, or one current training
// and one that has not begun. Plain data.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "atoll/v1/membership.pb.h"
#include "atoll/v1/run.pb.h"
#include "membership/run/participation.h"

namespace atolld {

enum class Activity { kIdle, kTraining, kReady };

struct AheadTraining {
  // True while the training has not begun, because the peer is not ready.
  bool waits = false;
  std::optional<absl::Time> started;  // see TrainingState::train_started
  uint64_t number = 0;                // see TrainingState::train_number
  double rounds = 1;                  // see TrainingState::rounds
};

// A peer that sends this many Hellos during one training has a line that lets nothing else through,
// so it is no longer waited for.
inline constexpr int kMostHellos = 3;

struct TrainingState {
  bool worker_ready = false;
  uint32_t lora_rank = 0;  // WorkerReady.lora_rank
  // The version of the round in which the peer's worker was lost if it may still return; 0
  // otherwise.
  uint64_t worker_lost_in = 0;
  Activity activity = Activity::kIdle;
  // When the peer's Train was sent; nullopt if the peer was training before this process knew of
  // it.
  std::optional<absl::Time> train_started;
  absl::Duration ready_after;  // the time from the peer's last Train to its Ready; 0 if unknown
  // True if the time that the peer's Ready reports counts instead of the time that the coordinator
  // measures.
  bool resumed = false;
  // The version whose entry did not accept the peer's update; 0 if none.
  uint64_t discarded_in = 0;
  // True if the update itself was the reason; the peer's next Train must then say so.
  bool refused = false;
  // The version of the round in which the training began.
  uint64_t began_for = 0;
  // The number of Hellos with which the peer continued this training.
  int hellos = 0;
  // The peer's updates up to this version are settled by entries; a Ready for one of them is a
  // repetition.
  uint64_t settled = 0;
  // The number of the peer's Train; 0 if it is unknown because the peer has sent a Hello since.
  uint64_t train_number = 0;
  // How much the peer was ordered to train, in rounds: more than 1 if its updates are dropped, and
  // less than 1 if it only measures its speed.
  double rounds = 1;
  v1::Ready ready;  // valid in kReady
  // True if the peer's update is ready. It is also true in kTraining if the peer must announce the
  // update again.
  bool offers = false;
  std::optional<AheadTraining> ahead;  // the training for the next entry
};

// The training and the update that a peer has when it sends a Hello.
struct HeldTraining {
  // The samples of the update that the peer offers or, if there is none, of its training; empty if
  // the peer is idle.
  std::vector<v1::SampleRange> samples;
  // The samples of the peer's training if it also offers an update.
  std::vector<v1::SampleRange> ahead;
  // With private data the peer reports only these two values and no samples.
  bool trains = false;
  bool trains_ahead = false;
  bool offers = false;  // true if the peer offers an update

  explicit HeldTraining(const v1::Hello& hello)
      : samples(hello.samples().begin(), hello.samples().end()),
        ahead(hello.ahead_samples().begin(), hello.ahead_samples().end()),
        trains(hello.training()),
        trains_ahead(hello.training_ahead()),
        offers(hello.offers()) {}
  HeldTraining() = default;

  // Returns the training that is left once the peer's update is settled.
  HeldTraining WithoutUpdate() const {
    HeldTraining left;
    left.samples = ahead;
    left.trains = trains_ahead;
    return left;
  }
};

struct RoundSettings {
  uint32_t peers = 1;         // the number of trainers that the first round waits for
  uint32_t quorum = 1;        // the fewest updates that may be committed
  uint32_t fewest = 1;        // the fewest updates with which an attempt may begin
  bool private_data = false;  // true if nothing is leased
  // Decides which peers are drawn and which updates are dropped.
  Participation participation = {};
  // True if a peer trains on once its update is ready.
  bool trains_ahead = false;
  // True if an update can be used for one entry only, and is dropped if it misses that entry.
  bool one_entry = false;
  bool async = false;  // true if a round waits for no peer
  // True if a round waits for stragglers until they are dead; must be false with `async`.
  bool waits = false;
};

// Returns the settings, completed with the values for parties, mode and masks from the run's spec.
RoundSettings WithParties(RoundSettings settings, const v1::RunSpec& spec);

}  // namespace atolld
