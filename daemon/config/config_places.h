// Where each value of a config was said, so that a broken rule is shown where it can be mended. One
// thread.
#pragma once

#include <map>
#include <string>
#include <utility>

namespace atolld {

class ConfigPlaces {
 public:
  // `start` is the place for what was said nowhere: the file's first line.
  explicit ConfigPlaces(std::string start) : start_(std::move(start)) {}

  // An empty key: the section's heading.
  void Set(const std::string& section, const std::string& key, std::string place) {
    places_[{section, key}] = std::move(place);
  }

  bool Has(const std::string& section, const std::string& key) const {
    return places_.count({section, key}) > 0;
  }

  // Where the key was said, else its section's heading, else the start.
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
