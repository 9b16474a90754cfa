// A config as text: the file itself, the file with the table's comments on each key, and the page
// docs/config.md. Pure. May be called from any thread.
#pragma once

#include <string>

#include "daemon/config/config_sections.h"

namespace atolld {

// Returns the file that LoadConfig would read back as `config`, one key on each line.
std::string FormatConfig(const Config& config);

// Returns the same file with comments that hold everything that the table says about each key. A
// key that the model's kind does not take, or that has neither a value nor a default, is commented
// out.
std::string PrintConfig(const Config& config);

// Returns a file with every key at its default. A key that has no default, or whose default depends
// on other keys, is commented out.
std::string PrintDefaultConfig();

// Returns the text of docs/config.md.
std::string ConfigMarkdown();

}  // namespace atolld
