#include "daemon/experiment/partition/npy_file.h"

#include <algorithm>
#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "compression/base/names.h"

namespace atolld {
namespace {

constexpr absl::string_view kNpyMagic("\x93NUMPY", 6);
constexpr size_t kNpyAlign = 64;
constexpr uint64_t kLargestWidth = 1024;  // of an element
constexpr size_t kShownOfHeader = 80;

uint64_t LittleEndian(absl::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<uint8_t>(bytes[i]);
  return value;
}

absl::Status NotNpy(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("it is not a .npy file: ", what));
}

// Returns the text after "'key':" in the header; empty without it.
absl::string_view ValueOf(absl::string_view header, absl::string_view key) {
  const std::string quoted = absl::StrCat("'", key, "':");
  const size_t at = header.find(quoted);
  if (at == absl::string_view::npos) return "";
  return absl::StripLeadingAsciiWhitespace(header.substr(at + quoted.size()));
}

absl::Status ReadShape(absl::string_view value, NpyHeader* header) {
  const size_t end = value.find(')');
  if (!absl::StartsWith(value, "(") || end == absl::string_view::npos) {
    return NotNpy("its header has no shape");
  }
  for (const absl::string_view part : absl::StrSplit(value.substr(1, end - 1), ',')) {
    const absl::string_view word = absl::StripAsciiWhitespace(part);
    if (word.empty()) continue;
    uint64_t length = 0;
    if (!absl::SimpleAtoi(word, &length)) return NotNpy("its shape is not of whole numbers");
    header->shape.push_back(length);
  }
  return absl::OkStatus();
}

}  // namespace

uint64_t NpyHeader::row_bytes() const {
  uint64_t bytes = width;
  for (size_t i = 1; i < shape.size(); ++i) bytes *= shape[i];
  return bytes;
}

absl::StatusOr<NpyHeader> ReadNpyHeader(absl::string_view file) {
  if (!absl::StartsWith(file, kNpyMagic) || file.size() < 12)
    return NotNpy("its first bytes are not those of one");
  const size_t counted = file[6] == 1 ? 2 : 4;
  const uint64_t length = LittleEndian(file.substr(8, counted));
  NpyHeader header;
  header.data_at = 8 + counted + length;
  if (header.data_at > file.size()) return NotNpy("it ends within its header");
  const absl::string_view text = file.substr(8 + counted, length);
  if (!absl::StartsWith(ValueOf(text, "fortran_order"), "False")) {
    return absl::InvalidArgumentError(
        "its array is in Fortran's order; save it with numpy.ascontiguousarray");
  }
  const absl::string_view type = ValueOf(text, "descr");
  const size_t end = type.find('\'', 1);
  if (!absl::StartsWith(type, "'") || end == absl::string_view::npos || end < 4) {
    return absl::InvalidArgumentError(
        absl::StrCat("its elements are not of a simple type: ", OneLine(type, kShownOfHeader)));
  }
  header.type = std::string(type.substr(1, end - 1));
  if (!absl::SimpleAtoi(header.type.substr(2), &header.width) || header.width == 0 ||
      header.width > kLargestWidth || header.type[1] == 'U') {
    return absl::InvalidArgumentError(absl::StrCat("its elements are of the type ",
                                                   OneLine(header.type, kShownOfHeader),
                                                   ", which is not a type of numbers"));
  }
  const absl::Status shape = ReadShape(ValueOf(text, "shape"), &header);
  if (!shape.ok()) return shape;
  uint64_t left = file.size() - header.data_at;
  uint64_t needed = header.width;
  for (const uint64_t part : header.shape) {
    if (part != 0 && needed > std::numeric_limits<uint64_t>::max() / part) {
      return NotNpy("its shape is larger than any file");
    }
    needed *= part;
  }
  if (left != needed) {
    return NotNpy(absl::StrCat("its shape needs ", needed, " bytes, and there are ", left));
  }
  return header;
}

std::string NpyHeaderText(absl::string_view type, const std::vector<uint64_t>& shape) {
  std::string text = absl::StrCat("{'descr': '", type, "', 'fortran_order': False, 'shape': (",
                                  absl::StrJoin(shape, ", "), shape.size() == 1 ? ",), }" : "), }");
  const size_t head = kNpyMagic.size() + 4;
  text.append(kNpyAlign - 1 - (head + text.size()) % kNpyAlign, ' ');
  text.push_back('\n');
  std::string header(kNpyMagic);
  header.push_back(1);
  header.push_back(0);
  header.push_back(static_cast<char>(text.size() & 0xff));
  header.push_back(static_cast<char>(text.size() >> 8));
  return header + text;
}

absl::StatusOr<int64_t> NpyWholeNumber(absl::string_view type, absl::string_view at) {
  const bool is_signed = type.size() == 3 && type[1] == 'i';
  const bool is_unsigned = type.size() == 3 && type[1] == 'u';
  if ((!is_signed && !is_unsigned) || type[0] == '>') {
    return absl::InvalidArgumentError(
        absl::StrCat("labels are whole numbers in little-endian order, and these are of the type ",
                     OneLine(type, kShownOfHeader)));
  }
  const uint64_t value = LittleEndian(at);
  const size_t bits = 8 * at.size();
  if (is_signed && bits < 64 && (value >> (bits - 1)) != 0) {
    return static_cast<int64_t>(value | ~uint64_t{0} << bits);
  }
  return static_cast<int64_t>(value);
}

}  // namespace atolld
