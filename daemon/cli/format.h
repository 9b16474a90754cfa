// Numbers, times and tables as people read them.
//
// Pure functions, any thread. Widths count code points: every character that we print takes one
// column.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "compression/base/terminal.h"

namespace atolld {

// Hexadecimal digits of a digest that tables show.
inline constexpr size_t kShortDigest = 16;

std::string WithThousands(uint64_t number);          // "1,234,567"
std::string AboutTokens(double tokens);              // "85,000": two figures, more would be chance
std::string FormatBytes(double bytes);               // "512 B", "1.2 kB", "3.4 MB": powers of ten
std::string FormatRate(double per_second);           // "950", "15.3k", "2.1M"
std::string FormatBitRate(double bytes_per_second);  // "4.1 Mbit/s"; "-" for 0: not known
std::string FormatSeconds(double seconds);           // "2.5 s", "48 s", "3:07", "1:02:09"
std::string FormatFigure(double seconds);            // "0.0123 s", "184 s": three figures
std::string FormatShare(double share);               // "12 %" of 0.12
std::string FormatRatio(double ratio);               // "4.0x", "101x"
// "2.5000 s"; "-" for 0: it was not measured, or is not known.
std::string FormatMeasured(double value, int decimals, absl::string_view unit = "");

size_t TextWidth(absl::string_view utf8);
// Cut to `width` columns, the end "…" (of ASCII "...", where it has room) if something was cut.
std::string CutToWidth(absl::string_view utf8, size_t width, Charset charset);
std::string PadRight(absl::string_view utf8, size_t width);
std::string PadLeft(absl::string_view utf8, size_t width);

// Lines of aligned columns, two spaces between. A column whose alignment is '>' stands right, else
// left; trailing spaces are left out. Every row has as many cells as `alignment` has characters. A
// cell is shown as Printable has it, so none is wider, or has more lines, than it seems.
std::vector<std::string> AlignColumns(std::vector<std::vector<std::string>> rows,
                                      absl::string_view alignment);

// A command as a shell takes it: arguments with odd characters quoted.
std::string ShellCommand(const std::vector<std::string>& arguments);

}  // namespace atolld
