// The rules between the keys of a config, and the keys that a process cannot do without.
//
// ConfigPlaces remembers where each value was said, so that a broken rule is shown where it can be
// mended.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "daemon/config/config.h"
#include "daemon/config/config_fields.h"

namespace atolld {

class ConfigPlaces {
 public:
  // `start` is the place for what was said nowhere: the file's first line.
  explicit ConfigPlaces(std::string start) : start_(std::move(start)) {}

  // An empty key: the section's heading.
  void Set(const std::string& section, const std::string& key, std::string place);

  // Where the key was said, else its section's heading, else the start.
  const std::string& Of(const std::string& section, const std::string& key) const;
  bool Has(const std::string& section, const std::string& key) const;

 private:
  std::string start_;
  std::map<std::pair<std::string, std::string>, std::string> places_;
};

// INVALID_ARGUMENT "PLACE: what is wrong". Paths in `config` are still as written; relative ones
// start at `folder`.
absl::Status CheckConfigRules(const Config& config, const std::vector<ConfigField>& fields,
                              ConfigUse use, const ConfigPlaces& places, const std::string& folder);

}  // namespace atolld
