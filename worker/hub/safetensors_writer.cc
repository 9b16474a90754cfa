#include "worker/hub/safetensors_writer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "worker/base/file_io.h"

namespace atolld {

TensorToWrite MakeTensor(std::string name, std::vector<uint64_t> shape, DType dtype,
                         absl::Span<const float> values) {
  TensorToWrite tensor{std::move(name), std::move(shape), {}};
  tensor.bytes.resize(values.size() * DTypeBytes(dtype));
  FromFloats(dtype, values, absl::MakeSpan(tensor.bytes));
  return tensor;
}

absl::Status WriteTensors(const std::string& path, DType dtype,
                          absl::Span<const TensorToWrite> tensors) {
  std::string header = R"({"__metadata__":{"format":"pt"})";
  uint64_t offset = 0;
  for (const TensorToWrite& tensor : tensors) {
    const uint64_t end = offset + tensor.bytes.size();
    absl::StrAppend(&header, ",\"", tensor.name, "\":{\"dtype\":\"", DTypeName(dtype),
                    "\",\"shape\":[", absl::StrJoin(tensor.shape, ","), "],\"data_offsets\":[",
                    offset, ",", end, "]}");
    offset = end;
  }
  header += '}';
  header.resize((header.size() + 7) / 8 * 8, ' ');  // the data begin aligned
  const uint64_t length = header.size();
  std::vector<absl::Span<const uint8_t>> parts = {
      AsBytes(absl::MakeConstSpan(&length, 1)),
      AsBytes(absl::MakeConstSpan(header.data(), header.size()))};
  for (const TensorToWrite& tensor : tensors) parts.emplace_back(tensor.bytes);
  return WriteFileDurably(path, parts);
}

}  // namespace atolld
