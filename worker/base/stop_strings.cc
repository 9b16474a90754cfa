#include "worker/base/stop_strings.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

namespace atolld {

StopStrings::StopStrings(const std::vector<std::string>& stops) {
  for (const std::string& stop : stops) {
    if (!stop.empty()) stops_.push_back(stop);
  }
}

std::string StopStrings::Take(uint8_t byte) {
  held_ += static_cast<char>(byte);
  size_t keep = 0;  // the longest end of held_ that a stop may begin with
  for (const std::string& stop : stops_) {
    if (absl::EndsWith(held_, stop)) {
      done_ = true;
      held_.resize(held_.size() - stop.size());
      return Rest();
    }
    for (size_t length = std::min(stop.size() - 1, held_.size()); length > keep; --length) {
      if (absl::EndsWith(held_, absl::string_view(stop).substr(0, length))) keep = length;
    }
  }
  std::string shown = held_.substr(0, held_.size() - keep);
  held_.erase(0, held_.size() - keep);
  return shown;
}

std::string StopStrings::Rest() { return std::exchange(held_, ""); }

}  // namespace atolld
