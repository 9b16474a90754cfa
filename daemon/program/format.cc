#include "daemon/program/format.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compression/base/names.h"
#include "compression/base/number_words.h"

namespace atolld {
namespace {

bool BeginsCharacter(char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }

}  // namespace

std::string WithThousands(uint64_t number) {
  std::string digits = absl::StrCat(number);
  for (size_t i = digits.size(); i > 3; i -= 3) digits.insert(i - 3, ",");
  return digits;
}

std::string AboutTokens(double tokens) {
  constexpr double kMostDigits = 1e15;  // more are no use to anybody
  if (tokens >= kMostDigits) return absl::StrFormat("%.1e", tokens);
  uint64_t unit = 1;
  while (tokens / static_cast<double>(unit) >= 99.5) unit *= 10;
  const double units = std::max(tokens / static_cast<double>(unit), 0.0);
  return WithThousands(static_cast<uint64_t>(std::llround(units)) * unit);
}

std::string FormatBytes(double bytes) {
  const char* const units[] = {"B", "kB", "MB", "GB", "TB", "PB"};
  size_t unit = 0;
  while (bytes >= 999.5 && unit + 1 < std::size(units)) {
    bytes /= 1000;
    ++unit;
  }
  return unit == 0 || bytes >= 99.95 ? absl::StrFormat("%.0f %s", bytes, units[unit])
                                     : absl::StrFormat("%.1f %s", bytes, units[unit]);
}

// Uses bits, as line speeds are advertised.
std::string FormatBitRate(double bytes_per_second) {
  if (bytes_per_second <= 0) return "-";
  const double megabits = 8e-6 * bytes_per_second;
  return absl::StrFormat(megabits < 100 ? "%.3g Mbit/s" : "%.0f Mbit/s", megabits);
}

std::string FormatRate(double per_second) {
  if (per_second >= 999500) return absl::StrFormat("%.1fM", per_second / 1e6);
  if (per_second >= 999.5) return absl::StrFormat("%.1fk", per_second / 1e3);
  return absl::StrFormat("%.0f", per_second);
}

std::string FormatSeconds(double seconds) {
  if (seconds < 9.95) return absl::StrFormat("%.1f s", std::max(seconds, 0.0));
  const int64_t whole = std::llround(std::clamp(seconds, 0.0, 1e12));
  if (whole < 60) return absl::StrCat(whole, " s");
  if (whole < 3600) return absl::StrFormat("%d:%02d", whole / 60, whole % 60);
  return absl::StrFormat("%d:%02d:%02d", whole / 3600, whole / 60 % 60, whole % 60);
}

std::string FormatFigure(double seconds) { return absl::StrFormat("%.3g s", seconds); }

std::string FormatShare(double share) { return absl::StrFormat("%.0f %%", 100 * share); }

std::string FormatPercent(double share) { return absl::StrCat(NumberText(100 * share, 1), " %"); }

std::string FormatRatio(double ratio) {
  return ratio >= 99.95 ? absl::StrFormat("%.0fx", ratio) : absl::StrFormat("%.1fx", ratio);
}

size_t TextWidth(absl::string_view utf8) {
  return static_cast<size_t>(std::count_if(utf8.begin(), utf8.end(), BeginsCharacter));
}

std::string CutToWidth(absl::string_view utf8, size_t width, Charset charset) {
  if (TextWidth(utf8) <= width) return std::string(utf8);
  absl::string_view mark = charset == Charset::kUnicode ? "…" : "...";
  if (TextWidth(mark) > width) mark = "";
  const size_t most = width - TextWidth(mark);
  size_t end = 0;
  size_t kept = 0;
  while (end < utf8.size()) {
    if (BeginsCharacter(utf8[end]) && kept++ == most) break;
    ++end;
  }
  return absl::StrCat(utf8.substr(0, end), mark);
}

std::string PadRight(absl::string_view utf8, size_t width) {
  const size_t present = TextWidth(utf8);
  return absl::StrCat(utf8, std::string(width > present ? width - present : 0, ' '));
}

std::string PadLeft(absl::string_view utf8, size_t width) {
  const size_t present = TextWidth(utf8);
  return absl::StrCat(std::string(width > present ? width - present : 0, ' '), utf8);
}

std::vector<std::string> AlignColumns(std::vector<std::vector<std::string>> rows,
                                      absl::string_view alignment) {
  for (auto& row : rows) {
    for (std::string& cell : row) cell = Printable(cell);
  }
  std::vector<size_t> widths(alignment.size(), 0);
  for (const auto& row : rows) {
    for (size_t i = 0; i < widths.size(); ++i) widths[i] = std::max(widths[i], TextWidth(row[i]));
  }
  std::vector<std::string> lines;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < widths.size(); ++i) {
      absl::StrAppend(
          &line, i == 0 ? "" : "  ",
          alignment[i] == '>' ? PadLeft(row[i], widths[i]) : PadRight(row[i], widths[i]));
    }
    lines.emplace_back(absl::StripTrailingAsciiWhitespace(line));
  }
  return lines;
}

std::string ShellCommand(const std::vector<std::string>& arguments) {
  std::string command;
  for (const std::string& argument : arguments) {
    const bool plain =
        !argument.empty() && std::all_of(argument.begin(), argument.end(), [](char c) {
          return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
                 absl::string_view("-_./:=,+@%").find(c) != absl::string_view::npos;
        });
    if (!command.empty()) command.push_back(' ');
    if (plain) {
      command += argument;
      continue;
    }
    command.push_back('\'');
    for (const char c : argument) command += c == '\'' ? std::string("'\\''") : std::string(1, c);
    command.push_back('\'');
  }
  return command;
}

std::string FormatMeasured(double value, int decimals, absl::string_view unit) {
  return value == 0 ? "-" : absl::StrCat(NumberText(value, decimals), unit);
}

}  // namespace atolld
