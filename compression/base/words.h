// Words of messages: nouns that are counted, and numbers that are no numbers.
//
// Pure functions, any thread.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace atolld {

// The regular English plural unless `count` is 1: "peer", "peers"; "entry", "entries". Of a phrase
// the last word changes: "training tokens".
std::string Noun(uint64_t count, absl::string_view noun);

// "1 peer", "3 peers", "0 entries".
std::string Counted(uint64_t count, absl::string_view noun);
std::string Counted(uint64_t count, absl::string_view one, absl::string_view many);

// Decimal digits alone. INVALID_ARGUMENT says what `text` is and what is wanted: "'ten' is not a
// whole number", "'70000' is above 65535, the largest that is allowed".
absl::StatusOr<uint64_t> ParseWholeNumber(absl::string_view text, uint64_t least = 0,
                                          uint64_t most = std::numeric_limits<uint64_t>::max());

// As people write it ("0.5", "1e-3"); neither infinite nor NaN. INVALID_ARGUMENT as above.
absl::StatusOr<double> ParseNumber(absl::string_view text);

}  // namespace atolld
