#include "daemon/replica/state/state_memory.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compression/base/bitmap.h"
#include "compression/base/check.h"
#include "compression/base/planted_bug.h"
#include "compression/base/status_macros.h"
#include "daemon/replica/state/state_digest.h"
#include "membership/history/header.h"
#include "membership/history/mean_records.h"
#include "membership/history/slice_shares.h"
#include "membership/history/state_buffers.h"

namespace atolld {
namespace {

std::vector<std::string> BufferNames(const v1::Genesis& genesis) {
  absl::StatusOr<std::vector<std::string>> names = StateBuffers(genesis.spec());
  CHECK_OK(names.status());
  return *std::move(names);
}

// Returns what the entry steps: all that it covers but the chunks of experts that nobody has
// trained.
FragmentMap SteppedBy(const v1::EntryHeader& header, const ChunkGrid& grid, FragmentMap covers) {
  if (Planted(PlantedBug::kUnownedSteps)) return covers;
  for (const v1::ShardRecord& shard : header.records().shards()) {
    ForEachRun(header.records(), shard,
               [&](uint32_t first, uint32_t chunks, const v1::ContributorSet& set) {
                 if (chunks == 0 || CountBits(set.contributors()) > 0) return;
                 const uint32_t last = first + chunks - 1;
                 covers.Remove(grid.Offset(first),
                               grid.Offset(last) + grid.Elements(last) - grid.Offset(first));
               });
  }
  return covers;
}

}  // namespace

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
                     std::optional<ControlVariate> control, ChunkGrid grid, FragmentMap map,
                     std::vector<float> shares)
    : rule_(rule),
      codec_(codec),
      scalars_(std::move(scalars)),
      control_(control),
      grid_(grid),
      map_(std::move(map)),
      shares_(std::move(shares)) {}

absl::StatusOr<EntryStep> EntryStep::Make(const Fragments& fragments,
                                          const v1::EntryHeader& header) {
  const std::string context = absl::StrCat("entry ", header.version());
  const absl::StatusOr<const OuterRule*> found = FindOuterRule(header.outer_rule());
  if (!found.ok()) return Annotate(found.status(), context);
  const absl::StatusOr<const Codec*> codec = FindCodec(header.codec());
  if (!codec.ok()) return Annotate(codec.status(), context);
  const OuterRule* const rule = *found;
  OuterScalars scalars = ScalarsOf(header);
  // A trial on one value: the rule itself knows which scalars it needs.
  const float mean = 0;
  float theta = 0;
  std::vector<float> values(rule->buffers().size(), 0.0f);
  std::vector<absl::Span<float>> buffers;
  for (float& value : values) buffers.push_back(absl::MakeSpan(&value, 1));
  RETURN_IF_ERROR(Annotate(
      rule->Step(scalars, absl::MakeConstSpan(&mean, 1), absl::MakeSpan(&theta, 1), buffers),
      absl::StrCat(context, ": outer rule ", header.outer_rule())));
  std::optional<ControlVariate> control;
  const absl::StatusOr<ControlVariate> made = ControlVariate::Make(scalars);
  if (made.ok()) control = *made;
  if (!made.ok() && !absl::IsNotFound(made.status())) {
    return Annotate(made.status(), context);
  }
  const ChunkGrid grid(header.range_elements(), header.chunk_elements());
  return EntryStep(rule, *codec, std::move(scalars), control, grid,
                   SteppedBy(header, grid, fragments.Of(header.version())),
                   SliceShares(fragments, header));
}

absl::Status EntryStep::DecodeMean(uint32_t chunk, absl::Span<const uint8_t> encoded,
                                   absl::Span<float> mean) const {
  RETURN_IF_ERROR(codec_->Decode(encoded, mean));
  if (shares_.empty()) return absl::OkStatus();
  for (float& value : mean) value *= shares_[chunk];
  return absl::OkStatus();
}

void EntryStep::StepRange(absl::Span<const float> mean, absl::Span<float> theta,
                          absl::Span<const absl::Span<float>> buffers) const {
  CHECK(buffers.size() == rule_->buffers().size() + (control_ ? 1 : 0));
  CHECK_OK(rule_->Step(scalars_, mean, theta, buffers.first(rule_->buffers().size())));
  if (control_) control_->Step(mean, buffers.back());
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

absl::StatusOr<StateMemory::Buffers> StateMemory::MakeBuffers(const v1::Genesis& genesis,
                                                              const std::string& folder) {
  Buffers buffers;
  for (size_t i = 0; i < BufferNames(genesis).size(); ++i) {
    ASSIGN_OR_RETURN(std::unique_ptr<ValueMemory> buffer,
                     ValueMemory::Make(genesis.manifest().elements(), folder));
    buffers.push_back(std::move(buffer));
  }
  return buffers;
}

StateMemory::StateMemory(const v1::Genesis& genesis, absl::Span<float> theta, Buffers buffers)
    : theta_(theta), names_(BufferNames(genesis)), buffers_(std::move(buffers)) {
  CHECK(theta.size() == genesis.manifest().elements());
  CHECK(buffers_.size() == names_.size());
}

void StateMemory::Release() const {
  for (const std::unique_ptr<ValueMemory>& buffer : buffers_) buffer->Release();
}

absl::Status StateMemory::Load(const SnapshotReader& snapshot) {
  const BlockMap& map = snapshot.map();
  for (uint64_t block = 0; block < map.blocks(); ++block) {
    const int buffer = map.Buffer(block);
    const bool last = buffer > 0 && static_cast<size_t>(buffer) == buffers_.size();
    if (last && Planted(PlantedBug::kJoinerSkipsBuffer)) break;
    const absl::Span<float> values =
        buffer == 0 ? theta_ : buffers_[static_cast<size_t>(buffer) - 1]->values();
    RETURN_IF_ERROR(snapshot.ReadBlock(
        block, BytesOf(values).subspan(map.InBuffer(block) * kBlockBytes, map.Bytes(block))));
  }
  version_ = snapshot.info().version();
  return absl::OkStatus();
}

void StateMemory::Step(const EntryStep& step, const SharedBytes& payload,
                       absl::Span<float> difference) {
  CHECK(difference.empty() || difference.size() == theta_.size());
  const ChunkGrid& grid = step.grid();
  const FragmentMap& covers = step.covers();
  CHECK(covers.elements() == grid.elements());
  const absl::StatusOr<std::vector<SharedBytes>> chunks = SplitPayload(grid, step.codec(), payload);
  CHECK_OK(chunks.status());
  if (!covers.IsFlat(theta_.size())) std::fill(difference.begin(), difference.end(), 0.0f);
  std::vector<float> decoded(grid.Elements(0));
  for (uint32_t chunk = 0; chunk < grid.chunks(); ++chunk) {
    const absl::Span<float> mean = absl::MakeSpan(decoded).subspan(0, grid.Elements(chunk));
    CHECK_OK(step.DecodeMean(chunk, (*chunks)[chunk].span(), mean));
    const uint64_t begin = grid.Offset(chunk);
    for (const FragmentMap::Piece& piece : covers.Pieces(begin, mean.size())) {
      StepPiece(step, piece.first, mean.subspan(piece.at - begin, piece.count), difference);
    }
  }
  if (Planted(PlantedBug::kFragmentStepsAll)) StepOthers(step);
  ++version_;
}

// Steps the values of the flat vector from `first` on by their mean.
void StateMemory::StepPiece(const EntryStep& step, uint64_t first, absl::Span<const float> mean,
                            absl::Span<float> difference) {
  const absl::Span<float> theta = theta_.subspan(first, mean.size());
  std::vector<absl::Span<float>> buffers;
  for (const std::unique_ptr<ValueMemory>& buffer : buffers_) {
    buffers.push_back(buffer->values().subspan(first, mean.size()));
  }
  if (difference.empty()) {
    step.StepRange(mean, theta, buffers);
    return;
  }
  const absl::Span<float> moved = difference.subspan(first, mean.size());
  std::copy(theta.begin(), theta.end(), moved.begin());
  step.StepRange(mean, theta, buffers);
  for (size_t i = 0; i < moved.size(); ++i) moved[i] = theta[i] - moved[i];
}

// The planted bug kFragmentStepsAll: steps the values that the entry does not cover by a mean of
// zeros.
void StateMemory::StepOthers(const EntryStep& step) {
  uint64_t begin = 0;
  const auto until = [&](uint64_t end) {
    if (end > begin) StepPiece(step, begin, std::vector<float>(end - begin, 0.0f), {});
  };
  for (const FragmentMap::Piece& piece : step.covers().pieces()) {
    until(piece.first);
    begin = piece.first + piece.count;
  }
  until(theta_.size());
}

absl::Span<const float> StateMemory::Buffer(int buffer) const {
  return buffer == 0 ? theta_ : buffers_[static_cast<size_t>(buffer) - 1]->values();
}

absl::Span<const float> StateMemory::Control() const {
  if (names_.empty() || names_.back() != kControlBuffer) return {};
  return buffers_.back()->values();
}

v1::SnapshotInfo StateMemory::Describe() const {
  v1::SnapshotInfo info;
  info.set_version(version_);
  for (int i = 0; i <= static_cast<int>(buffers_.size()); ++i) {
    v1::SnapshotBuffer* buffer = info.add_buffers();
    buffer->set_name(i == 0 ? kThetaName : names_[static_cast<size_t>(i) - 1]);
    buffer->set_elements(theta_.size());
    for (const Digest& leaf : TreeLeaves(BytesOf(Buffer(i)))) buffer->add_leaves(ToBytes(leaf));
  }
  info.set_state_digest(ToBytes(StateDigestOf(info)));
  return info;
}

absl::Status StateMemory::Write(Files& files, const std::string& path,
                                v1::SnapshotInfo info) const {
  const std::string temporary = absl::StrCat(path, ".tmp");
  ASSIGN_OR_RETURN(const std::unique_ptr<SnapshotWriter> writer,
                   SnapshotWriter::Create(files, temporary, std::move(info)));
  const BlockMap& map = writer->map();
  for (uint64_t block = 0; block < map.blocks(); ++block) {
    RETURN_IF_ERROR(Annotate(
        writer->AppendBlock(BytesOf(Buffer(map.Buffer(block)))
                                .subspan(map.InBuffer(block) * kBlockBytes, map.Bytes(block))),
        temporary));
  }
  return writer->Finish(path);
}

Digest StateMemory::StateDigest() const { return StateDigestOf(Describe()); }

}  // namespace atolld
