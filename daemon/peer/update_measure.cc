#include "daemon/peer/update_measure.h"

#include <utility>
#include <vector>

#include "absl/base/casts.h"
#include "compression/base/check.h"
#include "membership/history/run_codecs.h"

namespace atolld {
void UpdateMeasure::Follow(const v1::ExchangeSpec& exchange, const LevelCodecs& codecs) {
  codecs_ = codecs;
  const AggregationRule rule = RuleOf(exchange).value();
  if (rule.settings().rule != "mean") rule_ = rule;
  Load();
}

void UpdateMeasure::Load() {
  if (!from_centre() || !keeper_.has_state() || Loaded()) return;
  loaded_ = false;
  auto read = std::make_shared<std::shared_ptr<const Centre>>();
  keeper_.ReadNewest(
      [read, codec = codecs_.means.codec, grid = keeper_.grid()](const Replica& replica) {
        Centre centre{codec, {}};
        if (replica.version() > 0) {
          const absl::StatusOr<Entry> entry = replica.ReadEntry(replica.version());
          if (!entry.ok()) return;
          absl::StatusOr<std::vector<SharedBytes>> chunks =
              SplitPayload(grid, *codec, entry->payload);
          if (!chunks.ok()) return;
          centre.chunks = *std::move(chunks);
        }
        *read = std::make_shared<const Centre>(std::move(centre));
      },
      guard_.Wrap([this, read](uint64_t version) {
        centre_ = *read;
        version_ = version;
        loaded_ = true;
        if (!Loaded()) return Load();
        if (later_) std::exchange(later_, nullptr)();
      }));
}

bool UpdateMeasure::Tell(const std::shared_ptr<const Contribution>& contribution, v1::Ready* ready,
                         Task later) {
  if (!from_centre()) {
    ready->set_squared_norm_bits(
        absl::bit_cast<uint64_t>(WholeNorms(contribution->norms).squared_norm));
    return true;
  }
  if (!Loaded()) {
    later_ = std::move(later);
    Load();
    return false;
  }
  if (centre_ != nullptr && (measured_ != contribution || measured_from_ != version_)) {
    auto norms = std::make_shared<absl::StatusOr<std::vector<ChunkNorms>>>(absl::UnknownError(""));
    keeper_.RunExclusive(
        [norms, contribution, centre = centre_, grid = keeper_.grid(),
         codec = codecs_.updates.codec] {
          *norms = NormsFrom(*centre, grid, *codec, *contribution);
        },
        guard_.Wrap([this, norms, contribution, version = version_, later = std::move(later)] {
          CHECK_OK(norms->status());  // both were decoded before
          norms_ = WholeNorms(**norms);
          measured_ = contribution;
          measured_from_ = version;
          later();
        }));
    return false;
  }
  const ChunkNorms norms = centre_ != nullptr ? norms_ : WholeNorms(contribution->norms);
  ready->set_squared_norm_bits(absl::bit_cast<uint64_t>(norms.squared_norm));
  ready->set_squared_distance_bits(
      centre_ != nullptr ? absl::bit_cast<uint64_t>(norms.squared_distance) : 0);
  return true;
}

void UpdateMeasure::Fill(ExchangeSettings* settings) const {
  settings->rule = rule_;
  if (Loaded()) settings->centre = centre_;
}

}  // namespace atolld
