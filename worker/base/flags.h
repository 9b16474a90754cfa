// Parses the worker's command line, which consists only of "--name value" and "--name=value".
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"

namespace atolld {

class Flags {
 public:
  // Fails with INVALID_ARGUMENT and a one-line message if a name is not in `known` (the message
  // suggests the most similar known name), if a flag is given twice or has no value, or if an
  // argument is not a flag.
  static absl::StatusOr<Flags> Parse(const std::vector<std::string>& arguments,
                                     const std::vector<std::string>& known);

  // Return the value of a flag, or `otherwise` if the flag is not given. They fail with
  // INVALID_ARGUMENT if the flag is not given and `otherwise` is nullopt, or if the value cannot be
  // parsed; the message names the flag.
  absl::StatusOr<std::string> Text(const std::string& name,
                                   absl::optional<std::string> otherwise = absl::nullopt) const;
  absl::StatusOr<uint64_t> Count(const std::string& name,
                                 absl::optional<uint64_t> otherwise = absl::nullopt) const;
  absl::StatusOr<double> Number(const std::string& name,
                                absl::optional<double> otherwise = absl::nullopt) const;

  // Returns the value of a flag that is "true" or "false", or false if the flag is not given. Fails
  // with INVALID_ARGUMENT for any other value.
  absl::StatusOr<bool> Truth(const std::string& name) const;

 private:
  std::map<std::string, std::string> values_;
};

}  // namespace atolld
