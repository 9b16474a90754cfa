// What a run knows of one peer's training, and how its rounds go.
//
// Where the run's mode has a pipeline (membership/history/run_mode.h) a peer whose update stands
// trains beside it for the entry after the round's: *ahead*. It is given that training as early as
// its own for the round, so that it need not ask for it once it is ready. It holds at most one
// update that is offered and one training, or one training and one that waits. Plain data.
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
  bool waits = false;                 // until its peer is ready: it has not begun
  std::optional<absl::Time> started;  // as TrainingState::train_started
  uint64_t number = 0;                // as TrainingState::train_number
  double rounds = 1;                  // as TrainingState::rounds
};

struct TrainingState {
  bool worker_ready = false;
  // Its worker was lost in the round for this version, and may be back within it; 0: in none.
  uint64_t worker_lost_in = 0;
  Activity activity = Activity::kIdle;
  // Its Train was sent then; nothing: it was training before this process knew of it.
  std::optional<absl::Time> train_started;
  absl::Duration ready_after;  // the last time: from its Train to its Ready; 0: unknown
  bool resumed = false;  // so that its time is what its Ready tells, not what was measured here
  uint64_t discarded_in = 0;  // the version for which its update was not taken
  uint64_t began_for = 0;     // the version whose round its training began in
  uint64_t settled = 0;       // Readys up to this version say again what an entry has settled
  uint64_t train_number = 0;  // of its Train; 0: not known, since it said Hello after it
  // So much of a round's training it was told: that of several where its update is dropped, of a
  // part where its speed is to be measured.
  double rounds = 1;
  v1::Ready ready;  // while kReady
  // Its update stands. Also while kTraining, where it is to say so again.
  bool offers = false;
  std::optional<AheadTraining> ahead;  // beside the update that it offers
};

// What a peer that says Hello trains on, or has trained on.
struct HeldTraining {
  std::vector<v1::SampleRange> samples;  // of what it offers or else trains; empty: it is idle
  std::vector<v1::SampleRange> ahead;    // of what it trains beside an update that it offers
  bool trains = false;                   // with private data it says no more than that
  bool trains_ahead = false;
  bool offers = false;  // it offers an update

  explicit HeldTraining(const v1::Hello& hello)
      : samples(hello.samples().begin(), hello.samples().end()),
        ahead(hello.ahead_samples().begin(), hello.ahead_samples().end()),
        trains(hello.training()),
        trains_ahead(hello.training_ahead()),
        offers(hello.offers()) {}
  HeldTraining() = default;

  // What is left of it once its update is settled.
  HeldTraining WithoutUpdate() const {
    HeldTraining left;
    left.samples = ahead;
    left.trains = trains_ahead;
    return left;
  }
};

struct RoundSettings {
  uint32_t peers = 1;                // trainers that the first round waits for
  uint32_t quorum = 1;               // fewest that may commit
  bool private_data = false;         // nothing is leased
  Participation participation = {};  // who is drawn, and whose updates are dropped
  bool trains_ahead = false;         // whose update stands trains on
  bool one_entry = false;            // an update is for one entry alone: dropped where that passes
  bool async = false;                // nobody is waited for
  bool waits = false;                // for stragglers, until they are dead; not with async
};

// What these are with what the run's spec says of its parties and its mode.
RoundSettings WithParties(RoundSettings settings, const v1::RunSpec& spec);

}  // namespace atolld
