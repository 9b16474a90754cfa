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
#include "compression/base/words.h"

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

TokenSpan::TokenSpan(absl::Span<const uint8_t> bytes, uint32_t width) : width_(width) {
  if (bytes.empty()) return;
  size_ = bytes.size() / width;
  parts_ = {bytes};
  ends_ = {size_};
}

void TokenSpan::Append(const TokenSpan& more) {
  if (size_ == 0) width_ = more.width_;
  for (const absl::Span<const uint8_t> part : more.parts_) {
    size_ += part.size() / width_;
    parts_.push_back(part);
    ends_.push_back(size_);
  }
}

TokenSpan TokenSpan::Cut(uint64_t first, uint64_t count) const {
  TokenSpan cut({}, width_);
  for (size_t i = 0; i < parts_.size() && count > 0; ++i) {
    const uint64_t held = parts_[i].size() / width_;
    const uint64_t taken = std::min(held - std::min(first, held), count);
    if (taken > 0) cut.Append({parts_[i].subspan(first * width_, taken * width_), width_});
    first -= std::min(first, held);
    count -= taken;
  }
  return cut;
}

void TokenSpan::Read(uint64_t first, absl::Span<int64_t> out) const {
  auto part =
      static_cast<size_t>(std::upper_bound(ends_.begin(), ends_.end(), first) - ends_.begin());
  for (; !out.empty(); ++part) {
    const uint64_t begin = part == 0 ? 0 : ends_[part - 1];
    const auto count = std::min<uint64_t>(out.size(), ends_[part] - first);
    const uint8_t* from = parts_[part].data() + (first - begin) * width_;
    const absl::Span<int64_t> to = out.first(count);
    switch (width_) {
      case 1:
        Copy<uint8_t>(from, to);
        break;
      case 2:
        Copy<uint16_t>(from, to);
        break;
      case 4:
        Copy<uint32_t>(from, to);
        break;
      default:
        Copy<uint64_t>(from, to);
    }
    out.remove_prefix(count);
    first += count;
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

// Returns the tokens from byte `first` on; there must be at least one, and only whole ones.
absl::StatusOr<TokenFile> TokensFrom(const std::string& path, MappedFile file, size_t first,
                                     uint32_t width) {
  TokenFile out;
  const absl::Span<const uint8_t> bytes = file.bytes().subspan(first);
  if (bytes.size() % width != 0) {
    return WrongTokens(
        path, absl::StrCat(" ends in the middle of a token: ", Counted(bytes.size(), "byte"),
                           " from byte ", first, " on, ", width, " a token"));
  }
  out.tokens = TokenSpan(bytes, width);
  out.file = std::move(file);
  return out;
}

// Fails if the header names another width than the user.
absl::Status CheckWidth(const std::string& path, uint32_t header, uint32_t said) {
  if (said == 0 || said == header) return absl::OkStatus();
  return WrongTokens(path, absl::StrCat(" has ids of ", Counted(header, "byte"),
                                        ", as its header says, and "
                                        "width is ",
                                        said, "; leave width out"));
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
    return WrongTokens(path, absl::StrCat(" has ", Counted(out.tokens.size(), "token"),
                                          "; the header says ", header[2], " at byte 8"));
  }
  return out;
}

// Returns the text after `'key':` in a .npy header, without spaces.
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
  if (absl::StartsWith(type, "'>")) {
    return WrongTokens(
        path, absl::StrCat(" is big-endian, type ", type.substr(0, type.find(',')), " at byte ",
                           start, "; save it with the type '<", type.substr(2, 2), "'"));
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
    return WrongTokens(path,
                       absl::StrCat(" has shape ", shape.substr(0, close + 1), " at byte ", start,
                                    "; it must have one dimension: save array.reshape(-1)"));
  }
  ASSIGN_OR_RETURN(TokenFile out, TokensFrom(path, std::move(file), start + length, width));
  if (out.tokens.size() == count) return out;
  return WrongTokens(path, absl::StrCat(" has ", Counted(out.tokens.size(), "token"),
                                        "; the header at byte ", start, " says ", count));
}

}  // namespace

namespace {

constexpr char kNumpyMagic[] = "\x93NUMPY";
constexpr uint64_t kMostOf16Bits = 65536;

// Returns the width that ids of 4 or 8 bytes seem to have when they are read as ids of 2: each is
// followed by its high parts, which are 0 or, with vocabularies up to 2^21, nearly 0. Returns 0 if
// they do not look like that.
uint32_t WidthByLook(const TokenSpan& ids) {
  constexpr uint64_t kLook = 65536, kFewest = 16;
  constexpr int64_t kHighest = 32, kLow = 256;
  std::vector<int64_t> some(std::min(ids.size(), kLook) / 4 * 4);
  if (some.size() < kFewest) return 0;
  ids.Read(0, absl::MakeSpan(some));
  std::array<int64_t, 4> most{};  // at each place of four
  for (size_t i = 0; i < some.size(); ++i) most[i % 4] = std::max(most[i % 4], some[i]);
  const int64_t high = std::max(most[1], most[3]), low = std::max(most[0], most[2]);
  if (low == 0 || (high > 0 && (high >= kHighest || low < kLow))) return 0;
  return most[2] == 0 && most[3] == 0 ? 8 : 4;
}

absl::StatusOr<TokenFile> OpenBare(const std::string& path, MappedFile file,
                                   const TokenFileOptions& options) {
  if (options.width != 0) return TokensFrom(path, std::move(file), 0, options.width);
  if (options.vocabulary > kMostOf16Bits) {
    return WrongTokens(
        path, absl::StrCat(" is of bare ids, which do not say how wide they are, and a vocabulary "
                           "of ",
                           options.vocabulary,
                           " needs more than 16 bits; set [data] width (--width) to 4 if they are "
                           "of 32 bits, or to 2 if all of this file are below 65,536"));
  }
  ASSIGN_OR_RETURN(TokenFile out, TokensFrom(path, std::move(file), 0, sizeof(uint16_t)));
  const uint32_t width = WidthByLook(out.tokens);
  if (width == 0) return out;
  return WrongTokens(
      path, absl::StrCat(" read as ids of 16 bits has 0, or nearly so, as every second id: uint",
                         8 * width, "? Set [data] width (--width) to ", width,
                         ", or to 2 if 16 bits are right"));
}

}  // namespace

absl::StatusOr<TokenFile> OpenTokenFile(const std::string& path, const TokenFileOptions& options) {
  ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
  if (file.bytes().empty()) return WrongTokens(path, " is empty");
  const absl::string_view head(reinterpret_cast<const char*>(file.bytes().data()),
                               std::min<size_t>(file.bytes().size(), sizeof kNumpyMagic - 1));
  const bool numpy = head == kNumpyMagic;
  uint32_t magic = 0;
  if (file.bytes().size() >= sizeof magic) std::memcpy(&magic, file.bytes().data(), sizeof magic);
  absl::StatusOr<TokenFile> out;
  if (numpy) {
    out = OpenNpy(path, std::move(file));
  } else if (magic == kLlmcGpt2 || magic == kLlmcLlama3) {
    out = OpenLlmc(path, std::move(file), magic);
  } else if (absl::EndsWith(path, ".npy") && options.width == 0) {
    return WrongTokens(
        path,
        " does not begin with NumPy's magic number at byte 0; if it is of bare ids, "
        "as np.memmap writes them, set [data] width (--width) to 2 for uint16 or to 4 "
        "for uint32");
  } else {
    out = OpenBare(path, std::move(file), options);
  }
  if (out.ok() && out->tokens.size() == 0) return WrongTokens(path, " holds no tokens");
  if (out.ok()) RETURN_IF_ERROR(CheckWidth(path, out->tokens.width(), options.width));
  return out;
}

absl::StatusOr<TokenFile> OpenBareTokens(const std::string& path, uint32_t width) {
  ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
  return TokensFrom(path, std::move(file), 0, width);
}

absl::Status CheckIds(const std::string& path, const TokenFile& file, uint64_t vocabulary) {
  const uint64_t bad = file.tokens.FindAtLeast(vocabulary);
  if (bad == file.tokens.size()) return absl::OkStatus();
  const auto header =
      static_cast<uint64_t>(file.tokens.parts()[0].data() - file.file.bytes().data());
  const uint64_t id = file.tokens.at(bad);
  const bool negative = file.tokens.width() == 8 && id >> 63 != 0;
  const bool may_be_wider = header == 0 && file.tokens.width() == sizeof(uint16_t);
  return WrongTokens(
      path, absl::StrCat(" has token ", negative ? "-" : "", negative ? ~id + 1 : id, " at byte ",
                         header + bad * file.tokens.width(), "; the vocabulary has ", vocabulary,
                         may_be_wider ? "; read as bare ids of 16 bits: uint32? Then set [data] "
                                        "width (--width) to 4"
                                      : ""));
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
