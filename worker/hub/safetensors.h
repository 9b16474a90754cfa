// safetensors, what Hugging Face and PyTorch load: files of anybody's read as fp32, files written,
// and parameters under a manifest's own names, which is what `atoll import` makes.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "atoll/v1/run.pb.h"
#include "worker/base/file_io.h"

namespace atolld {

// The numbers that weights are stored as, to fp32 and back. Pure functions, any thread.
enum class DType { kF32, kF16, kBF16 };

// "F32", "F16", "BF16", as safetensors names them. INVALID_ARGUMENT: none of these.
absl::StatusOr<DType> ParseDType(absl::string_view name);
absl::string_view DTypeName(DType type);
uint64_t DTypeBytes(DType type);

// `bytes` are out.size() values, little-endian, aligned or not.
void ToFloats(DType type, absl::Span<const uint8_t> bytes, absl::Span<float> out);

// The reverse; rounds to nearest, ties to even. kF16 is only read and must not be asked for.
void FromFloats(DType type, absl::Span<const float> values, absl::Span<uint8_t> out);

struct StoredTensor {
  std::string dtype;  // of any that the format has
  std::vector<uint64_t> shape;
  uint64_t begin = 0, end = 0;  // bytes of the data that follow the header
};

// The header at the beginning of `bytes`, a whole file. DATA_LOSS says what is wrong: a length that
// the file has not, no JSON, a name twice, tensors out of the file's bounds, over each other or
// with bytes between them that are nobody's, a shape that its bytes are not.
struct SafetensorsHeader {
  std::map<std::string, StoredTensor> tensors;
  uint64_t data_begin = 0;  // in the file
};
absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(absl::Span<const uint8_t> bytes);

// A safetensors file of anybody's: its tensors by name, read as fp32.
//
// Everything that its header says is checked against the file before any of it is used, so that any
// bytes are either a file whose tensors can be read or one line of what is wrong with them. The
// file is mapped, not read whole, and must not be changed meanwhile. Any thread.
class SafetensorsFile {
 public:
  // NOT_FOUND: it cannot be opened. DATA_LOSS as above, with the path.
  static absl::StatusOr<std::unique_ptr<SafetensorsFile>> Open(const std::string& path);

  const std::string& path() const { return path_; }
  const std::map<std::string, StoredTensor>& tensors() const { return header_.tensors; }
  absl::Span<const uint8_t> bytes() const { return file_.bytes(); }

  // Of one of tensors(): as the file has them, at no particular alignment.
  absl::Span<const uint8_t> bytes(const StoredTensor& tensor) const {
    return bytes().subspan(header_.data_begin + tensor.begin, tensor.end - tensor.begin);
  }

  // The values of tensors().at(name). INVALID_ARGUMENT: there is none of this name, its shape is
  // another, or its dtype is not read.
  absl::Status Read(const std::string& name, const std::vector<uint64_t>& shape,
                    absl::Span<float> out) const;

 private:
  SafetensorsFile(std::string path, MappedFile file)
      : path_(std::move(path)), file_(std::move(file)) {}

  const std::string path_;
  const MappedFile file_;
  SafetensorsHeader header_;
};

// The name of a parameter without what wrappers put into it: torch.compile an "_orig_mod.", data
// parallel training a "module." in front.
std::string PlainTensorName(absl::string_view stored);

struct TensorToWrite {
  std::string name;  // nothing in it to escape
  std::vector<uint64_t> shape;
  std::vector<uint8_t> bytes;  // of the file's dtype
};

// `values` as a file of this dtype holds them.
TensorToWrite MakeTensor(std::string name, std::vector<uint64_t> shape, DType dtype,
                         absl::Span<const float> values);

// All into one file, in this order, durably.
absl::Status WriteTensors(const std::string& path, DType dtype,
                          absl::Span<const TensorToWrite> tensors);

// All tensors of `manifest` as F32 into one file, durably. The tied output head is not written
// twice: readers tie it to transformer.wte.weight. INVALID_ARGUMENT: `parameters` does not have
// manifest.elements() values.
absl::Status WriteSafetensors(const std::string& path, const v1::Manifest& manifest,
                              absl::Span<const float> parameters);

// The SHA-256 of a file, 32 bytes. NOT_FOUND: it cannot be read.
absl::StatusOr<std::string> FileDigest(const std::string& path);

// Fills `out`, manifest.elements() values. INVALID_ARGUMENT: the file's tensors are not those of
// the manifest; DATA_LOSS: it is no safetensors file. The error names the file.
absl::Status LoadParameters(const std::string& path, const v1::Manifest& manifest,
                            absl::Span<float> out);

}  // namespace atolld
