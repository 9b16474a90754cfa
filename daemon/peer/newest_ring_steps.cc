#include "daemon/peer/newest_ring_steps.h"

#include <utility>
#include <vector>

#include "daemon/replica/state/replica.h"
#include "membership/history/run_codecs.h"
#include "membership/masking/masked_terms.h"

namespace atolld {
namespace {

std::shared_ptr<const RingSteps> FirstSteps(const ChunkGrid& grid, const MaskedTerms& terms) {
  return std::make_shared<const RingSteps>(
      FirstRingSteps(terms.ring, grid.elements(), terms.first_range));
}

// Returns nullptr if this peer does not hold the newest mean.
std::shared_ptr<const RingSteps> StepsAfterNewest(const Replica& replica, const ChunkGrid& grid,
                                                  const Codec& codec, const MaskedTerms& terms) {
  if (replica.version() == 0) return FirstSteps(grid, terms);
  const absl::StatusOr<Entry> entry = replica.ReadEntry(replica.version());
  if (!entry.ok()) return nullptr;
  const absl::StatusOr<std::vector<SharedBytes>> chunks = SplitPayload(grid, codec, entry->payload);
  if (!chunks.ok()) return nullptr;
  std::vector<float> mean(grid.elements());
  for (uint32_t c = 0; c < grid.chunks(); ++c) {
    const absl::Span<float> values = absl::MakeSpan(mean).subspan(grid.Offset(c), grid.Elements(c));
    if (!codec.Decode((*chunks)[c].span(), values).ok()) return nullptr;
  }
  return std::make_shared<const RingSteps>(RingStepsAfter(terms.ring, mean, terms.first_range));
}

}  // namespace

void NewestRingSteps::Follow(const v1::RunSpec& spec) {
  spec_ = spec;
  codecs_ = CodecsOf(spec.exchange()).value();
  Load();
}

void NewestRingSteps::Load() {
  if (codecs_.means.codec == nullptr || loading_ || loaded() || !keeper_.has_state()) return;
  loading_ = true;
  struct Read {
    bool done = false;
    std::shared_ptr<const RingSteps> steps;
  };
  auto read = std::make_shared<Read>();
  const MaskedTerms terms = MaskedTermsOf(spec_, v1::MaskAttempt());
  keeper_.ReadNewest(
      [read, terms, grid = keeper_.grid(), codec = codecs_.means.codec](const Replica& replica) {
        read->steps = StepsAfterNewest(replica, grid, *codec, terms);
        read->done = true;
      },
      guard_.Wrap([this, read](uint64_t version) {
        loading_ = false;
        loaded_ = read->done;  // if false, the replica is being opened, and Load follows
        version_ = version;
        steps_ = read->steps;
        if (!loaded_) return;
        if (!loaded()) return Load();
        if (later_) std::exchange(later_, nullptr)();
      }));
}

std::shared_ptr<const RingSteps> NewestRingSteps::First() const {
  return FirstSteps(keeper_.grid(), MaskedTermsOf(spec_, v1::MaskAttempt()));
}

bool NewestRingSteps::Loaded(Task later) {
  if (loaded()) return true;
  later_ = std::move(later);
  Load();
  return false;
}

}  // namespace atolld
