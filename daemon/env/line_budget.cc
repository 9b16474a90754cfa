#include "daemon/env/line_budget.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compression/base/words.h"

namespace atolld {

LineBudget::LineBudget(double bytes_per_second, size_t burst)
    : bytes_per_second_(bytes_per_second),
      burst_(static_cast<double>(burst)),
      left_(static_cast<double>(burst)) {}

std::vector<std::string> LineBudget::Take(absl::Time now, std::vector<std::string> lines,
                                          bool is_error) {
  if (filled_ != absl::InfinitePast()) {
    left_ = std::min(burst_, left_ + absl::ToDoubleSeconds(now - filled_) * bytes_per_second_);
  }
  filled_ = now;
  std::vector<std::string> taken;
  for (std::string& line : lines) {
    const auto size = static_cast<double>(line.size() + 1);
    // After a gap nothing passes before a good part of the burst is there again: whole stretches of
    // output say more than a line here and there.
    if (size > left_ || (lines_ > 0 && left_ < burst_ / 8)) {
      ++lines_;
      bytes_ += line.size() + 1;
      (is_error ? last_error_ : last_output_) = std::move(line);
      continue;
    }
    if (lines_ > 0) {
      taken.push_back(Told());
      Forget();
    }
    left_ -= size;
    taken.push_back(std::move(line));
  }
  return taken;
}

std::vector<std::string> LineBudget::Rest() {
  if (lines_ == 0) return {};
  std::vector<std::string> rest = {Told(),
                                   std::move(last_error_.empty() ? last_output_ : last_error_)};
  Forget();
  return rest;
}

void LineBudget::Forget() {
  lines_ = bytes_ = 0;
  last_output_.clear();
  last_error_.clear();
}

std::string LineBudget::Told() const {
  return absl::StrCat("(", Counted(lines_, "line"), " of ", bytes_,
                      " bytes were left out here: it writes too much)");
}

}  // namespace atolld
