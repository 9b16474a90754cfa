#include "daemon/exchange/contribution.h"

#include <utility>

#include "daemon/status_macros.h"

namespace atolld {

Digest ContributionRoot(absl::Span<const SharedBytes> chunks) {
  std::vector<uint8_t> digests;
  digests.reserve(chunks.size() * sizeof(Digest));
  for (const SharedBytes& chunk : chunks) {
    const Digest digest = Sha256(chunk.span());
    digests.insert(digests.end(), digest.begin(), digest.end());
  }
  return Sha256(digests);
}

absl::StatusOr<Contribution> EncodeContribution(const ChunkGrid& grid, const Codec& codec,
                                                absl::Span<const float> values) {
  if (values.size() != grid.elements()) {
    return absl::InvalidArgumentError(
        absl::StrCat(values.size(), " values for a grid of ", grid.elements()));
  }
  Contribution contribution;
  contribution.chunks.reserve(grid.chunks());
  for (uint32_t c = 0; c < grid.chunks(); ++c) {
    std::vector<uint8_t> bytes(codec.MaxEncodedBytes(grid.Elements(c)));
    const absl::StatusOr<size_t> size =
        codec.Encode(values.subspan(grid.Offset(c), grid.Elements(c)), absl::MakeSpan(bytes));
    if (!size.ok()) return Annotate(size.status(), absl::StrCat("chunk ", c));
    bytes.resize(*size);
    contribution.chunks.emplace_back(std::move(bytes));
  }
  contribution.root = ContributionRoot(contribution.chunks);
  return contribution;
}

}  // namespace atolld
