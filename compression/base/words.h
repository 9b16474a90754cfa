// Helpers for the words of messages: nouns with their counts, and errors for text that is not a
// number.
//
// Pure. May be called from any thread.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace atolld {

// Returns the regular English plural unless `count` is 1: "peer", "peers"; "entry", "entries". In a
// phrase only the last word changes: "training tokens".
std::string Noun(uint64_t count, absl::string_view noun);

// Returns "1 peer", "3 peers" or "0 entries".
std::string Counted(uint64_t count, absl::string_view noun);
std::string Counted(uint64_t count, absl::string_view one, absl::string_view many);

// Parses a number of decimal digits. Fails with INVALID_ARGUMENT if `text` is anything else or out
// of range; the message says why: "'ten' is not a whole number", "'70000' is above 65535, the
// largest that is allowed".
absl::StatusOr<uint64_t> ParseWholeNumber(absl::string_view text, uint64_t least = 0,
                                          uint64_t most = std::numeric_limits<uint64_t>::max());

// Parses a finite number such as "0.5" or "1e-3". Fails with INVALID_ARGUMENT if `text` is anything
// else; the message says why.
absl::StatusOr<double> ParseNumber(absl::string_view text);

}  // namespace atolld
