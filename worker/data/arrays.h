// The data of a run whose model is a file: arrays in numpy's or safetensors' format, one row per
// sample.
//
// The data is one file, or a folder whose files are read in the order of their names. A .npy file
// is one array, which gets the name of the file. A .safetensors file has named arrays, which are
// taken in the order of their names. All arrays have the same first dimension, the number of rows.
// The last part of the rows, by validation_fraction, is for validation. The files are mapped, not
// read. Immutable. May be used from any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "worker/base/file_io.h"
#include "worker/hub/safetensors.h"

namespace atolld {

struct Array {
  std::string name;
  std::string type;            // Numpy's name of the type, for example "<f4".
  std::vector<int64_t> shape;  // It has at least one dimension.
  absl::Span<const uint8_t> bytes;
};

class Arrays {
 public:
  // Fails with NOT_FOUND if the path does not exist or has no file of these kinds; with
  // INVALID_ARGUMENT if a file is malformed, has an unsupported type or order, or is too short, if
  // a name occurs twice, or if the arrays have different numbers of rows; with DATA_LOSS if the
  // header of a .safetensors file does not match its data.
  static absl::StatusOr<std::unique_ptr<Arrays>> Open(const std::string& path,
                                                      double validation_fraction,
                                                      bool named = true);
  Arrays(const Arrays&) = delete;
  Arrays& operator=(const Arrays&) = delete;

  const std::vector<Array>& all() const { return arrays_; }
  uint64_t train_rows() const { return train_rows_; }
  uint64_t validation_rows() const { return rows_ - train_rows_; }

  // The SHA-256 of names, types, shapes and values; 32 bytes. Empty if Open was called with `named`
  // false.
  const std::string& digest() const { return digest_; }

 private:
  Arrays() = default;
  absl::Status AddNpy(const std::string& path);
  absl::Status AddTensors(const std::string& path);
  absl::Status CheckNames(const std::string& path) const;
  absl::Status Digest();

  std::vector<MappedFile> mappings_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  // Copies of tensors whose bytes are not aligned for their type.
  std::vector<std::vector<uint64_t>> copies_;
  std::vector<Array> arrays_;
  uint64_t rows_ = 0;
  uint64_t train_rows_ = 0;
  std::string digest_;
};

// Returns the number of bytes of one value of a numpy type, which is "<f4", "<f8", "<i4", "<i8",
// "|u1" or "|b1". Returns 0 for any other type.
size_t SizeOfType(const std::string& type);

}  // namespace atolld
