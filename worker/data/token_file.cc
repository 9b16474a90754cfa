#include "worker/data/token_file.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "compression/base/status_macros.h"

namespace atolld {
namespace {

template <typename T>
void Copy(const uint8_t* from, absl::Span<int64_t> out) {
  for (int64_t& one : out) {
    T value;
    std::memcpy(&value, from, sizeof value);
    one = static_cast<int64_t>(value);
    from += sizeof value;
  }
}

}  // namespace

void TokenSpan::Read(uint64_t first, absl::Span<int64_t> out) const {
  const uint8_t* from = bytes_.subspan(first * width_, out.size() * width_).data();
  switch (width_) {
    case 1:
      return Copy<uint8_t>(from, out);
    case 2:
      return Copy<uint16_t>(from, out);
    case 4:
      return Copy<uint32_t>(from, out);
    default:
      return Copy<uint64_t>(from, out);
  }
}

uint64_t TokenSpan::Largest() const {
  uint64_t largest = 0;
  for (uint64_t at = FindAtLeast(1); at < size(); at += From(at).FindAtLeast(largest + 1)) {
    largest = this->at(at);
  }
  return largest;
}

uint64_t TokenSpan::at(uint64_t index) const {
  int64_t value = 0;
  Read(index, absl::MakeSpan(&value, 1));
  return static_cast<uint64_t>(value);
}

uint64_t TokenSpan::FindAtLeast(uint64_t limit) const {
  if (width_ < 8 && limit >> (8 * width_) != 0) return size();
  constexpr uint64_t kBlock = 4096;
  int64_t block[kBlock];
  for (uint64_t first = 0; first < size(); first += kBlock) {
    const uint64_t count = std::min(kBlock, size() - first);
    Read(first, absl::MakeSpan(block, count));
    const auto bad = std::find_if(
        block, block + count, [limit](int64_t id) { return static_cast<uint64_t>(id) >= limit; });
    if (bad != block + count) return first + static_cast<uint64_t>(bad - block);
  }
  return size();
}

namespace {

constexpr size_t kLlmcHeaderBytes = 1024;
constexpr uint32_t kLlmcGpt2 = 20240520;
constexpr uint32_t kLlmcLlama3 = 20240801;

absl::Status WrongTokens(const std::string& path, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("data: ", path, what));
}

// The tokens from byte `first` on; there must be some, and whole ones.
absl::StatusOr<TokenFile> TokensFrom(const std::string& path, MappedFile file, size_t first,
                                     uint32_t width) {
  TokenFile out;
  const absl::Span<const uint8_t> bytes = file.bytes().subspan(first);
  if (bytes.size() % width != 0) {
    return WrongTokens(path, absl::StrCat(" ends in the middle of a token: ", bytes.size(),
                                          " bytes from byte ", first, " on, ", width, " a token"));
  }
  out.tokens = TokenSpan(bytes, width);
  out.file = std::move(file);
  return out;
}

absl::StatusOr<TokenFile> OpenLlmc(const std::string& path, MappedFile file, uint32_t magic) {
  std::array<int32_t, 3> header;
  if (file.bytes().size() < kLlmcHeaderBytes) {
    return WrongTokens(path, absl::StrCat(" ends at byte ", file.bytes().size(),
                                          ", inside the header of ", kLlmcHeaderBytes));
  }
  std::memcpy(header.data(), file.bytes().data(), sizeof header);
  // The second magic number came with version 7 of the format, and others write 1.
  if (header[1] != 1 && !(magic == kLlmcLlama3 && header[1] == 7)) {
    return WrongTokens(path, absl::StrCat(" has version ", header[1], " at byte 4; it must be ",
                                          magic == kLlmcLlama3 ? "7 or 1" : "1"));
  }
  ASSIGN_OR_RETURN(TokenFile out,
                   TokensFrom(path, std::move(file), kLlmcHeaderBytes, magic == kLlmcGpt2 ? 2 : 4));
  if (header[2] < 0 || out.tokens.size() != static_cast<uint64_t>(header[2])) {
    return WrongTokens(path, absl::StrCat(" has ", out.tokens.size(), " tokens; the header says ",
                                          header[2], " at byte 8"));
  }
  return out;
}

// The text behind `'key':` in a .npy header, without spaces.
absl::string_view NpyField(absl::string_view header, absl::string_view key) {
  const size_t at = header.find(absl::StrCat("'", key, "':"));
  if (at == absl::string_view::npos) return "";
  absl::string_view rest = header.substr(at + key.size() + 3);
  while (!rest.empty() && rest[0] == ' ') rest.remove_prefix(1);
  return rest;
}

absl::StatusOr<TokenFile> OpenNpy(const std::string& path, MappedFile file) {
  const absl::string_view all(reinterpret_cast<const char*>(file.bytes().data()),
                              file.bytes().size());
  if (!absl::StartsWith(all, "\x93NUMPY") || all.size() < 12) {
    return WrongTokens(path, " does not begin with NumPy's magic number at byte 0");
  }
  const auto byte = [&](size_t i) { return static_cast<size_t>(static_cast<uint8_t>(all[i])); };
  const bool old = byte(6) == 1;
  const size_t start = old ? 10 : 12;
  const size_t length = byte(8) | byte(9) << 8 | (old ? 0 : byte(10) << 16 | byte(11) << 24);
  if (byte(6) < 1 || byte(6) > 3 || all.size() - start < length) {
    return WrongTokens(path, " has a broken NumPy header at byte 6");
  }
  const absl::string_view header = all.substr(start, length);
  const absl::string_view type = NpyField(header, "descr");
  static constexpr std::pair<const char*, uint32_t> kTypes[] = {
      {"'|u1'", 1}, {"'<u2'", 2}, {"'<u4'", 4}, {"'<i4'", 4}, {"'<u8'", 8}, {"'<i8'", 8}};
  uint32_t width = 0;
  for (const auto& [name, bytes] : kTypes) {
    if (absl::StartsWith(type, name)) width = bytes;
  }
  if (width == 0) {
    return WrongTokens(path, absl::StrCat(" has elements of type ", type.substr(0, type.find(',')),
                                          " at byte ", start, "; known: u1, u2, u4, i4, u8, i8"));
  }
  absl::string_view shape = NpyField(header, "shape");
  uint64_t count = 0;
  const size_t comma = shape.find(','), close = shape.find(')');
  if (!absl::StartsWith(shape, "(") || comma + 1 != close ||
      !absl::SimpleAtoi(shape.substr(1, comma - 1), &count)) {
    return WrongTokens(path, absl::StrCat(" has shape ", shape.substr(0, close + 1), " at byte ",
                                          start, "; it must have one dimension"));
  }
  ASSIGN_OR_RETURN(TokenFile out, TokensFrom(path, std::move(file), start + length, width));
  if (out.tokens.size() == count) return out;
  return WrongTokens(path, absl::StrCat(" has ", out.tokens.size(), " tokens; the header at byte ",
                                        start, " says ", count));
}

}  // namespace

absl::StatusOr<TokenFile> OpenTokenFile(const std::string& path) {
  ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
  if (file.bytes().empty()) return WrongTokens(path, " is empty");
  uint32_t magic = 0;
  if (file.bytes().size() >= sizeof magic) std::memcpy(&magic, file.bytes().data(), sizeof magic);
  absl::StatusOr<TokenFile> out;
  if (absl::EndsWith(path, ".npy")) {
    out = OpenNpy(path, std::move(file));
  } else if (magic == kLlmcGpt2 || magic == kLlmcLlama3) {
    out = OpenLlmc(path, std::move(file), magic);
  } else {
    out = TokensFrom(path, std::move(file), 0, sizeof(uint16_t));
  }
  if (out.ok() && out->tokens.size() == 0) return WrongTokens(path, " holds no tokens");
  return out;
}

absl::StatusOr<TokenFile> OpenBareTokens(const std::string& path, uint32_t width) {
  ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
  return TokensFrom(path, std::move(file), 0, width);
}

absl::Status CheckIds(const std::string& path, const TokenFile& file, uint64_t vocabulary) {
  const uint64_t bad = file.tokens.FindAtLeast(vocabulary);
  if (bad == file.tokens.size()) return absl::OkStatus();
  const auto header = static_cast<uint64_t>(file.tokens.bytes().data() - file.file.bytes().data());
  const uint64_t id = file.tokens.at(bad);
  const bool negative = file.tokens.width() == 8 && id >> 63 != 0;
  return WrongTokens(
      path, absl::StrCat(" has token ", negative ? "-" : "", negative ? ~id + 1 : id, " at byte ",
                         header + bad * file.tokens.width(), "; the vocabulary has ", vocabulary));
}

void AppendTokens(const std::vector<uint32_t>& tokens, uint32_t width, std::string* out) {
  const size_t start = out->size();
  out->resize(start + tokens.size() * width);
  char* to = out->data() + start;
  for (const uint32_t token : tokens) {
    for (uint32_t byte = 0; byte < width; ++byte) {
      *to++ = static_cast<char>(token >> (8 * byte));
    }
  }
}

}  // namespace atolld
