// Which tensors of a manifest a worker trains at present (TrainSteps.frozen names the others), and
// where their values are in a vector that has no room for the others: the gradient and the
// optimiser's moments.
//
// Such a vector has the trained tensors in the order of their offsets. If all tensors are trained,
// it has the layout of the flat vector. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "atoll/v1/run.pb.h"
#include "atoll/v1/worker.pb.h"

namespace atolld {

class TrainedTensors {
 public:
  // Values that are adjacent both in the flat vector, from `first` on, and in a vector of the
  // trained values, from `place` on.
  struct Piece {
    uint64_t first = 0, place = 0, count = 0;
  };

  // No tensors at all.
  TrainedTensors() = default;

  // All tensors of the manifest.
  explicit TrainedTensors(const v1::Manifest& manifest);

  // The tensors with a true flag, in the manifest's order.
  TrainedTensors(const v1::Manifest& manifest, std::vector<bool> trained);

  // All tensors but those in TrainSteps.frozen. Fails with INVALID_ARGUMENT if the ranges are not
  // ascending and disjoint, if they are not whole tensors of the manifest, or if they leave nothing
  // to train.
  static absl::StatusOr<TrainedTensors> Without(const v1::TrainSteps& train,
                                                const v1::Manifest& manifest);

  // `tensor` is a position in the manifest. place() is where the tensor's values begin in a vector
  // of the trained values.
  bool trains(size_t tensor) const { return trained_[tensor]; }
  uint64_t place(size_t tensor) const { return places_[tensor]; }

  // How many values the trained tensors have.
  uint64_t elements() const { return elements_; }

  // Returns the trained values before the flat vector's value number `end`, ascending, in as few
  // pieces as possible.
  std::vector<Piece> Pieces(uint64_t end) const;
  const std::vector<Piece>& pieces() const { return pieces_; }

  bool operator==(const TrainedTensors& other) const { return trained_ == other.trained_; }

 private:
  std::vector<bool> trained_;
  std::vector<uint64_t> places_;
  std::vector<Piece> pieces_;
  uint64_t elements_ = 0;
};

}  // namespace atolld
