#include "daemon/peer/work_meter.h"

#include <algorithm>

namespace atolld {

void WorkMeter::OnTraining(absl::Time now, uint64_t bytes) {
  began_ = Moment{now, bytes};
  committed_.reset();
}

void WorkMeter::OnCommitted(absl::Time now, uint64_t bytes) { committed_ = Moment{now, bytes}; }

void WorkMeter::OnBoundary(absl::Time now, uint64_t bytes, double merge_seconds) {
  waited_seconds_ = 0;
  hidden_bytes_ = waited_bytes_ = 0;
  if (boundary_ && began_) {
    waited_seconds_ = absl::ToDoubleSeconds(began_->at - boundary_->at) + merge_seconds;
    waited_bytes_ = began_->bytes - boundary_->bytes;
    hidden_bytes_ = bytes - began_->bytes;
    if (merge_seconds > 0 && committed_ && committed_->at > began_->at) {
      const double share =
          std::min(1.0, merge_seconds / absl::ToDoubleSeconds(committed_->at - began_->at));
      const auto merged =
          static_cast<uint64_t>(share * static_cast<double>(committed_->bytes - began_->bytes));
      waited_bytes_ += merged;
      hidden_bytes_ -= merged;
    }
  }
  boundary_ = Moment{now, bytes};
}

void WorkMeter::Tell(v1::Ready* ready) const {
  ready->set_waited_seconds(waited_seconds_);
  ready->set_hidden_bytes(hidden_bytes_);
  ready->set_waited_bytes(waited_bytes_);
}

}  // namespace atolld
