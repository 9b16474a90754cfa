#include "daemon/env/repeated_lines.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace atolld {
namespace {

// A user who looks at the log an hour later still finds the line.
constexpr absl::Duration kSayAgainAfter = absl::Minutes(10);

// There are few keys; keys chosen by others must not fill the memory.
constexpr size_t kMostKeys = 256;

}  // namespace

void RepeatedLines::Write(Log::Level level, const std::string& key, absl::string_view line) {
  const absl::Time now = executor_.Now();
  std::string counted;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = said_.find(key);
    if (found != said_.end() && now < found->second.at + kSayAgainAfter) {
      ++found->second.since;
      level = Log::Level::kDebug;
    } else {
      if (found != said_.end() && found->second.since > 0) {
        counted = absl::StrCat(" (", found->second.since, " more like it since it was last said)");
      }
      if (found == said_.end() && said_.size() >= kMostKeys) said_.clear();
      said_[key] = Said{now, 0};
    }
  }
  log_.Write(level, absl::StrCat(line, counted));
}

std::string WithoutNumbers(std::string text) {
  text.erase(std::remove_if(text.begin(), text.end(), absl::ascii_isdigit), text.end());
  return text;
}

}  // namespace atolld
