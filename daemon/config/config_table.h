// The table of all keys that a config file may hold: one list a section, an entry a key.
//
// Parsing, checking, printing and docs/config.md all go over this one table, so that a key is added
// in one place. Pure functions, any thread; a field borrows the Config that it was made for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "daemon/config/config_field.h"
#include "daemon/config/config_sections.h"

namespace atolld {

// Whose part of the config a section is.
enum class ConfigPart { kRun, kPeer, kCoordinator, kEveryProcess };

struct ConfigSection {
  std::string name;
  ConfigPart part;
  std::string meaning;  // sentences
  std::vector<ConfigField> fields;
};

// Every section with its keys, in the order in which they are written.
std::vector<ConfigSection> ConfigSections(Config& config);
// The keys of all of them.
std::vector<ConfigField> ConfigFields(Config& config);

// A key that files of earlier releases hold and that had one legal value: it may still stand in a
// file with that value, and means nothing.
struct RetiredKey {
  absl::string_view section;
  absl::string_view key;
  int64_t value;
  absl::string_view why;  // completes "it is always 1, since "
};
const RetiredKey* FindRetiredKey(absl::string_view section, absl::string_view key);

}  // namespace atolld
