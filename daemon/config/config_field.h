// One key that a config file may hold: an entry of the table of all keys.
#pragma once

#include <string>
#include <vector>

#include "daemon/config/config_sections.h"
#include "daemon/config/config_value.h"

namespace atolld {

// Whether the run's record, which never changes, holds the value. In part: a digest, a weight or a
// kind of it, as the advice says.
enum class Recorded { kNo, kYes, kInPart };

struct ConfigField {
  std::string key;
  FieldValue value;
  Recorded recorded;
  std::string meaning;  // half a sentence: what it is
  std::string advice;   // sentences: when to change it
  // Who cannot do without it. Such a key has no default.
  std::vector<ConfigUse> needed_by = {};
  // What the value is where the file does not say, if that follows from other keys.
  std::string follows = "";
  std::string section = "";

  std::string Name() const;  // "[inner] steps"
};

}  // namespace atolld
