#include "worker/hub/safetensors.h"

#include <openssl/evp.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/base/casts.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "compression/base/status_macros.h"
#include "worker/base/file_io.h"
#include "worker/base/manifest.h"
#include "worker/hub/json_text.h"

namespace atolld {
namespace {

float FromHalf(uint16_t half) {
  const float sign = (half & 0x8000u) != 0 ? -1.0f : 1.0f;
  const int exponent = (half >> 10) & 0x1f;
  const auto mantissa = static_cast<float>(half & 0x3ffu);
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  if (exponent == 31) return mantissa == 0 ? sign * INFINITY : NAN;
  return sign * std::ldexp(1024.0f + mantissa, exponent - 25);
}

uint16_t ToBfloat(float value) {
  const auto bits = absl::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

}  // namespace

absl::StatusOr<DType> ParseDType(absl::string_view name) {
  for (const DType type : {DType::kF32, DType::kF16, DType::kBF16}) {
    if (name == DTypeName(type)) return type;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("dtype ", name, " is not read; F32, F16 and BF16 are"));
}

absl::string_view DTypeName(DType type) {
  return type == DType::kF32 ? "F32" : type == DType::kF16 ? "F16" : "BF16";
}

uint64_t DTypeBytes(DType type) { return type == DType::kF32 ? 4 : 2; }

void ToFloats(DType type, absl::Span<const uint8_t> bytes, absl::Span<float> out) {
  if (type == DType::kF32) {
    if (!out.empty()) std::memcpy(out.data(), bytes.data(), out.size() * sizeof(float));
    return;
  }
  for (size_t i = 0; i < out.size(); ++i) {
    uint16_t bits;
    std::memcpy(&bits, bytes.data() + 2 * i, sizeof bits);
    out[i] = type == DType::kF16 ? FromHalf(bits)
                                 : absl::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  }
}

void FromFloats(DType type, absl::Span<const float> values, absl::Span<uint8_t> out) {
  if (type == DType::kF32) {
    if (!values.empty()) std::memcpy(out.data(), values.data(), values.size() * sizeof(float));
    return;
  }
  for (size_t i = 0; i < values.size(); ++i) {
    const uint16_t bits = ToBfloat(values[i]);
    std::memcpy(out.data() + 2 * i, &bits, sizeof bits);
  }
}

namespace {

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kLongestHeader = 100000000;  // the format's own limit

absl::Status Corrupt(absl::string_view what) { return absl::DataLossError(what); }

// Returns the bytes of one value of any dtype of the format; 0 for an unknown dtype.
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

// Tensors must tile the data: they may not overlap, and every byte must belong to one.
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
  absl::StatusOr<MappedFile> mapped = MappedFile::Open(path);
  if (!mapped.ok())
    return absl::NotFoundError(absl::StrCat(path, " is not a file that can be read"));
  std::unique_ptr<SafetensorsFile> file(new SafetensorsFile(path, *std::move(mapped)));
  absl::StatusOr<SafetensorsHeader> header = ParseSafetensorsHeader(file->bytes());
  RETURN_IF_ERROR(Annotate(header.status(), path));
  file->header_ = *std::move(header);
  return file;
}

std::string PlainTensorName(absl::string_view stored) {
  std::vector<absl::string_view> parts;
  for (const absl::string_view part : absl::StrSplit(stored, '.')) {
    if (part == "_orig_mod" || (part == "module" && parts.empty())) continue;
    parts.push_back(part);
  }
  return absl::StrJoin(parts, ".");
}

absl::Status SafetensorsFile::Read(const std::string& name, const std::vector<uint64_t>& shape,
                                   absl::Span<float> out, uint64_t first) const {
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
  const uint64_t width = DTypeBytes(*type);
  ToFloats(*type, bytes(tensor).subspan(first * width, out.size() * width), out);
  return absl::OkStatus();
}

namespace {

// The length and the text of a file's header, tensor by tensor in the order of the data.
class HeaderText {
 public:
  // Names are ours (letters, digits, dots, underscores): nothing to escape.
  void Add(absl::string_view name, absl::string_view dtype, absl::string_view shape,
           uint64_t bytes) {
    absl::StrAppend(&text_, ",\"", name, "\":{\"dtype\":\"", dtype, "\",\"shape\":[", shape,
                    "],\"data_offsets\":[", offset_, ",", offset_ + bytes, "]}");
    offset_ += bytes;
  }

  std::string Finish() const {
    std::string text = text_ + "}";
    text.resize((text.size() + 7) / 8 * 8, ' ');  // the data begin aligned; spaces are allowed
    const uint64_t length = text.size();
    return std::string(reinterpret_cast<const char*>(&length), sizeof(length)) + text;
  }

 private:
  std::string text_ = R"({"__metadata__":{"format":"pt"})";
  uint64_t offset_ = 0;
};

}  // namespace

TensorToWrite MakeTensor(std::string name, std::vector<uint64_t> shape, DType dtype,
                         absl::Span<const float> values) {
  TensorToWrite tensor{std::move(name), std::move(shape), {}};
  tensor.bytes.resize(values.size() * DTypeBytes(dtype));
  FromFloats(dtype, values, absl::MakeSpan(tensor.bytes));
  return tensor;
}

absl::Status WriteTensors(const std::string& path, DType dtype,
                          absl::Span<const TensorToWrite> tensors) {
  HeaderText header;
  for (const TensorToWrite& tensor : tensors) {
    header.Add(tensor.name, DTypeName(dtype), absl::StrJoin(tensor.shape, ","),
               tensor.bytes.size());
  }
  const std::string head = header.Finish();
  std::vector<absl::Span<const uint8_t>> parts = {AsBytes(absl::MakeConstSpan(head))};
  for (const TensorToWrite& tensor : tensors) parts.emplace_back(tensor.bytes);
  return WriteFileDurably(path, parts);
}

absl::Status WriteSafetensors(const std::string& path, const v1::Manifest& manifest,
                              absl::Span<const float> parameters) {
  if (parameters.size() != manifest.elements()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "export: ", parameters.size(), " parameters; the model has ", manifest.elements()));
  }
  std::vector<const v1::Tensor*> tensors;
  for (const v1::Tensor& tensor : manifest.tensors()) tensors.push_back(&tensor);
  // As they lie, which is not their order where some are personal.
  std::sort(tensors.begin(), tensors.end(),
            [](const auto* a, const auto* b) { return a->offset() < b->offset(); });
  HeaderText header;
  for (const v1::Tensor* tensor : tensors) {
    header.Add(tensor->name(), "F32", absl::StrJoin(tensor->shape(), ","),
               TensorElements(*tensor) * sizeof(float));
  }
  const std::string head = header.Finish();
  return WriteFileDurably(path, {AsBytes(absl::MakeConstSpan(head)), AsBytes(parameters)});
}

absl::StatusOr<std::string> FileDigest(const std::string& path) {
  constexpr size_t kDigestBytes = 32;
  ASSIGN_OR_RETURN(const std::unique_ptr<SafetensorsFile> file, SafetensorsFile::Open(path));
  std::string digest(kDigestBytes, '\0');
  if (EVP_Digest(file->bytes().data(), file->bytes().size(),
                 reinterpret_cast<uint8_t*>(digest.data()), nullptr, EVP_sha256(), nullptr) != 1) {
    return absl::InternalError(absl::StrCat(path, ": SHA-256 failed"));
  }
  return digest;
}

absl::Status LoadParameters(const std::string& path, const v1::Manifest& manifest,
                            absl::Span<float> out) {
  ASSIGN_OR_RETURN(const std::unique_ptr<SafetensorsFile> file, SafetensorsFile::Open(path));
  std::map<std::string, std::string> stored;  // names by what they are without wrappers' parts
  for (const auto& [name, tensor] : file->tensors()) stored[PlainTensorName(name)] = name;
  for (const v1::Tensor& tensor : manifest.tensors()) {
    const std::vector<uint64_t> shape(tensor.shape().begin(), tensor.shape().end());
    const auto found = stored.find(tensor.name());
    const std::string& name = found == stored.end() ? tensor.name() : found->second;
    RETURN_IF_ERROR(file->Read(name, shape, out.subspan(tensor.offset(), TensorElements(tensor))));
  }
  if (file->tensors().size() == static_cast<size_t>(manifest.tensors_size())) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      path, " has ", file->tensors().size(), " tensors; the model has ", manifest.tensors_size()));
}

}  // namespace atolld
