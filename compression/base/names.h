// Names: the one grammar of ids, what somebody who misspelt a name probably meant, and words of
// others as a line of ours.
//
// Pure functions, any thread.
#pragma once

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace atolld {

// Ids of runs, peers, regions and clusters: 1 to 64 characters of a-z, 0-9 and '-'.
bool IsValidId(absl::string_view id);
inline constexpr absl::string_view kIdGrammar = "1 to 64 characters of a-z, 0-9 and '-'";

// Letters to insert, remove, replace or swap with their neighbour to turn one name into the other.
size_t SpellingDistance(absl::string_view a, absl::string_view b);

// The candidate with the least distance (case does not count), the first among equals; empty
// if there is none. Names are compared by their first 64 bytes, so a hostile length costs nothing.
std::string NearestName(absl::string_view name, absl::Span<const std::string> candidates);

// One line for an error: `unknown codec "int9": did you mean "int8"? Known: fp32, int8`. `kind` is
// the noun. The name is escaped and cut, since it may come from the network.
std::string UnknownNameMessage(absl::string_view kind, absl::string_view name,
                               absl::Span<const std::string> candidates);

// The candidate nearest to `name`; empty if none is near enough to be a misspelling (more than a
// third of the longer name's letters differ): among the dozen keys of a section a wrong guess
// misleads. Of two that are equally near, the earlier.
std::string LikelyName(absl::string_view name, absl::Span<const std::string> candidates);

// The end of a message about an unknown name: "; did you mean 'steps'?", or "; valid are: a, b, c"
// when no candidate is near.
std::string Suggestion(absl::string_view name, absl::Span<const std::string> candidates);

// What is not for showing: control characters (C0, DEL and C1: a terminal obeys them), what turns
// the direction of text or ends a line in Unicode (a reader sees another text than is there), and
// bytes that are no UTF-8. The three functions below are the one place that knows.

// Text of another process or machine as a line of ours: line ends and tabs become spaces, what else
// is not for showing becomes '?', and it is cut at a character so that it has at most `most` bytes.
std::string OneLine(absl::string_view text, size_t most);

// The same for where it is written, to a log, a terminal or a table: nothing is lost, and what is
// not for showing stands there escaped: "\n", "\x1b", "\u202e". What is printable stays as it is,
// so doing it twice does no harm.
std::string Printable(absl::string_view text);
bool IsPrintable(absl::string_view text);

// The same for a text of several lines: line ends and tabs stay.
std::string PrintableText(absl::string_view text);

}  // namespace atolld
