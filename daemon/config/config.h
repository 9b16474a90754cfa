// The one configuration file of every process: TOML, a section an idea, read over the table of keys
// (config_table.h) into a checked Config.
//
// A file may hold any sections; each process reads what it needs and checks all. Every error is one
// line: "FILE:LINE: what is wrong; what would be right", with the nearest name for a misspelt one.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "daemon/config/config_sections.h"
#include "daemon/config/config_table.h"

namespace atolld {

// A value that the command line gives instead of the file ("--rounds 3"). Messages name the option.
struct ConfigOverride {
  std::string option;
  std::string section;
  std::string key;  // must exist
  std::variant<int64_t, std::string, double, bool> value;
};

// INVALID_ARGUMENT: the file does not exist, is no TOML, or breaks a rule (overrides counted in).
// Relative paths come back absolute; they start at the file's folder, of a link's at that of the
// file that it leads to.
absl::StatusOr<Config> LoadConfig(const std::string& path, ConfigUse use,
                                  const std::vector<ConfigOverride>& overrides = {});

// The same of a file's text. Messages call it `origin`; relative paths start at `folder`, which is
// absolute.
absl::StatusOr<Config> ParseConfig(absl::string_view text, const std::string& origin,
                                   const std::string& folder, ConfigUse use,
                                   const std::vector<ConfigOverride>& overrides = {});

// A run id for a file without one: its name and the time, "quickstart-20250131-142501".
std::string MakeRunId(const std::string& path, absl::Time now);

}  // namespace atolld
