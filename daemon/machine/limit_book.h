// LimitBook: the limits of the config's section [machine] by name, with the changes that `atoll
// limits set` has made.
//
// A limit that was set takes precedence over the config, and is kept in a file of its own. Kept()
// returns the text of that file, in the config's format, and Load() reads it. Pure. Used by one
// thread.
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

inline constexpr char kLimitsFile[] = "limits.toml";  // The file's name in the peer's folder.

class LimitBook {
 public:
  explicit LimitBook(const MachineConfig& configured);

  const MachineConfig& limits() const { return config_.machine; }

  // Sets limits, given as pairs of a key and a value in the config's format; a text may lack its
  // quotes. `until_restart` means that the values are not kept in the file. If a key or a value is
  // wrong, sets no limit and fails with INVALID_ARGUMENT; the message names the key and says what
  // is wrong.
  absl::Status Set(absl::Span<const std::pair<std::string, std::string>> values,
                   bool until_restart);

  // Call this when the config has been read again. Its values apply to the limits that were not
  // set.
  void Configure(const MachineConfig& configured);

  std::string Kept() const;
  // Sets the limits in the text of the file. Fails with INVALID_ARGUMENT if a line is wrong; the
  // message names the line.
  absl::Status Load(absl::string_view kept);

  // Returns all limits in the config's order, each with its value and origin.
  std::vector<v1::Limit> List();

 private:
  Config config_;  // Only its section [machine] is used.
  // The values of the file, by key, as they are written there.
  std::map<std::string, std::string> kept_;
  std::set<std::string> set_;  // The keys of all limits that were set, kept or not.
  // The keys whose values in the config differ from the default.
  std::set<std::string> configured_;
};

}  // namespace atolld
