#include "worker/hub/safetensors.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "worker/base/file_io.h"
#include "worker/base/manifest.h"

namespace atolld {

absl::Status WriteSafetensors(const std::string& path, const v1::Manifest& manifest,
                              absl::Span<const float> parameters) {
  if (parameters.size() != manifest.elements()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "export: ", parameters.size(), " parameters; the model has ", manifest.elements()));
  }
  // Names are ours (letters, digits, dots, underscores): nothing to escape.
  std::string header = R"({"__metadata__":{"format":"pt"})";
  for (const v1::Tensor& tensor : manifest.tensors()) {
    const uint64_t begin = tensor.offset() * sizeof(float);
    const uint64_t end = begin + TensorElements(tensor) * sizeof(float);
    absl::StrAppend(&header, ",\"", tensor.name(), "\":{\"dtype\":\"F32\",\"shape\":[",
                    absl::StrJoin(tensor.shape(), ","), "],\"data_offsets\":[", begin, ",", end,
                    "]}");
  }
  header += '}';
  header.resize((header.size() + 7) / 8 * 8,
                ' ');  // the data begin aligned; the format allows spaces
  const uint64_t length = header.size();
  const absl::Span<const uint8_t> parts[] = {
      AsBytes(absl::MakeConstSpan(&length, 1)),
      AsBytes(absl::MakeConstSpan(header.data(), header.size())), AsBytes(parameters)};
  return WriteFileDurably(path, parts);
}

}  // namespace atolld
