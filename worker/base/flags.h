// The worker's command line: "--name value" or "--name=value", nothing else.
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
  // INVALID_ARGUMENT, in one line: a name that is not among `known` (with the nearest that is), one
  // given twice or without a value, anything that is not a flag.
  static absl::StatusOr<Flags> Parse(const std::vector<std::string>& arguments,
                                     const std::vector<std::string>& known);

  // The value of a flag. Without `otherwise` the flag is required. INVALID_ARGUMENT names the flag.
  absl::StatusOr<std::string> Text(const std::string& name,
                                   absl::optional<std::string> otherwise = absl::nullopt) const;
  absl::StatusOr<uint64_t> Count(const std::string& name,
                                 absl::optional<uint64_t> otherwise = absl::nullopt) const;
  absl::StatusOr<double> Number(const std::string& name,
                                absl::optional<double> otherwise = absl::nullopt) const;

  // "true" or "false"; false where the flag is not there. Anything else is a slip.
  absl::StatusOr<bool> Truth(const std::string& name) const;

 private:
  std::map<std::string, std::string> values_;
};

}  // namespace atolld
