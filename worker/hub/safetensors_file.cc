#include "worker/hub/safetensors_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compression/base/status_macros.h"
#include "worker/hub/dtype.h"
#include "worker/hub/json_text.h"

namespace atolld {
namespace {

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kLongestHeader = 100000000;  // the format's own limit

absl::Status Corrupt(absl::string_view what) { return absl::DataLossError(what); }

// Bytes of one value, of every dtype that the format has; 0: of none.
uint64_t ValueBytes(const std::string& dtype) {
  static const std::map<std::string, uint64_t>* const kSizes = new std::map<std::string, uint64_t>{
      {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E5M2", 1}, {"F8_E4M3", 1},
      {"I16", 2},  {"U16", 2}, {"F16", 2}, {"BF16", 2},    {"I32", 4},
      {"U32", 4},  {"F32", 4}, {"F64", 8}, {"I64", 8},     {"U64", 8}};
  const auto found = kSizes->find(dtype);
  return found == kSizes->end() ? 0 : found->second;
}

bool Counts(const nlohmann::json& list, std::vector<uint64_t>* out) {
  if (!list.is_array()) return false;
  for (const nlohmann::json& one : list) {
    if (!one.is_number_unsigned()) return false;
    out->push_back(one.get<uint64_t>());
  }
  return true;
}

absl::StatusOr<StoredTensor> ParseTensor(const nlohmann::json& entry, uint64_t data_bytes) {
  StoredTensor tensor;
  std::vector<uint64_t> offsets;
  if (!entry.is_object() || !entry.contains("dtype") || !entry["dtype"].is_string() ||
      !entry.contains("shape") || !Counts(entry["shape"], &tensor.shape) ||
      !entry.contains("data_offsets") || !Counts(entry["data_offsets"], &offsets) ||
      offsets.size() != 2) {
    return Corrupt("it needs a dtype, a shape and two data_offsets");
  }
  tensor.dtype = entry["dtype"].get<std::string>();
  tensor.begin = offsets[0];
  tensor.end = offsets[1];
  if (tensor.begin > tensor.end || tensor.end > data_bytes) {
    return Corrupt(absl::StrCat("bytes ", tensor.begin, "-", tensor.end,
                                " are not within the file's ", data_bytes));
  }
  uint64_t bytes = ValueBytes(tensor.dtype);
  if (bytes == 0) {
    return Corrupt(absl::StrCat("dtype \"", absl::CEscape(tensor.dtype), "\" is not known"));
  }
  const uint64_t held = tensor.end - tensor.begin;
  for (const uint64_t size : tensor.shape) {
    // Beyond what the file holds no product need be known exactly; 0 stays 0.
    bytes = size != 0 && bytes > (data_bytes + 1) / size ? data_bytes + 1 : bytes * size;
  }
  if (bytes != held) {
    return Corrupt(absl::StrCat("it has ", held, " bytes; ", tensor.dtype, " of shape [",
                                absl::StrJoin(tensor.shape, ", "), "] needs another number"));
  }
  return tensor;
}

// Tensors tile the data: none over another, no byte of nobody's.
absl::Status CheckTiling(const std::map<std::string, StoredTensor>& tensors, uint64_t data_bytes) {
  std::vector<std::pair<const StoredTensor*, const std::string*>> order;
  for (const auto& [name, tensor] : tensors) order.emplace_back(&tensor, &name);
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return std::make_pair(a.first->begin, a.first->end) <
           std::make_pair(b.first->begin, b.first->end);
  });
  uint64_t end = 0;
  for (const auto& [tensor, name] : order) {
    if (tensor->begin != end) {
      return Corrupt(absl::StrCat("tensor ", absl::CEscape(*name), " begins at byte ",
                                  tensor->begin, ", the ones before it end at ", end));
    }
    end = tensor->end;
  }
  if (end == data_bytes) return absl::OkStatus();
  return Corrupt(
      absl::StrCat("its tensors end at byte ", end, " of the data, which has ", data_bytes));
}

}  // namespace

absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(absl::Span<const uint8_t> bytes) {
  if (bytes.size() < kLengthBytes) {
    return Corrupt(absl::StrCat("it has ", bytes.size(), " bytes, too few for a header"));
  }
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), kLengthBytes);
  if (length > kLongestHeader || length > bytes.size() - kLengthBytes) {
    return Corrupt(
        absl::StrCat("its header is said to have ", length, " bytes; the file has ", bytes.size()));
  }
  const absl::string_view text(reinterpret_cast<const char*>(bytes.data()) + kLengthBytes, length);
  const absl::StatusOr<nlohmann::json> header = ParseJsonObject(text);
  if (!header.ok()) return Corrupt(absl::StrCat("its header: ", header.status().message()));
  SafetensorsHeader out;
  out.data_begin = kLengthBytes + length;
  const uint64_t data_bytes = bytes.size() - out.data_begin;
  for (const auto& [name, entry] : header->items()) {
    if (name == "__metadata__") continue;
    absl::StatusOr<StoredTensor> tensor = ParseTensor(entry, data_bytes);
    if (!tensor.ok()) {
      return Corrupt(absl::StrCat("tensor ", absl::CEscape(name), ": ", tensor.status().message()));
    }
    out.tensors.emplace(name, *std::move(tensor));
  }
  RETURN_IF_ERROR(CheckTiling(out.tensors, data_bytes));
  return out;
}

absl::StatusOr<std::unique_ptr<SafetensorsFile>> SafetensorsFile::Open(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat info;
  if (descriptor < 0 || ::fstat(descriptor, &info) != 0 || !S_ISREG(info.st_mode)) {
    if (descriptor >= 0) ::close(descriptor);
    return absl::NotFoundError(absl::StrCat(path, " is no file that can be read"));
  }
  const auto size = static_cast<size_t>(info.st_size);
  void* const at =
      size == 0 ? nullptr : ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
  ::close(descriptor);
  if (at == MAP_FAILED) return absl::NotFoundError(absl::StrCat(path, " cannot be mapped"));
  std::unique_ptr<SafetensorsFile> file(new SafetensorsFile(
      path, absl::MakeConstSpan(static_cast<const uint8_t*>(at), at == nullptr ? 0 : size)));
  absl::StatusOr<SafetensorsHeader> header = ParseSafetensorsHeader(file->bytes_);
  RETURN_IF_ERROR(Annotate(header.status(), path));
  file->header_ = *std::move(header);
  return file;
}

SafetensorsFile::~SafetensorsFile() {
  if (!bytes_.empty()) ::munmap(const_cast<uint8_t*>(bytes_.data()), bytes_.size());
}

absl::Status SafetensorsFile::Read(const std::string& name, const std::vector<uint64_t>& shape,
                                   absl::Span<float> out) const {
  const auto found = header_.tensors.find(name);
  if (found == header_.tensors.end()) {
    return absl::InvalidArgumentError(absl::StrCat(path_, " has no tensor ", name));
  }
  const StoredTensor& tensor = found->second;
  const absl::StatusOr<DType> type = ParseDType(tensor.dtype);
  RETURN_IF_ERROR(Annotate(type.status(), absl::StrCat(path_, ": tensor ", name)));
  if (tensor.shape != shape) {
    return absl::InvalidArgumentError(
        absl::StrCat(path_, ": tensor ", name, " has shape [", absl::StrJoin(tensor.shape, ", "),
                     "]; the model's has [", absl::StrJoin(shape, ", "), "]"));
  }
  ToFloats(*type, bytes(tensor), out);
  return absl::OkStatus();
}

}  // namespace atolld
