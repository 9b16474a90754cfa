// NearestName: the valid name that a mistyped one most likely meant.
//
// It stands in compression/ because that is the lowest layer that refuses names, and a layer may
// only include those below it: optimizer/, the config and the command line all use this one.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace atolld {

// The candidate with the least edit distance (case does not count), the first among equals; empty
// if there is none. Names are compared by their first 64 bytes, so a hostile length costs nothing.
std::string NearestName(absl::string_view name, absl::Span<const std::string> candidates);

// One line for an error: `unknown codec "int9": did you mean "int8"? Known: fp32, int8`. `kind` is
// the noun. The name is escaped and cut, since it may come from the network.
std::string UnknownNameMessage(absl::string_view kind, absl::string_view name,
                               absl::Span<const std::string> candidates);

}  // namespace atolld
