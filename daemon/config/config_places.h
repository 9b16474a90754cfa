// Records where each value of a config was written, so that a broken rule is reported at the place
// to change. Used by one thread.
#pragma once

#include <map>
#include <string>
#include <utility>

namespace atolld {

class ConfigPlaces {
 public:
  // `start` is the place that is reported for values that were not written: the file's first line.
  explicit ConfigPlaces(std::string start) : start_(std::move(start)) {}

  // Records the place of a key, or of the section's heading if `key` is empty.
  void Set(const std::string& section, const std::string& key, std::string place) {
    places_[{section, key}] = std::move(place);
  }

  bool Has(const std::string& section, const std::string& key) const {
    return places_.count({section, key}) > 0;
  }

  // Returns the place of the key, or else of its section's heading, or else the start.
  const std::string& Of(const std::string& section, const std::string& key) const {
    auto found = places_.find({section, key});
    if (found == places_.end()) found = places_.find({section, ""});
    return found == places_.end() ? start_ : found->second;
  }

 private:
  const std::string start_;
  std::map<std::pair<std::string, std::string>, std::string> places_;
};

}  // namespace atolld
