// Reads and writes safetensors, the format that Hugging Face and PyTorch load. Files of other
// programs are read as fp32; parameters are written under the names of their manifest.
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

// The number formats of weights. The functions that convert to fp32 and back are pure and may be
// called from any thread.
enum class DType { kF32, kF16, kBF16 };

// Parses the name of a format in safetensors: "F32", "F16" or "BF16". Fails with INVALID_ARGUMENT
// for any other name.
absl::StatusOr<DType> ParseDType(absl::string_view name);
absl::string_view DTypeName(DType type);
uint64_t DTypeBytes(DType type);

// Converts `bytes`, which holds out.size() little-endian values at any alignment, to fp32.
void ToFloats(DType type, absl::Span<const uint8_t> bytes, absl::Span<float> out);

// Converts fp32 values to `type`, rounding to nearest with ties to even. `type` must not be kF16,
// which can only be read.
void FromFloats(DType type, absl::Span<const float> values, absl::Span<uint8_t> out);

struct StoredTensor {
  std::string dtype;  // The name of the type, which may be any type of safetensors.
  std::vector<uint64_t> shape;
  uint64_t begin = 0, end = 0;  // The range of the tensor's bytes in the data after the header.
};

// The header of a safetensors file. ParseSafetensorsHeader reads it from `bytes`, the whole file.
// It fails with DATA_LOSS if the header is longer than the file, is not valid JSON or has a
// duplicate name, if tensors overlap, lie outside the file or have unused bytes between them, or if
// a shape does not match the number of bytes; the message says what is wrong.
struct SafetensorsHeader {
  std::map<std::string, StoredTensor> tensors;
  uint64_t data_begin = 0;  // The offset in the file at which the data after the header begins.
};
absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(absl::Span<const uint8_t> bytes);

// A safetensors file of another program, whose tensors can be read by name as fp32.
//
// The whole header is checked against the file when it is opened, so that a file either has
// readable tensors or is refused with a line that says what is wrong. The file is mapped and not
// read as a whole, and must not change while it is open. May be used from any thread.
class SafetensorsFile {
 public:
  // Fails with NOT_FOUND if the file cannot be opened, and with the errors of
  // ParseSafetensorsHeader; the message names the path.
  static absl::StatusOr<std::unique_ptr<SafetensorsFile>> Open(const std::string& path);

  const std::string& path() const { return path_; }
  const std::map<std::string, StoredTensor>& tensors() const { return header_.tensors; }
  absl::Span<const uint8_t> bytes() const { return file_.bytes(); }

  // Returns the bytes of one of tensors() in the file, at any alignment.
  absl::Span<const uint8_t> bytes(const StoredTensor& tensor) const {
    return bytes().subspan(header_.data_begin + tensor.begin, tensor.end - tensor.begin);
  }

  // Reads out.size() values of tensors().at(name), from value number `first` on. Fails with
  // INVALID_ARGUMENT if the tensor does not exist, its shape differs from `shape`, or its dtype is
  // not supported.
  absl::Status Read(const std::string& name, const std::vector<uint64_t>& shape,
                    absl::Span<float> out, uint64_t first = 0) const;

 private:
  SafetensorsFile(std::string path, MappedFile file)
      : path_(std::move(path)), file_(std::move(file)) {}

  const std::string path_;
  const MappedFile file_;
  SafetensorsHeader header_;
};

// Returns the name of a parameter without the parts that wrappers add: torch.compile inserts
// "_orig_mod.", and data parallel training prepends "module.".
std::string PlainTensorName(absl::string_view stored);

struct TensorToWrite {
  std::string name;  // The name, which must not have characters that JSON escapes.
  std::vector<uint64_t> shape;
  std::vector<uint8_t> bytes;  // The values in the dtype of the file.
};

// Converts `values` to a tensor of this dtype.
TensorToWrite MakeTensor(std::string name, std::vector<uint64_t> shape, DType dtype,
                         absl::Span<const float> values);

// Writes all tensors into one file in this order. The file is durable when this returns.
absl::Status WriteTensors(const std::string& path, DType dtype,
                          absl::Span<const TensorToWrite> tensors);

// Writes all tensors of `manifest` as F32 into one file. The file is durable when this returns. A
// tied output head is not written; readers tie it to transformer.wte.weight. Fails with
// INVALID_ARGUMENT if `parameters` does not have manifest.elements() values.
absl::Status WriteSafetensors(const std::string& path, const v1::Manifest& manifest,
                              absl::Span<const float> parameters);

// Returns the SHA-256 of a file, 32 bytes. Fails with NOT_FOUND if it cannot be read.
absl::StatusOr<std::string> FileDigest(const std::string& path);

// Reads the parameters in a file into `out`, which has manifest.elements() values. Fails with
// INVALID_ARGUMENT if the tensors of the file are not those of the manifest, and with DATA_LOSS if
// it is not a safetensors file. The message names the file.
absl::Status LoadParameters(const std::string& path, const v1::Manifest& manifest,
                            absl::Span<float> out);

}  // namespace atolld
