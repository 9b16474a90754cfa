// Whether a machine may train for a run, as its owner limits it ([machine] and orders): the
// decision alone.
//
// Law: a limit that is passed holds at once, and is lifted when it has been kept for a while; that
// while doubles for a limit that is soon passed again. So a peer does not flap between the two.
// What is not seen on a machine limits nothing. Reasons name the limit and not what was measured,
// so that a reason that lasts stays the same text. Pure, no I/O and no clock; one thread.
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

// What was seen of a machine at one moment. Empty: this machine has no such thing, or does not
// tell.
struct MachineView {
  std::optional<absl::Duration> untouched;  // since keyboard or mouse was used
  std::optional<bool> on_battery;
  std::optional<double> charge;      // per cent
  std::optional<double> celsius;     // of the hottest sensor
  std::optional<double> others;      // per cent of all processors that other programs use
  std::optional<double> gpu_others;  // per cent of the GPU
  std::optional<uint64_t> memory_available_bytes;
  std::optional<uint64_t> disk_free_bytes;
  uint64_t worker_bytes = 0;  // memory that this daemon's worker holds
  uint64_t bytes_today = 0;   // sent and received since midnight
};

struct OwnerOrder {
  enum class Kind {
    kNone,
    kPause,   // until `until`
    kFinish,  // the round under way, then a pause of `pause`
  };
  Kind kind = Kind::kNone;
  absl::Time until = absl::InfiniteFuture();
  absl::Duration pause = absl::InfiniteDuration();
};

struct MachineVerdict {
  bool may_train = true;
  bool may_exchange = true;          // false: the peer stays away from its run; nor does it train
  std::vector<std::string> reasons;  // most pressing first; empty: it may train
  // When that changes by itself, by the wall clock. InfiniteFuture: nobody can say.
  absl::Time changes = absl::InfiniteFuture();
};

class OwnerLimits {
 public:
  // A limit is lifted after it was kept so long; at most so long when it is passed again and again.
  static constexpr absl::Duration kCalm = absl::Seconds(30);
  static constexpr absl::Duration kLongestCalm = absl::Minutes(8);

  explicit OwnerLimits(absl::TimeZone zone) : zone_(zone) {}

  // INVALID_ARGUMENT: hours that are none; nothing has changed then.
  absl::Status Set(const MachineConfig& limits);

  // `now` never goes back; `wall` is what clocks on walls show.
  MachineVerdict Look(absl::Time now, absl::Time wall, const OwnerOrder& order,
                      const MachineView& view);

 private:
  // A limit on what is measured.
  struct Latch {
    bool holds = false;
    std::optional<absl::Time> kept_since;
    absl::Time lifted = absl::InfinitePast();
    absl::Duration calm = kCalm;
    uint64_t worker_bytes = 0;  // that the worker held when it was passed
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
