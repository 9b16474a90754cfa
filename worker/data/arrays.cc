#include "worker/data/arrays.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "compression/base/status_macros.h"
#include "worker/base/file_io.h"

namespace atolld {
namespace {

constexpr char kMagic[] = "\x93NUMPY";
constexpr size_t kMagicBytes = 6;
constexpr char kTensors[] = ".safetensors";
constexpr uint64_t kMostValues = uint64_t{1} << 50;

absl::Status WrongArrays(const std::string& path, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("data: ", path, " ", what));
}

// Returns what follows `key` in the header's dictionary, up to one of `end`.
absl::optional<absl::string_view> ValueOf(absl::string_view header, absl::string_view key,
                                          absl::string_view begin, absl::string_view end) {
  size_t at = header.find(absl::StrCat("'", key, "':"));
  if (at == absl::string_view::npos) return absl::nullopt;
  at = header.find(begin, at + key.size() + 3);
  if (at == absl::string_view::npos) return absl::nullopt;
  at += begin.size();
  const size_t stop = header.find(end, at);
  if (stop == absl::string_view::npos) return absl::nullopt;
  return header.substr(at, stop - at);
}

// Parses numpy's format 1.0 to 3.0: magic, two bytes of version, the header's length, the header.
absl::Status Parse(const std::string& path, absl::Span<const uint8_t> bytes, Array* array) {
  const absl::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (bytes.size() < kMagicBytes + 6 ||
      text.substr(0, kMagicBytes) != absl::string_view(kMagic, kMagicBytes)) {
    return WrongArrays(path, "is not a .npy file");
  }
  const bool old = bytes[kMagicBytes] == 1;
  size_t length = bytes[8] + size_t{256} * bytes[9];
  if (!old) length += (size_t{bytes[10]} << 16) + (size_t{bytes[11]} << 24);
  const size_t start = old ? 10 : 12;
  if (length > bytes.size() - start) return WrongArrays(path, "ends inside its header");
  const absl::string_view header = text.substr(start, length);
  const auto type = ValueOf(header, "descr", "'", "'");
  const auto fortran = ValueOf(header, "fortran_order", " ", ",");
  const auto shape = ValueOf(header, "shape", "(", ")");
  if (!type || !fortran || !shape)
    return WrongArrays(path, "has a header that is not in numpy's format");
  if (*fortran != "False")
    return WrongArrays(path, "is stored column by column; save it in C order");
  array->type = std::string(*type);
  const size_t size = SizeOfType(array->type);
  if (size == 0) {
    return WrongArrays(path, absl::StrCat("is of type ", array->type,
                                          "; it must be <f4, <f8, <i4, <i8, |u1 or |b1"));
  }
  uint64_t values = 1;
  for (const absl::string_view part : absl::StrSplit(*shape, ',', absl::SkipWhitespace())) {
    int64_t dimension = 0;
    if (!absl::SimpleAtoi(part, &dimension) || dimension < 0 ||
        (dimension > 0 && values > kMostValues / static_cast<uint64_t>(dimension))) {
      return WrongArrays(path, absl::StrCat("has the shape (", *shape, ")"));
    }
    values *= static_cast<uint64_t>(dimension);
    array->shape.push_back(dimension);
  }
  if (array->shape.empty()) return WrongArrays(path, "is a single value; a row a sample is needed");
  array->bytes = bytes.subspan(start + length);
  if (array->bytes.size() != values * size) {
    return WrongArrays(
        path, absl::StrCat("has ", array->bytes.size(), " bytes of values; its shape (", *shape,
                           ") of ", array->type, " needs ", values * size));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> FilesOf(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) return std::vector<std::string>{path};
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(path, error)) {
    const std::filesystem::path extension = entry.path().extension();
    if (entry.path().filename().string()[0] == '.') continue;  // hidden, as ".x.npy" is
    if (extension == ".npy" || extension == kTensors) files.push_back(entry.path().string());
  }
  if (error || files.empty()) {
    return absl::NotFoundError(
        absl::StrCat("data: ", path, " holds no .npy and no .safetensors file"));
  }
  std::sort(files.begin(), files.end());
  return files;
}

// Returns numpy's name of a safetensors type; empty if the type is not supported.
std::string TypeOf(const std::string& dtype) {
  static constexpr std::pair<const char*, const char*> kTypes[] = {{"F32", "<f4"}, {"F64", "<f8"},
                                                                   {"I32", "<i4"}, {"I64", "<i8"},
                                                                   {"U8", "|u1"},  {"BOOL", "|b1"}};
  for (const auto& [theirs, ours] : kTypes) {
    if (dtype == theirs) return ours;
  }
  return "";
}

}  // namespace

size_t SizeOfType(const std::string& type) {
  if (type == "|u1" || type == "|b1") return 1;
  if (type == "<f4" || type == "<i4") return 4;
  return type == "<f8" || type == "<i8" ? 8 : 0;
}

absl::StatusOr<std::unique_ptr<Arrays>> Arrays::Open(const std::string& path,
                                                     double validation_fraction, bool named) {
  std::unique_ptr<Arrays> arrays(new Arrays);
  ASSIGN_OR_RETURN(const std::vector<std::string> files, FilesOf(path));
  for (const std::string& file : files) {
    RETURN_IF_ERROR(absl::EndsWith(file, kTensors) ? arrays->AddTensors(file)
                                                   : arrays->AddNpy(file));
  }
  RETURN_IF_ERROR(arrays->CheckNames(path));
  const Array& first = arrays->arrays_.front();
  for (const Array& array : arrays->arrays_) {
    if (array.shape[0] == first.shape[0]) continue;
    return WrongArrays(
        path, absl::StrCat("has ", array.shape[0], " rows of ", array.name, " and ", first.shape[0],
                           " of ", first.name, "; a row is a sample"));
  }
  if (!(validation_fraction >= 0 && validation_fraction <= 0.5)) {
    return absl::InvalidArgumentError(
        absl::StrCat("data.validation_fraction is ", validation_fraction, "; it must be 0-0.5"));
  }
  arrays->rows_ = static_cast<uint64_t>(first.shape[0]);
  arrays->train_rows_ =
      static_cast<uint64_t>(static_cast<double>(arrays->rows_) * (1.0 - validation_fraction));
  // A party with one row trains on it.
  if (!named && arrays->rows_ > 0) arrays->train_rows_ = std::max<uint64_t>(1, arrays->train_rows_);
  if (arrays->train_rows_ == 0) return WrongArrays(path, "has no row to train on");
  if (named) RETURN_IF_ERROR(arrays->Digest());
  return arrays;
}

absl::Status Arrays::AddTensors(const std::string& path) {
  absl::StatusOr<std::unique_ptr<SafetensorsFile>> opened = SafetensorsFile::Open(path);
  RETURN_IF_ERROR(Annotate(opened.status(), "data"));
  const SafetensorsFile& file = *files_.emplace_back(*std::move(opened));
  if (file.tensors().empty()) return WrongArrays(path, "holds no tensor");
  for (const auto& [name, tensor] : file.tensors()) {
    const std::string shown = absl::CEscape(name);
    Array array;
    array.name = name;
    array.type = TypeOf(tensor.dtype);
    if (array.type.empty()) {
      return WrongArrays(path, absl::StrCat("has tensor ", shown, " of type ", tensor.dtype,
                                            "; it must be F32, F64, I32, I64, U8 or BOOL"));
    }
    if (tensor.shape.empty()) {
      return WrongArrays(
          path, absl::StrCat("has tensor ", shown, ", a single value; a row a sample is needed"));
    }
    const auto long_one = [](uint64_t size) { return size > kMostValues; };
    if (std::any_of(tensor.shape.begin(), tensor.shape.end(), long_one)) {
      return WrongArrays(path, absl::StrCat("has tensor ", shown, " of the shape [",
                                            absl::StrJoin(tensor.shape, ", "), "]"));
    }
    array.shape.assign(tensor.shape.begin(), tensor.shape.end());
    array.bytes = file.bytes(tensor);
    if (reinterpret_cast<uintptr_t>(array.bytes.data()) % SizeOfType(array.type) != 0) {
      std::vector<uint64_t>& copy = copies_.emplace_back((array.bytes.size() + 7) / 8);
      std::memcpy(copy.data(), array.bytes.data(), array.bytes.size());
      array.bytes =
          absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(copy.data()), array.bytes.size());
    }
    arrays_.push_back(std::move(array));
  }
  return absl::OkStatus();
}

absl::Status Arrays::CheckNames(const std::string& path) const {
  std::set<absl::string_view> names;
  for (const Array& array : arrays_) {
    if (names.insert(array.name).second) continue;
    return WrongArrays(path,
                       absl::StrCat("has two arrays of the name ", absl::CEscape(array.name)));
  }
  return absl::OkStatus();
}

absl::Status Arrays::AddNpy(const std::string& path) {
  ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
  if (file.bytes().empty()) return WrongArrays(path, "is not a .npy file");
  Array array;
  array.name = std::filesystem::path(path).stem().string();
  RETURN_IF_ERROR(Parse(path, file.bytes(), &array));
  mappings_.push_back(std::move(file));
  arrays_.push_back(std::move(array));
  return absl::OkStatus();
}

absl::Status Arrays::Digest() {
  Sha256Stream sha;
  for (const Array& array : arrays_) {
    sha.Add(absl::StrCat(array.name.size(), ":", array.name, array.type));
    for (const int64_t dimension : array.shape) sha.Add(absl::StrCat(",", dimension));
    sha.Add(";");
    sha.Add(array.bytes);
  }
  digest_ = sha.Finish();
  return absl::OkStatus();
}

}  // namespace atolld
