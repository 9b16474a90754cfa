// Numbers, times and tables as people read them.
//
// Widths count code points, because every character that Atoll prints takes one column. Pure. May
// be called from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "compression/base/terminal.h"

namespace atolld {

// The number of hexadecimal digits of a digest that tables show.
inline constexpr size_t kShortDigest = 16;

std::string WithThousands(uint64_t number);  // "1,234,567"
std::string AboutTokens(double tokens);      // "85,000": two digits, since more would be noise
std::string FormatBytes(double bytes);       // "512 B", "1.2 kB", "3.4 MB": powers of ten
std::string FormatRate(double per_second);   // "950", "15.3k", "2.1M"
std::string FormatBitRate(double bytes_per_second);  // "4.1 Mbit/s"; "-" for 0, which means unknown
std::string FormatSeconds(double seconds);           // "2.5 s", "48 s", "3:07", "1:02:09"
std::string FormatFigure(double seconds);            // "0.0123 s", "184 s": three digits
std::string FormatShare(double share);               // "12 %" for 0.12, if predicted or set
std::string FormatPercent(double share);             // "12.3 %" for 0.123, if measured
std::string FormatRatio(double ratio);               // "4.0x", "101x"
// Returns a text such as "2.5000 s", or "-" for 0, which means not measured or unknown.
std::string FormatMeasured(double value, int decimals, absl::string_view unit = "");

size_t TextWidth(absl::string_view utf8);
// Returns the text cut to `width` columns. If something was cut off, the text ends in "…", or in
// ASCII in "..." if there is room.
std::string CutToWidth(absl::string_view utf8, size_t width, Charset charset);
std::string PadRight(absl::string_view utf8, size_t width);
std::string PadLeft(absl::string_view utf8, size_t width);

// Returns lines of aligned columns, two spaces apart. `alignment` has one character for each
// column: '>' aligns it right, and any other character left. Every row must have as many cells.
// Trailing spaces are left out. Cells are passed through Printable, so that no control character
// breaks the table.
std::vector<std::string> AlignColumns(std::vector<std::vector<std::string>> rows,
                                      absl::string_view alignment);

// Returns the command as it is typed in a shell, with quotes around arguments that have special
// characters.
std::string ShellCommand(const std::vector<std::string>& arguments);

}  // namespace atolld
