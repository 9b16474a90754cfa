#include "membership/history/manifest.h"

#include <set>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace atolld {
namespace {

constexpr int kMostTensors = 65536;
constexpr int kMostDimensions = 8;
constexpr size_t kLongestTensorName = 256;

// fp32 values of 4 TB: far above any model, far below what overflows when multiplied by 4.
constexpr uint64_t kMostElements = uint64_t{1} << 40;

}  // namespace

std::string ShapeText(const v1::Tensor& tensor) {
  return absl::StrCat("[", absl::StrJoin(tensor.shape(), ", "), "]");
}

absl::Status CheckManifest(const v1::Manifest& manifest) {
  if (manifest.tensors_size() == 0 || manifest.tensors_size() > kMostTensors) {
    return absl::InvalidArgumentError(absl::StrCat("the manifest has ", manifest.tensors_size(),
                                                   " tensors, 1 to 65536 are allowed"));
  }
  std::set<absl::string_view> names;
  uint64_t offset = 0;
  for (const v1::Tensor& tensor : manifest.tensors()) {
    const auto bad = [&](absl::string_view what) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor ", absl::CEscape(tensor.name()), ": ", what));
    };
    if (tensor.name().empty() || tensor.name().size() > kLongestTensorName)
      return bad("its name must have 1 to 256 bytes");
    if (!names.insert(tensor.name()).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("two tensors are named ", absl::CEscape(tensor.name())));
    }
    if (tensor.shape_size() > kMostDimensions) {
      return bad(absl::StrCat(tensor.shape_size(), " dimensions, at most 8 are allowed"));
    }
    uint64_t size = 1;
    for (const uint64_t dimension : tensor.shape()) {
      if (dimension == 0) return bad(absl::StrCat("shape ", ShapeText(tensor), " has no values"));
      if (dimension > kMostElements / size)
        return bad(absl::StrCat("shape ", ShapeText(tensor), " has too many values"));
      size *= dimension;
    }
    if (tensor.offset() != offset) {
      return bad(absl::StrCat("its offset is ", tensor.offset(), ", the tensors before it end at ",
                              offset));
    }
    if (size > kMostElements - offset) return bad("with it the model has too many values");
    offset += size;
  }
  if (manifest.elements() != offset) {
    return absl::InvalidArgumentError(absl::StrCat("the manifest says ", manifest.elements(),
                                                   " values, its tensors have ", offset));
  }
  return absl::OkStatus();
}

}  // namespace atolld
