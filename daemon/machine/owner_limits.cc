#include "daemon/machine/owner_limits.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compression/base/status_macros.h"

namespace atolld {
namespace {

// A limit that is passed again within this time after it was lifted was lifted too early.
constexpr absl::Duration kSoon = absl::Minutes(10);

// A machine that cools without work heats up again with it, and a battery's charge fluctuates.
constexpr double kCoolerBy = 5;
constexpr double kChargeAbove = 5;

std::string Gigabytes(uint64_t bytes) {
  const auto value = static_cast<double>(bytes);
  return value < 1e12 ? absl::StrFormat("%.4g GB", value / 1e9)
                      : absl::StrFormat("%.4g TB", value / 1e12);
}

// The end is only known if every reason's is.
void Add(std::string reason, absl::Time until, MachineVerdict* verdict) {
  verdict->changes = verdict->reasons.empty() ? until : std::max(verdict->changes, until);
  verdict->reasons.push_back(std::move(reason));
}

absl::Time Midnight(absl::Time wall, const absl::TimeZone& zone) {
  return absl::FromCivil(absl::ToCivilDay(wall, zone) + 1, zone);
}

}  // namespace

absl::Status OwnerLimits::Set(const MachineConfig& limits) {
  ASSIGN_OR_RETURN(const WeekHours hours, WeekHours::Parse(limits.hours));
  ASSIGN_OR_RETURN(network_hours_, WeekHours::Parse(limits.network_hours));
  hours_ = hours;
  limits_ = limits;
  return absl::OkStatus();
}

// Within a week a weekday and a time are enough.
std::string OwnerLimits::TimeText(absl::Time wall, absl::Time then) const {
  if (then - wall > absl::Hours(24 * 6)) return absl::FormatTime("%Y-%m-%d %H:%M", then, zone_);
  const bool today = absl::ToCivilDay(wall, zone_) == absl::ToCivilDay(then, zone_);
  return absl::FormatTime(today ? "%H:%M" : "%a %H:%M", then, zone_);
}

bool OwnerLimits::Holds(absl::Time now, Measured which, bool wanted, bool passed, bool kept) {
  Latch& latch = latches_[which];
  if (!wanted) {
    latch = Latch();
    return false;
  }
  if (passed) {
    if (!latch.holds) {
      const bool soon = now - latch.lifted < kSoon;
      latch.calm = soon ? std::min(2 * latch.calm, kLongestCalm) : kCalm;
    }
    latch.holds = true;
    latch.kept_since.reset();
    return true;
  }
  if (!latch.holds) return false;
  if (!kept) {
    latch.kept_since.reset();
    return true;
  }
  if (!latch.kept_since) latch.kept_since = now;
  if (now - *latch.kept_since < latch.calm) return true;
  latch.holds = false;
  latch.lifted = now;
  return false;
}

void OwnerLimits::LookAtHours(absl::Time wall, const MachineView& view,
                              MachineVerdict* verdict) const {
  if (limits_.bytes_a_day > 0 && view.bytes_today >= limits_.bytes_a_day) {
    verdict->may_exchange = false;
    Add(absl::StrCat("today's ", Gigabytes(limits_.bytes_a_day),
                     " are used up; it goes on at midnight"),
        Midnight(wall, zone_), verdict);
  }
  const auto look = [&](const WeekHours& hours, const char* name) {
    if (hours.Contains(wall, zone_)) return true;
    const absl::Time then = wall + hours.UntilChange(wall, zone_);
    Add(absl::StrCat("outside its ", name, " until ", TimeText(wall, then)), then, verdict);
    return false;
  };
  if (!look(network_hours_, "network hours")) verdict->may_exchange = false;
  look(hours_, "hours");
}

void OwnerLimits::LookAtMachine(absl::Time now, const MachineView& view,
                                std::vector<std::string>* reasons) {
  const auto look = [&](Measured which, bool wanted, bool passed, bool kept, std::string reason) {
    if (Holds(now, which, wanted, passed, kept)) reasons->push_back(std::move(reason));
  };
  // That rests for a while by itself, and needs no other while.
  const bool untouched = view.untouched && *view.untouched >= limits_.in_use;
  if (limits_.in_use > absl::ZeroDuration() && view.untouched && !untouched) {
    reasons->push_back(
        absl::StrCat("keyboard or mouse was used within ", absl::FormatDuration(limits_.in_use)));
  }
  look(kBattery, !limits_.on_battery && view.on_battery.has_value(), view.on_battery == true,
       view.on_battery == false, "the machine is on battery");
  const double charge = view.charge.value_or(100);
  look(kCharge, limits_.charge_below > 0 && view.charge.has_value(), charge < limits_.charge_below,
       charge >= std::min(100.0, limits_.charge_below + kChargeAbove),
       absl::StrFormat("the battery's charge is below %g %%", limits_.charge_below));
  const double celsius = view.celsius.value_or(0);
  look(kHeat, limits_.hotter_than > 0 && view.celsius.has_value(), celsius > limits_.hotter_than,
       celsius <= limits_.hotter_than - std::min(kCoolerBy, limits_.hotter_than / 10),
       absl::StrFormat("the machine is hotter than %g C", limits_.hotter_than));
  const double others = view.others.value_or(0);
  look(kOthers, limits_.others_above > 0 && view.others.has_value(), others > limits_.others_above,
       true,
       absl::StrFormat("other programs use over %g %% of the processors", limits_.others_above));
  const double gpu = view.gpu_others.value_or(0);
  look(kGpuOthers, limits_.gpu_others_above > 0 && view.gpu_others.has_value(),
       gpu > limits_.gpu_others_above, true,
       absl::StrFormat("other programs use over %g %% of the GPU", limits_.gpu_others_above));
  // A worker that has gone leaves its memory: that alone is no reason to start it again.
  const uint64_t memory = view.memory_available_bytes.value_or(0);
  Latch& latch = latches_[kMemory];
  if (!latch.holds) latch.worker_bytes = view.worker_bytes;
  look(kMemory, limits_.memory_floor > 0 && view.memory_available_bytes.has_value(),
       memory < limits_.memory_floor, memory >= limits_.memory_floor + latch.worker_bytes,
       absl::StrCat("less than ", Gigabytes(limits_.memory_floor), " of memory is available"));
  look(kDisk, limits_.disk_floor > 0 && view.disk_free_bytes.has_value(),
       view.disk_free_bytes.value_or(0) < limits_.disk_floor, true,
       absl::StrCat("less than ", Gigabytes(limits_.disk_floor), " of the disk is free"));
}

MachineVerdict OwnerLimits::Look(absl::Time now, absl::Time wall, const OwnerOrder& order,
                                 const MachineView& view) {
  MachineVerdict verdict;
  if (order.kind == OwnerOrder::Kind::kPause && wall < order.until) {
    Add(order.until == absl::InfiniteFuture()
            ? std::string("paused by its owner")
            : absl::StrCat("paused by its owner until ", TimeText(wall, order.until)),
        order.until, &verdict);
  }
  LookAtHours(wall, view, &verdict);
  std::vector<std::string> measured;
  LookAtMachine(now, view, &measured);
  for (std::string& reason : measured) Add(std::move(reason), absl::InfiniteFuture(), &verdict);
  verdict.may_train = verdict.reasons.empty();
  if (verdict.may_train) {
    for (const WeekHours& hours : {hours_, network_hours_}) {
      verdict.changes = std::min(verdict.changes, wall + hours.UntilChange(wall, zone_));
    }
  }
  return verdict;
}

}  // namespace atolld
