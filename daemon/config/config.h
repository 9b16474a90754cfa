// Reads the configuration file, which is the same for every kind of process, into a checked Config.
// The file is TOML with one section for each subject; the table of keys (config_table.h) says what
// it may hold.
//
// A file may hold any sections; each process checks all of them and uses those that it needs. Every
// error is one line: "FILE:LINE: what is wrong; what would be right". For a misspelt name it gives
// the nearest valid name. The functions block while they read files. They may be called from any
// thread.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "daemon/config/config_sections.h"
#include "daemon/config/config_table.h"
#include "daemon/config/config_value.h"

namespace atolld {

// A value that the command line gives instead of the file ("--rounds 3"). Messages name `option`.
struct ConfigOverride {
  std::string option;
  std::string section;
  std::string key;  // must exist
  RawValue value;
};

// Reads the file, applies the overrides, and checks the result. Fails with INVALID_ARGUMENT if the
// file does not exist, is not TOML, or breaks a rule. Relative paths become absolute: they start at
// the file's folder or, if the file is a link, at the folder of the link's target.
absl::StatusOr<Config> LoadConfig(const std::string& path, ConfigUse use,
                                  const std::vector<ConfigOverride>& overrides = {});

// Does the same for the text of a file. `origin` is the file's name in messages. Relative paths
// start at `folder`, which must be absolute.
absl::StatusOr<Config> ParseConfig(absl::string_view text, const std::string& origin,
                                   const std::string& folder, ConfigUse use,
                                   const std::vector<ConfigOverride>& overrides = {});

// Makes a run id from a file's name and the time, for a file that sets none:
// "quickstart-20250131-142501".
std::string MakeRunId(const std::string& path, absl::Time now);

}  // namespace atolld
