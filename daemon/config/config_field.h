// One key that a config file may hold: an entry of the table of all keys.
#pragma once

#include <string>
#include <vector>

#include "daemon/config/config_sections.h"
#include "daemon/config/config_value.h"

namespace atolld {

// Says whether the run's record, which never changes, holds the value of a key. With kInPart the
// record holds only a part of it, such as a digest, a weight or a kind; the key's `advice` says
// which.
enum class Recorded { kNo, kYes, kInPart };

struct ConfigField {
  std::string key;
  FieldValue value;
  Recorded recorded;
  std::string meaning;  // half a sentence that says what the key is
  std::string advice;   // sentences that say when to change it
  // The uses of a file that require the key. A required key has no default.
  std::vector<ConfigUse> needed_by = {};
  // The default in words, if it depends on other keys; otherwise empty.
  std::string follows = "";
  std::string section = "";

  std::string Name() const;  // such as "[inner] steps"
};

}  // namespace atolld
