// Names: the grammar of ids, suggestions for misspelt names, and functions that make text from
// other processes safe for output.
//
// Pure. May be called from any thread.
#pragma once

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace atolld {

// Returns true if `id` may be the id of a run, peer, region or cluster: 1 to 64 characters of a-z,
// 0-9 and '-'.
bool IsValidId(absl::string_view id);
inline constexpr absl::string_view kIdGrammar = "1 to 64 characters of a-z, 0-9 and '-'";

// Returns the smallest number of steps that turn one name into the other. A step inserts, removes
// or replaces a letter, or swaps two neighbouring letters.
size_t SpellingDistance(absl::string_view a, absl::string_view b);

// Returns the candidate with the least distance from `name`, ignoring case; among equals, returns
// the first. Returns "" if there are no candidates. Only the first 64 bytes of a name are compared,
// so a very long name of an attacker costs no time.
std::string NearestName(absl::string_view name, absl::Span<const std::string> candidates);

// Returns one line for an error: `unknown codec "int9": did you mean "int8"? Known: fp32, int8`.
// `kind` is the noun ("codec"). The name is escaped and shortened, since it may come from the
// network.
std::string UnknownNameMessage(absl::string_view kind, absl::string_view name,
                               absl::Span<const std::string> candidates);

// Returns the candidate nearest to `name`; among equals, returns the first. Returns "" if more than
// a third of the longer name's letters differ for every candidate, because such a suggestion would
// be misleading.
std::string LikelyName(absl::string_view name, absl::Span<const std::string> candidates);

// Returns the end of a message about an unknown name: "; did you mean 'steps'?", or "; valid are:
// a, b, c" when no candidate is near.
std::string Suggestion(absl::string_view name, absl::Span<const std::string> candidates);

// The functions below decide which characters are unprintable. These are control characters (C0,
// DEL and C1), which a terminal would obey; Unicode characters that change the direction of text or
// end a line, with which a reader would see a different text; and bytes that are not UTF-8.

// Returns text from another process or machine as one line. Line ends and tabs become spaces, other
// unprintable characters become '?', and the text is cut between characters to at most `most`
// bytes.
std::string OneLine(absl::string_view text, size_t most);

// Returns text from another process or machine for a log, a terminal or a table. Unprintable
// characters are escaped, as in "\n", "\x1b" and "\u202e", so no information is lost. Printable
// text is not changed, so escaping a text twice does no harm.
std::string Printable(absl::string_view text);
bool IsPrintable(absl::string_view text);

// Like Printable, but keeps line ends and tabs, for a text of several lines.
std::string PrintableText(absl::string_view text);

}  // namespace atolld
