// Decides whether a machine may train for a run, from its owner's limits ([machine]) and orders. It
// only decides; OwnerControl acts on the decision.
//
// Law: when a limit is exceeded, it stops the training immediately. Training is allowed again when
// the limit has been kept for some time. This time doubles if the limit is soon exceeded again, so
// that a peer does not start and stop all the time. A limit has no effect if the machine does not
// report its value. Reasons name the limit and not the measured value, so that the text of a
// lasting reason does not change. Pure. Used by one thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "daemon/config/machine_config.h"
#include "daemon/config/week_hours.h"

namespace atolld {

// The observations of a machine at one moment. A field is empty if this machine has no such thing
// or does not report it.
struct MachineView {
  // The time since the keyboard or the mouse was last used.
  std::optional<absl::Duration> untouched;
  std::optional<bool> on_battery;
  std::optional<double> charge;      // The charge of the battery in per cent.
  std::optional<double> celsius;     // The temperature of the hottest sensor.
  std::optional<double> others;      // The percentage of all processors that other programs use.
  std::optional<double> gpu_others;  // The percentage of the GPU that other programs use.
  std::optional<uint64_t> memory_available_bytes;
  std::optional<uint64_t> disk_free_bytes;
  uint64_t worker_bytes = 0;  // The memory that this daemon's worker uses.
  uint64_t bytes_today = 0;   // The bytes sent and received since midnight.
};

struct OwnerOrder {
  enum class Kind {
    kNone,
    kPause,   // The peer pauses until `until`.
    kFinish,  // The peer finishes the round under way, then pauses for `pause`.
  };
  Kind kind = Kind::kNone;
  absl::Time until = absl::InfiniteFuture();
  absl::Duration pause = absl::InfiniteDuration();
};

struct MachineVerdict {
  bool may_train = true;
  bool may_exchange = true;  // If false, the peer leaves its run, and does not train either.
  // Why the peer may not train, the most important reason first; empty if it may train.
  std::vector<std::string> reasons;
  // The time of the wall clock at which the verdict will change by itself; InfiniteFuture if that
  // is unknown.
  absl::Time changes = absl::InfiniteFuture();
};

class OwnerLimits {
 public:
  // The time for which a limit must be kept until training is allowed again: kCalm at first, up to
  // kLongestCalm if the limit is exceeded again and again.
  static constexpr absl::Duration kCalm = absl::Seconds(30);
  static constexpr absl::Duration kLongestCalm = absl::Minutes(8);

  explicit OwnerLimits(absl::TimeZone zone) : zone_(zone) {}

  // Fails with INVALID_ARGUMENT, and changes nothing, if the hours are invalid.
  absl::Status Set(const MachineConfig& limits);

  // Returns the verdict for this view of the machine. `now` must never go back; `wall` is the time
  // of the wall clock.
  MachineVerdict Look(absl::Time now, absl::Time wall, const OwnerOrder& order,
                      const MachineView& view);

 private:
  // The state of a limit on a measured value.
  struct Latch {
    bool holds = false;
    std::optional<absl::Time> kept_since;
    absl::Time lifted = absl::InfinitePast();
    absl::Duration calm = kCalm;
    uint64_t worker_bytes = 0;  // The worker's memory when the limit was exceeded.
  };
  enum Measured {
    kInUse,
    kBattery,
    kCharge,
    kHeat,
    kOthers,
    kGpuOthers,
    kMemory,
    kDisk,
    kMeasured
  };

  bool Holds(absl::Time now, Measured which, bool wanted, bool passed, bool kept);
  void LookAtHours(absl::Time wall, const MachineView& view, MachineVerdict* verdict) const;
  void LookAtMachine(absl::Time now, const MachineView& view, std::vector<std::string>* reasons);
  std::string TimeText(absl::Time wall, absl::Time then) const;

  absl::TimeZone zone_;
  MachineConfig limits_;
  WeekHours hours_, network_hours_;
  std::array<Latch, kMeasured> latches_;
};

}  // namespace atolld
