#include "daemon/exchange/contribution.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "absl/base/casts.h"
#include "compression/base/planted_bug.h"
#include "compression/base/status_macros.h"
#include "membership/experts/expert_parts.h"
#include "optimizer/aggregation_kernels.h"

namespace atolld {
namespace {

constexpr absl::string_view kRootDomain = "atoll.contribution.2";

constexpr size_t kPageBytes = kLeavesAPage * kLeafBytes;

// The bytes of leaves in a message: a whole number of leaves, well below the limit of a message.
constexpr size_t kMostLeavesBytes = kLeafBytes << 14;

Digest RootOf(uint64_t leaves, const Digest& top) {
  return DigestBuilder(kRootDomain).U64(leaves).Bytes(ToBytes(top)).Finish();
}

void AppendBits(double value, std::string* bytes) {
  const auto bits = absl::bit_cast<uint64_t>(value);
  for (int i = 0; i < 8; ++i) bytes->push_back(static_cast<char>(bits >> (8 * i)));
}

double ReadBits(absl::string_view bytes) {
  uint64_t bits = 0;
  for (int i = 0; i < 8; ++i) {
    bits |= static_cast<uint64_t>(static_cast<uint8_t>(bytes[static_cast<size_t>(i)])) << (8 * i);
  }
  return absl::bit_cast<double>(bits);
}

// Hashes the pieces that have no digest yet.
void HashWhatFollows(absl::Span<const absl::Span<const uint8_t>> pieces,
                     std::vector<Digest>* digests) {
  const std::vector<Digest> more = Sha256Each(pieces.subspan(digests->size()));
  digests->insert(digests->end(), more.begin(), more.end());
}

}  // namespace

std::string ContributionLeaves(absl::Span<const Digest> digests,
                               absl::Span<const ChunkNorms> norms) {
  std::string leaves;
  leaves.reserve(digests.size() * kLeafBytes);
  for (size_t c = 0; c < digests.size(); ++c) {
    leaves += ToBytes(digests[c]);
    AppendBits(norms[c].squared_norm, &leaves);
    AppendBits(norms[c].squared_distance, &leaves);
  }
  return leaves;
}

std::vector<v1::ContributionLeaves> LeavesInPages(absl::string_view leaves) {
  std::vector<v1::ContributionLeaves> pages;
  for (size_t at = 0; at < leaves.size(); at += kMostLeavesBytes) {
    pages.emplace_back().set_leaves(std::string(leaves.substr(at, kMostLeavesBytes)));
  }
  return pages;
}

MerkleTree PagesOf(absl::string_view leaves) {
  std::vector<Digest> pages;
  pages.reserve(leaves.size() / kPageBytes + 1);
  for (size_t at = 0; at < leaves.size(); at += kPageBytes) {
    pages.push_back(HashedItem(leaves.substr(at, kPageBytes)));
  }
  return MerkleTree(std::move(pages));
}

Digest ContributionRoot(absl::string_view leaves) {
  return ContributionRoot(leaves, PagesOf(leaves));
}

Digest ContributionRoot(absl::string_view leaves, const MerkleTree& pages) {
  return RootOf(leaves.size() / kLeafBytes, pages.items() == 0 ? Digest() : pages.top());
}

absl::string_view PageOf(absl::string_view leaves, uint32_t chunk) {
  return leaves.substr(chunk / kLeavesAPage * kPageBytes, kPageBytes);
}

absl::StatusOr<Leaf> ProvenLeaf(absl::string_view root, uint32_t chunks, uint32_t chunk,
                                absl::string_view page, absl::string_view path) {
  const uint32_t number = chunk / kLeavesAPage;
  const uint32_t pages = (chunks + kLeavesAPage - 1) / kLeavesAPage;
  const uint32_t in_page = std::min(kLeavesAPage, chunks - number * kLeavesAPage);
  if (chunk < chunks && page.size() == in_page * kLeafBytes) {
    const std::optional<Digest> top = MerkleTop(HashedItem(page), number, pages, path);
    if (top && ToBytes(RootOf(chunks, *top)) == root) return LeafOf(page, chunk % kLeavesAPage);
  }
  return absl::InvalidArgumentError("its leaf is not one of those of the signed root");
}

Leaf LeafOf(absl::string_view leaves, uint32_t chunk) {
  const absl::string_view bytes = leaves.substr(size_t{chunk} * kLeafBytes, kLeafBytes);
  Leaf leaf;
  std::memcpy(leaf.digest.data(), bytes.data(), leaf.digest.size());
  leaf.norms.squared_norm = ReadBits(bytes.substr(leaf.digest.size()));
  leaf.norms.squared_distance = ReadBits(bytes.substr(leaf.digest.size() + 8));
  return leaf;
}

double SquaredNormOf(absl::string_view leaves) {
  double sum = 0;
  for (uint32_t c = 0; c < leaves.size() / kLeafBytes; ++c) {
    sum = sum + LeafOf(leaves, c).norms.squared_norm;
  }
  return sum;
}

void SetNorms(std::vector<ChunkNorms> norms, Contribution* contribution) {
  contribution->norms = std::move(norms);
  contribution->leaves = ContributionLeaves(contribution->digests, contribution->norms);
  contribution->pages = PagesOf(contribution->leaves);
  contribution->root = ContributionRoot(contribution->leaves, contribution->pages);
}

uint64_t PeerPart(absl::string_view peer) {
  const Digest digest = Sha256(BytesOf(peer));
  uint64_t part = 0;
  for (size_t i = 0; i < sizeof(part); ++i) part |= static_cast<uint64_t>(digest[i]) << (8 * i);
  return part;
}

Rounding ContributionRounding(const v1::RunSpec& spec, const Codec& codec, absl::string_view peer,
                              uint64_t first_sample) {
  if (!spec.exchange().stochastic_rounding() || !codec.has_stochastic_rounding()) {
    return Rounding();
  }
  return {true, RoundingKey(spec.seed(), first_sample, PeerPart(peer))};
}

ChunkNorms WholeNorms(absl::Span<const ChunkNorms> chunks) {
  ChunkNorms whole;
  for (const ChunkNorms& chunk : chunks) {
    whole.squared_norm = whole.squared_norm + chunk.squared_norm;
    whole.squared_distance = whole.squared_distance + chunk.squared_distance;
  }
  return whole;
}

absl::StatusOr<double> MeasureChunk(const Codec& codec, absl::Span<const uint8_t> bytes,
                                    size_t elements) {
  if (codec.has_squared_norm()) return codec.SquaredNorm(bytes, elements);
  const std::unique_ptr<float[]> values(new float[elements]);
  RETURN_IF_ERROR(codec.Decode(bytes, absl::MakeSpan(values.get(), elements)));
  const double norm = SquaredNorm(values.get(), elements);
  if (!std::isfinite(norm)) return absl::InvalidArgumentError("it decodes to what is not finite");
  return norm;
}

absl::StatusOr<double> MeasureDistance(const Centre& centre, uint32_t chunk,
                                       absl::Span<const float> values) {
  if (centre.chunks.empty()) return SquaredNorm(values.data(), values.size());
  const std::unique_ptr<float[]> from(new float[values.size()]);
  RETURN_IF_ERROR(
      centre.codec->Decode(centre.chunks[chunk].span(), absl::MakeSpan(from.get(), values.size())));
  return SquaredDistance(values.data(), from.get(), values.size());
}

absl::StatusOr<std::vector<ChunkNorms>> NormsFrom(const Centre& centre, const ChunkGrid& grid,
                                                  const Codec& codec,
                                                  const Contribution& contribution) {
  std::vector<ChunkNorms> norms = contribution.norms;
  std::vector<float> decoded(grid.chunks() == 0 ? 0 : grid.Elements(0));
  for (uint32_t c = 0; c < grid.chunks(); ++c) {
    const absl::Span<float> values = absl::MakeSpan(decoded).first(grid.Elements(c));
    RETURN_IF_ERROR(codec.Decode(contribution.chunks[c].span(), values));
    ASSIGN_OR_RETURN(norms[c].squared_distance, MeasureDistance(centre, c, values));
  }
  return norms;
}

absl::StatusOr<Contribution> EncodeContribution(const ChunkGrid& grid, const Codec& codec,
                                                const Rounding& rounding,
                                                absl::Span<const float> values,
                                                absl::string_view owned) {
  if (values.size() != grid.elements()) {
    return absl::InvalidArgumentError(
        absl::StrCat(values.size(), " values for a grid of ", grid.elements()));
  }
  // All chunks are in one piece of memory, which is as long as the longest encoding.
  FreshBytes memory(MaxPayloadBytes(grid, codec) - PayloadTableBytes(grid));
  std::vector<absl::Span<const uint8_t>> pieces;
  pieces.reserve(grid.chunks());
  size_t used = 0;
  Contribution contribution;
  std::vector<ChunkNorms> norms;
  norms.reserve(grid.chunks());
  for (uint32_t c = 0; c < grid.chunks(); ++c) {
    if (!Covers(owned, grid.Part(c)) && !Planted(PlantedBug::kForeignExpertTaken)) {
      norms.push_back({});
      pieces.emplace_back();
      continue;
    }
    const absl::Span<const float> chunk = values.subspan(grid.Offset(c), grid.Elements(c));
    const absl::Span<uint8_t> out = memory.span().subspan(used);
    const absl::StatusOr<size_t> size =
        rounding.stochastic ? codec.EncodeStochastic(chunk, ChunkKey(rounding.key, c), out)
                            : codec.Encode(chunk, out);
    if (!size.ok()) return Annotate(size.status(), absl::StrCat("chunk ", c));
    // The norm is computed now, while the bytes are in the cache.
    const absl::StatusOr<double> norm = MeasureChunk(codec, out.first(*size), chunk.size());
    if (!norm.ok()) return Annotate(norm.status(), absl::StrCat("chunk ", c));
    norms.push_back({*norm, 0});
    pieces.push_back(out.first(*size));
    used += *size;
    if (pieces.size() % Sha256Together() == 0) HashWhatFollows(pieces, &contribution.digests);
  }
  HashWhatFollows(pieces, &contribution.digests);
  const SharedBytes bytes = std::move(memory).Share(used);
  contribution.chunks.reserve(grid.chunks());
  size_t begin = 0;
  for (const auto& piece : pieces) {
    contribution.chunks.push_back(bytes.Part(begin, piece.size()));
    begin += piece.size();
  }
  SetNorms(std::move(norms), &contribution);
  return contribution;
}

}  // namespace atolld
