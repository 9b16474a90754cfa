// The table of all keys that a config file may hold: a list of entries for each section.
//
// Parsing, checking, printing and docs/config.md all use this table, so that a key is added in one
// place. Pure. May be called from any thread. A field points into the Config that it was made for,
// which must outlive it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "daemon/config/config_field.h"
#include "daemon/config/config_sections.h"

namespace atolld {

// The part of the config that a section belongs to.
enum class ConfigPart { kRun, kPeer, kCoordinator, kEveryProcess };

struct ConfigSection {
  std::string name;
  ConfigPart part;
  std::string meaning;  // what the section is for, in sentences
  std::vector<ConfigField> fields;
};

// Returns every section with its keys, in the order of a printed file.
std::vector<ConfigSection> ConfigSections(Config& config);
// Returns the keys of all sections.
std::vector<ConfigField> ConfigFields(Config& config);

// A key of earlier releases that had only one legal value. A file may still give it with that
// value, which has no effect.
struct RetiredKey {
  absl::string_view section;
  absl::string_view key;
  int64_t value;
  absl::string_view why;  // the reason, in words that can follow "it is always 1, since "
};
const RetiredKey* FindRetiredKey(absl::string_view section, absl::string_view key);

}  // namespace atolld
