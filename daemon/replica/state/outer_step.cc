#include "daemon/replica/state/outer_step.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compression/base/check.h"
#include "compression/base/status_macros.h"
#include "membership/history/header.h"

namespace atolld {

size_t FirstNonFinite(absl::Span<const float> values) {
  constexpr uint32_t kExponent = 0x7f800000u;
  for (size_t i = 0; i < values.size(); ++i) {
    uint32_t bits;
    std::memcpy(&bits, &values[i], sizeof bits);
    if ((bits & kExponent) == kExponent) return i;
  }
  return values.size();
}

EntryStep::EntryStep(const OuterRule* rule, const Codec* codec, OuterScalars scalars,
                     ChunkGrid grid)
    : rule_(rule), codec_(codec), scalars_(std::move(scalars)), grid_(grid) {}

absl::StatusOr<EntryStep> EntryStep::Make(const v1::EntryHeader& header) {
  ASSIGN_OR_RETURN(const OuterRule* rule, FindOuterRule(header.outer_rule()));
  ASSIGN_OR_RETURN(const Codec* codec, FindCodec(header.codec()));
  OuterScalars scalars = ScalarsOf(header);
  // A trial on one value: the rule itself knows which scalars it needs.
  const float mean = 0;
  float theta = 0;
  std::vector<float> values(rule->buffers().size(), 0.0f);
  std::vector<absl::Span<float>> buffers;
  for (float& value : values) buffers.push_back(absl::MakeSpan(&value, 1));
  RETURN_IF_ERROR(Annotate(
      rule->Step(scalars, absl::MakeConstSpan(&mean, 1), absl::MakeSpan(&theta, 1), buffers),
      absl::StrCat("entry ", header.version(), ": outer rule ", header.outer_rule())));
  return EntryStep(rule, codec, std::move(scalars),
                   ChunkGrid(header.range_elements(), header.chunk_elements()));
}

void EntryStep::StepRange(absl::Span<const float> mean, absl::Span<float> theta,
                          absl::Span<const absl::Span<float>> buffers) const {
  CHECK_OK(rule_->Step(scalars_, mean, theta, buffers));
}

absl::Status CheckPayload(const ChunkGrid& grid, const Codec& codec, const SharedBytes& payload) {
  ASSIGN_OR_RETURN(const std::vector<SharedBytes> chunks, SplitPayload(grid, codec, payload));
  std::vector<float> values(grid.chunks() == 0 ? 0 : grid.Elements(0));
  for (uint32_t chunk = 0; chunk < grid.chunks(); ++chunk) {
    const absl::Span<float> decoded = absl::MakeSpan(values).subspan(0, grid.Elements(chunk));
    RETURN_IF_ERROR(
        Annotate(codec.Decode(chunks[chunk].span(), decoded), absl::StrCat("chunk ", chunk)));
    const size_t bad = FirstNonFinite(decoded);
    if (bad < decoded.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("chunk ", chunk, ": value ", bad, " is not finite"));
    }
  }
  return absl::OkStatus();
}

}  // namespace atolld
