#include "daemon/exchange/contribution.h"

#include <utility>

#include "daemon/exchange/chunk_work.h"
#include "daemon/status_macros.h"

namespace atolld {

Digest ContributionRoot(absl::Span<const SharedBytes> chunks) {
  std::vector<absl::Span<const uint8_t>> pieces;
  pieces.reserve(chunks.size());
  for (const SharedBytes& chunk : chunks) pieces.push_back(chunk.span());
  std::vector<uint8_t> digests;
  digests.reserve(chunks.size() * sizeof(Digest));
  for (const Digest& digest : Sha256Each(pieces)) {
    digests.insert(digests.end(), digest.begin(), digest.end());
  }
  return Sha256(digests);
}

Rounding ContributionRounding(const v1::RunSpec& spec, absl::string_view peer,
                              uint64_t first_sample) {
  const absl::StatusOr<const Codec*> codec = FindCodec(spec.exchange().codec());
  if (!spec.exchange().stochastic_rounding() || !codec.ok() ||
      !(*codec)->has_stochastic_rounding()) {
    return Rounding();
  }
  return {true, RoundingKey(spec.seed(), first_sample, PeerPart(peer))};
}

absl::StatusOr<Contribution> EncodeContribution(const ChunkGrid& grid, const Codec& codec,
                                                const Rounding& rounding,
                                                absl::Span<const float> values) {
  if (values.size() != grid.elements()) {
    return absl::InvalidArgumentError(
        absl::StrCat(values.size(), " values for a grid of ", grid.elements()));
  }
  // One piece of memory for all, as long as the longest encoding.
  FreshBytes memory(MaxPayloadBytes(grid, codec) - PayloadTableBytes(grid));
  std::vector<size_t> ends;
  ends.reserve(grid.chunks());
  size_t used = 0;
  for (uint32_t c = 0; c < grid.chunks(); ++c) {
    const absl::Span<const float> chunk = values.subspan(grid.Offset(c), grid.Elements(c));
    const absl::Span<uint8_t> out = memory.span().subspan(used);
    const absl::StatusOr<size_t> size =
        rounding.stochastic ? codec.EncodeStochastic(chunk, ChunkKey(rounding.key, c), out)
                            : codec.Encode(chunk, out);
    if (!size.ok()) return Annotate(size.status(), absl::StrCat("chunk ", c));
    used += *size;
    ends.push_back(used);
  }
  const SharedBytes bytes = std::move(memory).Share(used);
  Contribution contribution;
  contribution.chunks.reserve(grid.chunks());
  size_t begin = 0;
  for (const size_t end : ends) {
    contribution.chunks.push_back(bytes.Part(begin, end - begin));
    begin = end;
  }
  contribution.root = ContributionRoot(contribution.chunks);
  return contribution;
}

}  // namespace atolld
