#include "daemon/env/machine_watch.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace atolld {
namespace {

// A disk that takes this long to make one small write durable delays every vote by it.
constexpr absl::Duration kSlow = absl::Seconds(1);

// A rate that any disk reaches, even a memory card; a large file may take the corresponding time in
// addition.
constexpr double kLeastBytesPerSecond = 10e6;

constexpr absl::Duration kSpan = absl::Minutes(5);

// Below this, a time service does its work.
constexpr absl::Duration kStep = absl::Seconds(2);

bool IsSlow(const SlowSync& sync) {
  return sync.took > kSlow + absl::Seconds(static_cast<double>(sync.bytes) / kLeastBytesPerSecond);
}

}  // namespace

std::string Describe(const SlowSync& sync) {
  return absl::StrFormat("an fsync of %s took %.1f s for %.0f kB", sync.path,
                         absl::ToDoubleSeconds(sync.took), static_cast<double>(sync.bytes) / 1000);
}

void SyncTimes::Add(absl::Time now, absl::string_view path, absl::Duration took, uint64_t bytes) {
  SlowSync sync{"", took, bytes};
  if (!IsSlow(sync)) return;
  sync.path = std::string(path);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (now >= newest_.begin + kSpan) {
    before_ = now < newest_.begin + 2 * kSpan ? std::exchange(newest_, Span()) : Span();
    newest_ = Span{now, std::nullopt};
  }
  if (!newest_.longest || newest_.longest->took < took) newest_.longest = std::move(sync);
}

std::optional<SlowSync> SyncTimes::Longest(absl::Time now) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::optional<SlowSync> longest;
  for (const Span* span : {&before_, &newest_}) {
    if (!span->longest || now >= span->begin + 2 * kSpan) continue;
    if (!longest || longest->took < span->longest->took) longest = span->longest;
  }
  return longest;
}

absl::Duration ClockSteps::Look(absl::Time monotonic, absl::Time wall) {
  const absl::Duration offset = wall - monotonic;
  const absl::Duration back =
      offset_ ? std::max(*offset_ - offset, absl::ZeroDuration()) : absl::ZeroDuration();
  offset_ = offset;
  return back >= kStep ? back : absl::ZeroDuration();
}

MachineWatch::MachineWatch(Executor& executor, Log& log, const SyncTimes& syncs)
    : executor_(executor), log_(log), syncs_(syncs), repeated_(executor, log) {
  Look();
}

void MachineWatch::Look() {
  const absl::Time now = executor_.Now();
  const absl::Duration back = steps_.Look(now, executor_.WallTime());
  if (back > absl::ZeroDuration()) {
    log_.Warning(absl::StrCat("this machine's clock went back by ",
                              absl::FormatDuration(absl::Trunc(back, absl::Seconds(1))),
                              "; let a time service keep it (`timedatectl set-ntp true`)"));
  }
  if (const std::optional<SlowSync> slow = syncs_.Longest(now)) {
    repeated_.Write(Log::Level::kWarning, "slow disk",
                    absl::StrCat("the disk is slow: ", Describe(*slow),
                                 "; a round waits for it, so move the folder to a faster disk"));
  }
  executor_.RunAfter(kBetweenLooks, guard_.Wrap([this] { Look(); }));
}

}  // namespace atolld
