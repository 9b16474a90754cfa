#include "compression/base/terminal.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace atolld {
namespace {

Terminal Of(bool is_terminal, const std::map<std::string, std::string>& set) {
  return TerminalFor(is_terminal, [&](const char* name) -> const char* {
    const auto found = set.find(name);
    return found == set.end() ? nullptr : found->second.c_str();
  });
}

void ExpectPlain(const Terminal& terminal) {
  EXPECT_EQ(terminal.charset, Charset::kAscii);
  EXPECT_FALSE(terminal.redraws);
  EXPECT_FALSE(terminal.colours);
}

TEST(TerminalTest, OnlyAFullTerminalGetsMoreThanPlainLines) {
  // Broken: escape sequences and boxes would land in files, in dumb terminals, and with those who
  // asked for none.
  const Terminal full = Of(true, {{"TERM", "xterm"}, {"LANG", "C.UTF-8"}});
  EXPECT_EQ(full.charset, Charset::kUnicode);
  EXPECT_TRUE(full.redraws);
  EXPECT_TRUE(full.colours);

  ExpectPlain(Of(false, {{"TERM", "xterm"}, {"LANG", "C.UTF-8"}}));
  ExpectPlain(Of(true, {{"TERM", "dumb"}, {"LANG", "C.UTF-8"}}));
  ExpectPlain(Of(true, {{"LANG", "C.UTF-8"}}));
  ExpectPlain(Of(true, {{"TERM", "xterm"}, {"LANG", "C.UTF-8"}, {"NO_COLOR", "1"}}));
  EXPECT_TRUE(Of(true, {{"TERM", "xterm"}, {"NO_COLOR", ""}}).colours);  // empty is not set
}

TEST(TerminalTest, TheLocaleDecidesOnTheCharacters) {
  // Broken: a terminal in the C locale would show rubbish instead of bars and curves.
  const auto charset = [](std::map<std::string, std::string> set) {
    set["TERM"] = "xterm";
    const Terminal terminal = Of(true, set);
    EXPECT_TRUE(terminal.redraws);
    return terminal.charset;
  };
  EXPECT_EQ(charset({}), Charset::kAscii);
  EXPECT_EQ(charset({{"LANG", "C"}}), Charset::kAscii);
  EXPECT_EQ(charset({{"LANG", "POSIX"}}), Charset::kAscii);
  EXPECT_EQ(charset({{"LANG", "de_DE"}}), Charset::kAscii);  // ISO 8859-1
  EXPECT_EQ(charset({{"LANG", "de_DE.utf8"}}), Charset::kUnicode);
  EXPECT_EQ(charset({{"LANG", "de_DE.UTF-8"}, {"LC_ALL", "C"}}), Charset::kAscii);
  EXPECT_EQ(charset({{"LANG", "de_DE.UTF-8"}, {"LC_CTYPE", "C"}}), Charset::kAscii);
  EXPECT_EQ(charset({{"LANG", "C"}, {"LC_CTYPE", "C.UTF-8"}, {"LC_ALL", ""}}), Charset::kUnicode);
}

}  // namespace
}  // namespace atolld
