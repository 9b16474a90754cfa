// A config as text: the file itself, the same with all that the table says of each key, and the
// page docs/config.md. Pure functions, any thread.
#pragma once

#include <string>

#include "daemon/config/config_sections.h"

namespace atolld {

// The file that LoadConfig would read back as `config`, a line a key.
std::string FormatConfig(const Config& config);

// The same with all that the table says of each key. A key that the model's kind does not take, or
// that has no value and no default, is commented out.
std::string PrintConfig(const Config& config);

// Every key with its default. What has none, or follows from other keys, is commented out.
std::string PrintDefaultConfig();

// docs/config.md.
std::string ConfigMarkdown();

}  // namespace atolld
