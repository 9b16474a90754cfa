// LimitBook: the limits of [machine] by name - as the config has them, and as `atoll limits set`
// has changed them since.
//
// What was set precedes the config, and a file of its own keeps it: Kept() and Load() are that
// file's text, lines as a config has them. Pure; one thread.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "atoll/v1/machine.pb.h"
#include "daemon/config/config_sections.h"

namespace atolld {

inline constexpr char kLimitsFile[] = "limits.toml";  // in the peer's folder

class LimitBook {
 public:
  explicit LimitBook(const MachineConfig& configured);

  const MachineConfig& limits() const { return config_.machine; }

  // Pairs of a key and its value as the config writes it; a text may lack its quotes. All or none:
  // INVALID_ARGUMENT names the key that is wrong, and how.
  absl::Status Set(absl::Span<const std::pair<std::string, std::string>> values,
                   bool until_restart);

  // The config was read again: these hold wherever nothing was set.
  void Configure(const MachineConfig& configured);

  std::string Kept() const;
  // INVALID_ARGUMENT names the line.
  absl::Status Load(absl::string_view kept);

  // All, in the config's order.
  std::vector<v1::Limit> List();

 private:
  Config config_;                            // of which [machine] alone counts
  std::map<std::string, std::string> kept_;  // values as they are written
  std::set<std::string> set_;                // kept or not
  std::set<std::string> configured_;         // that differ from the default in the config
};

}  // namespace atolld
