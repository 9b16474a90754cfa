#include "compression/base/pasted.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace atolld {
namespace {

std::string Utf16(absl::string_view ascii, bool big_endian, bool mark) {
  std::string out;
  if (mark) out = big_endian ? "\xfe\xff" : "\xff\xfe";
  for (const char c : ascii) {
    if (big_endian) out.push_back('\0');
    out.push_back(c);
    if (!big_endian) out.push_back('\0');
  }
  return out;
}

TEST(CleanPasted, KeepsWhatWasMeant) {
  // Broken: a token or an address out of a mail or a chat would be refused although all of it is
  // there, and nobody sees why.
  const std::string plain = "lab.example:7070";
  const std::pair<std::string, std::string> cases[] = {
      {"", ""},
      {plain, plain},
      {"\xef\xbb\xbf" + plain + "\r\n", plain},          // a byte order mark
      {"\xc2\xa0" + plain + "\xe2\x80\xaf", plain},      // no-break spaces
      {"lab\xe2\x80\x8b.exa\xc2\xadmple:7070", plain},   // no width; a soft hyphen
      {"\xe2\x80\xaa" + plain + "\xe2\x80\xac", plain},  // marks of direction
      {"\xe2\x80\x9c"
       "a\xe2\x80\x9d \xe2\x80\x98"
       "b\xe2\x80\x99",
       "\"a\" 'b'"},
      {"a\xe2\x80\x91"
       "b\xe2\x80\x93"
       "c\xe2\x80\x94"
       "d",
       "a-b-c--d"},
      {"a\tb\nc\xe2\x80\xa8"
       "d",
       "a b c d"},
      {"\xc3\xa9t\xc3\xa9 'x' \"y\"", "\xc3\xa9t\xc3\xa9 'x' \"y\""},  // other text stays
      {"a\xff\xa0"
       "b",
       "a\xff\xa0"
       "b"},  // so do bytes that are no UTF-8
  };
  for (const auto& [pasted, meant] : cases) EXPECT_EQ(CleanPasted(pasted), meant);
  for (const bool big_endian : {false, true}) {
    for (const bool mark : {false, true}) {
      EXPECT_EQ(CleanPasted(Utf16(plain + "\r\n", big_endian, mark)), plain);
    }
  }
  // Outside the first plane, half a character, and an odd byte at the end.
  EXPECT_EQ(CleanPasted(std::string("\xff\xfe\x3d\xd8\x00\xde", 6)), "\xf0\x9f\x98\x80");
  EXPECT_EQ(CleanPasted(std::string("\xff\xfe\x3d\xd8x", 5)), "\xef\xbf\xbd\xef\xbf\xbd");
}

}  // namespace
}  // namespace atolld
