// The name that somebody probably meant: for "did you mean" in messages about misspelt keys, verbs
// and options.
//
// Unlike compression's NearestName, which always names the nearest, nothing is suggested here that
// is not near: a section has a dozen keys, a wrong guess misleads. Pure functions, any thread.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace atolld {

// Letters to insert, remove, replace or swap with their neighbour to turn one name into the other.
size_t SpellingDistance(absl::string_view a, absl::string_view b);

// The candidate nearest to `name`; empty if none is near enough to be a misspelling (more than a
// third of the longer name's letters differ). Of two that are equally near, the earlier.
std::string LikelyName(absl::string_view name, const std::vector<std::string>& candidates);

// The end of a message about an unknown name: "; did you mean 'steps'?", or "; valid are: a, b, c"
// when no candidate is near.
std::string Suggestion(absl::string_view name, const std::vector<std::string>& candidates);

}  // namespace atolld
