#include "membership/run/utilisation.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace atolld {
namespace {

// A bound that keeps sums over all peers of a run from overflowing.
constexpr uint64_t kMostBytes = uint64_t{1} << 50;

}  // namespace

std::optional<v1::Utilisation> UtilisationOf(const v1::Ready& ready) {
  const double trained = ready.train_seconds();
  const double waited = ready.waited_seconds();
  if (!std::isfinite(trained) || !std::isfinite(waited) || trained <= 0 || waited <= 0) {
    return std::nullopt;
  }
  v1::Utilisation told;
  told.set_train_seconds(trained);
  told.set_waited_seconds(waited);
  told.set_hidden_bytes(std::min(ready.hidden_bytes(), kMostBytes));
  told.set_waited_bytes(std::min(ready.waited_bytes(), kMostBytes));
  return told;
}

void AddUtilisation(const v1::Utilisation& more, v1::Utilisation* sum) {
  sum->set_train_seconds(sum->train_seconds() + more.train_seconds());
  sum->set_waited_seconds(sum->waited_seconds() + more.waited_seconds());
  sum->set_hidden_bytes(sum->hidden_bytes() + more.hidden_bytes());
  sum->set_waited_bytes(sum->waited_bytes() + more.waited_bytes());
}

std::optional<double> TrainedShare(const v1::Utilisation& utilisation) {
  if (utilisation.train_seconds() <= 0) return std::nullopt;
  return utilisation.train_seconds() / (utilisation.train_seconds() + utilisation.waited_seconds());
}

std::optional<double> HiddenShare(const v1::Utilisation& utilisation) {
  const auto hidden = static_cast<double>(utilisation.hidden_bytes());
  const double all = hidden + static_cast<double>(utilisation.waited_bytes());
  if (all <= 0) return std::nullopt;
  return hidden / all;
}

}  // namespace atolld
