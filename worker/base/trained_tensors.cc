#include "worker/base/trained_tensors.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "compression/base/words.h"
#include "worker/base/manifest.h"

namespace atolld {
namespace {

// Returns the positions of the tensors in the order of their offsets, which differs from the
// manifest's order if there are personal tensors.
std::vector<size_t> ByOffset(const v1::Manifest& manifest) {
  std::vector<size_t> order(static_cast<size_t>(manifest.tensors_size()));
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return manifest.tensors(static_cast<int>(a)).offset() <
           manifest.tensors(static_cast<int>(b)).offset();
  });
  return order;
}

absl::Status NotWhole(const v1::TrainSteps& train, const v1::ValueRange& range,
                      absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("version ", train.version(), ": TrainSteps.frozen has ",
                   Counted(range.count(), "value"), " from ", range.first(), " on; ", why));
}

}  // namespace

TrainedTensors::TrainedTensors(const v1::Manifest& manifest)
    : trained_(static_cast<size_t>(manifest.tensors_size()), true), elements_(manifest.elements()) {
  for (const v1::Tensor& tensor : manifest.tensors()) places_.push_back(tensor.offset());
  pieces_.push_back({0, 0, elements_});
}

TrainedTensors::TrainedTensors(const v1::Manifest& manifest, std::vector<bool> trained)
    : trained_(std::move(trained)), places_(trained_.size()) {
  for (const size_t i : ByOffset(manifest)) {
    if (!trained_[i]) continue;
    const v1::Tensor& tensor = manifest.tensors(static_cast<int>(i));
    const uint64_t count = TensorElements(tensor);
    places_[i] = elements_;
    if (!pieces_.empty() && pieces_.back().first + pieces_.back().count == tensor.offset()) {
      pieces_.back().count += count;
    } else {
      pieces_.push_back({tensor.offset(), elements_, count});
    }
    elements_ += count;
  }
}

absl::StatusOr<TrainedTensors> TrainedTensors::Without(const v1::TrainSteps& train,
                                                       const v1::Manifest& manifest) {
  if (train.frozen().empty()) return TrainedTensors(manifest);
  const std::vector<size_t> order = ByOffset(manifest);
  std::vector<bool> trained(order.size(), true);
  size_t next = 0;
  uint64_t before = 0;
  for (const v1::ValueRange& range : train.frozen()) {
    if (range.first() < before) {
      return NotWhole(train, range, "ranges must be ascending and disjoint");
    }
    if (range.count() == 0 || range.first() > manifest.elements() ||
        range.count() > manifest.elements() - range.first()) {
      return NotWhole(train, range,
                      absl::StrCat("a range has at least one of the model's ", manifest.elements(),
                                   " values, and no other"));
    }
    before = range.first() + range.count();
    for (uint64_t at = range.first(); at < before;) {
      const auto offset = [&](size_t i) {
        return manifest.tensors(static_cast<int>(order[i])).offset();
      };
      while (next < order.size() && offset(next) < at) ++next;
      const uint64_t end = next + 1 < order.size() ? offset(next + 1) : manifest.elements();
      if (next == order.size() || offset(next) != at || end > before) {
        const size_t cut = next == order.size() || offset(next) != at ? next - 1 : next;
        return NotWhole(train, range,
                        absl::StrCat("a range must be whole tensors, and it has a part of ",
                                     manifest.tensors(static_cast<int>(order[cut])).name()));
      }
      trained[order[next++]] = false;
      at = end;
    }
  }
  if (std::find(trained.begin(), trained.end(), true) == trained.end()) {
    return absl::InvalidArgumentError(absl::StrCat("version ", train.version(),
                                                   ": TrainSteps.frozen has every tensor of the ",
                                                   "model; at least one must be trained"));
  }
  return TrainedTensors(manifest, std::move(trained));
}

std::vector<TrainedTensors::Piece> TrainedTensors::Pieces(uint64_t end) const {
  std::vector<Piece> pieces;
  for (const Piece& piece : pieces_) {
    if (piece.first >= end) break;
    pieces.push_back(piece);
    pieces.back().count = std::min(piece.count, end - piece.first);
  }
  return pieces;
}

}  // namespace atolld
