// The data of a run whose model is a file: arrays as numpy or safetensors keep them, a row a
// sample.
//
// A folder of files in the order of their names, or one file: a .npy is an array that is named as
// the file, a .safetensors has arrays of its own names, in the order of these. All have the same
// first dimension; the last validation_fraction of the rows validates. The files are mapped, not
// read. Immutable; any thread.
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
  std::string type;            // numpy's, for instance "<f4"
  std::vector<int64_t> shape;  // one dimension at least
  absl::Span<const uint8_t> bytes;
};

class Arrays {
 public:
  // NOT_FOUND: no such path, or neither kind of file in it. INVALID_ARGUMENT: a file is none, has a
  // type or an order that is not taken, is too short, a name comes twice, or the numbers of rows
  // differ. DATA_LOSS: what the header of a .safetensors says is not what the file holds.
  static absl::StatusOr<std::unique_ptr<Arrays>> Open(const std::string& path,
                                                      double validation_fraction,
                                                      bool named = true);
  Arrays(const Arrays&) = delete;
  Arrays& operator=(const Arrays&) = delete;

  const std::vector<Array>& all() const { return arrays_; }
  uint64_t train_rows() const { return train_rows_; }
  uint64_t validation_rows() const { return rows_ - train_rows_; }

  // SHA-256 over names, types, shapes and values; 32 bytes. Empty where Open was not to name it.
  const std::string& digest() const { return digest_; }

 private:
  Arrays() = default;
  absl::Status AddNpy(const std::string& path);
  absl::Status AddTensors(const std::string& path);
  absl::Status CheckNames(const std::string& path) const;
  absl::Status Digest();

  std::vector<MappedFile> mappings_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::vector<std::vector<uint64_t>> copies_;  // of tensors that do not lie at their type's bounds
  std::vector<Array> arrays_;
  uint64_t rows_ = 0;
  uint64_t train_rows_ = 0;
  std::string digest_;
};

// Bytes of one value of a numpy type; 0: it is not taken. Taken are "<f4", "<f8", "<i4", "<i8",
// "|u1" and "|b1".
size_t SizeOfType(const std::string& type);

}  // namespace atolld
