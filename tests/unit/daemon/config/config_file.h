// ConfigFile: a config file in a temporary folder, which is removed with the object.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_replace.h"
#include "daemon/config/config.h"

namespace atolld {

class ConfigFile {
 public:
  ConfigFile() {
    std::string pattern = (std::filesystem::temp_directory_path() / "atoll-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
  }
  ~ConfigFile() { std::filesystem::remove_all(folder_); }
  ConfigFile(const ConfigFile&) = delete;
  ConfigFile& operator=(const ConfigFile&) = delete;

  std::string Path(const std::string& name) const { return (folder_ / name).string(); }

  // Returns its path.
  std::string Write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return Path(name);
  }

  // Loads a config from the file x.toml with this text.
  absl::StatusOr<Config> Load(const std::string& text, ConfigUse use = ConfigUse::kAny,
                              const std::vector<ConfigOverride>& overrides = {}) {
    return LoadConfig(Write("x.toml", text), use, overrides);
  }

  // Returns the error without the folder's name, "x.toml:2: ...", or "" if there is none.
  std::string ErrorOf(const std::string& text, ConfigUse use = ConfigUse::kAny,
                      const std::vector<ConfigOverride>& overrides = {}) {
    const absl::StatusOr<Config> config = Load(text, use, overrides);
    if (config.ok()) return "";
    EXPECT_EQ(config.status().code(), absl::StatusCode::kInvalidArgument);
    return absl::StrReplaceAll(config.status().message(), {{folder_.string() + "/", ""}});
  }

 private:
  std::filesystem::path folder_;
};

}  // namespace atolld
