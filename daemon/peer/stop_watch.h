// StopWatch: notices that this process itself was stopped for a while (a closed lid, SIGSTOP, a
// debugger), so that it does not blame others for its own silence.
//
// Somebody ticks it often; a tick that comes much too late, or none when one was long due, says
// that nothing ran here. Pure state; one thread.
#pragma once

#include "absl/time/time.h"

namespace atolld {

class StopWatch {
 public:
  // A gap of `longest` or more between two ticks is a stop; after one, all that is due may be stale
  // for as long again.
  explicit StopWatch(absl::Duration longest) : longest_(longest) {}

  void SetLongest(absl::Duration longest) { longest_ = longest; }

  void Tick(absl::Time now) {
    if (last_ != absl::InfinitePast() && now - last_ >= longest_) stopped_ = now;
    last_ = now;
  }

  // Whether this process was stopped, or went on so short a while ago that what has run out here
  // says nothing of others.
  bool JustStopped(absl::Time now) const {
    return (last_ != absl::InfinitePast() && now - last_ >= longest_) || now - stopped_ < longest_;
  }

 private:
  absl::Duration longest_;
  absl::Time last_ = absl::InfinitePast();
  absl::Time stopped_ = absl::InfinitePast();
};

}  // namespace atolld
