#include "daemon/peer/still_tensors.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compression/base/names.h"
#include "compression/base/words.h"

namespace atolld {
namespace {

constexpr size_t kMostNamed = 4;

size_t SizeOf(const v1::Tensor& tensor) {
  size_t size = 1;
  for (const uint64_t side : tensor.shape()) size *= side;
  return size;
}

}  // namespace

std::string StillTensors::Look(const v1::Manifest& manifest, absl::Span<const float> update,
                               absl::Span<const PartRange> frozen) {
  if (!watches() || update.size() != manifest.elements()) return "";
  ++looks_;
  for (int i = 0; i < manifest.tensors_size(); ++i) {
    const v1::Tensor& tensor = manifest.tensors(i);
    const absl::Span<const float> values = update.subspan(tensor.offset(), SizeOf(tensor));
    const bool moves =
        std::any_of(values.begin(), values.end(), [](float value) { return value != 0; });
    if (moves) moved_.insert(i);
    const auto after = std::upper_bound(
        frozen.begin(), frozen.end(), tensor.offset(),
        [](uint64_t offset, const PartRange& range) { return offset < range.first + range.count; });
    if (after != frozen.end() && after->first <= tensor.offset()) excused_.insert(i);
  }
  const auto tensors = static_cast<size_t>(manifest.tensors_size());
  if (moved_.empty() && looks_ == 1) {
    verdict_ =
        absl::StrCat("the update has length 0: none of the model's ", Counted(tensors, "tensor"),
                     " has moved; does its optimiser step a copy of the parameters?");
    return verdict_;
  }
  if (!moved_.empty()) verdict_.clear();
  if (looks_ < kLooks) return "";
  std::vector<std::string> still;
  for (int i = 0; i < manifest.tensors_size(); ++i) {
    if (moved_.count(i) + excused_.count(i) == 0) still.push_back(manifest.tensors(i).name());
  }
  if (still.empty()) return "";
  const size_t count = still.size();
  const size_t unnamed = count - std::min(count, kMostNamed);
  still.resize(count - unnamed);
  verdict_ = OneLine(absl::StrCat(count, " of ", Counted(tensors, "tensor"), " did not move in ",
                                  kLooks, " rounds of training: ", absl::StrJoin(still, ", "),
                                  unnamed == 0 ? "" : absl::StrCat(" and ", unnamed, " more")),
                     kLongestVerdict);
  return verdict_;
}

}  // namespace atolld
