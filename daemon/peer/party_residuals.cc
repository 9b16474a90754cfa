#include "daemon/peer/party_residuals.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"
#include "compression/error_feedback.h"
#include "daemon/exchange/contribution.h"
#include "daemon/peer/residual.h"
#include "daemon/replica/state/state_digest.h"
#include "daemon/replica/state/state_memory.h"
#include "membership/history/run_codecs.h"

namespace atolld {
namespace {

constexpr char kUnsettled[] = ".next";

}  // namespace

PartyResiduals::PartyResiduals(Files& files, std::string dir, std::string peer,
                               const v1::RunSpec& spec)
    : files_(files), dir_(std::move(dir)), peer_(std::move(peer)), spec_(spec) {}

std::string PartyResiduals::Path(uint32_t party) const { return absl::StrCat(dir_, "/", party); }

absl::Status PartyResiduals::Clear() {
  RETURN_IF_ERROR(files_.MakeDirectories(dir_));
  ASSIGN_OR_RETURN(const std::vector<std::string> names, files_.List(dir_));
  for (const std::string& name : names) {
    RETURN_IF_ERROR(files_.Remove(absl::StrCat(dir_, "/", name)));
  }
  return absl::OkStatus();
}

absl::Status PartyResiduals::Settle(uint32_t party, const PartyOutcome& last) {
  const std::string unsettled = absl::StrCat(Path(party), kUnsettled);
  if (last.refused && files_.Exists(Path(party))) RETURN_IF_ERROR(files_.Remove(Path(party)));
  if (!files_.Exists(unsettled)) return absl::OkStatus();
  if (!last.taken) return files_.Remove(unsettled);
  if (last.carried != 1) RETURN_IF_ERROR(Scale(unsettled, last.carried));
  return files_.Rename(unsettled, Path(party));
}

absl::Status PartyResiduals::Scale(const std::string& path, float share) {
  std::vector<float> values;
  {
    ASSIGN_OR_RETURN(const std::unique_ptr<ReadableFile> file, files_.OpenToRead(path));
    values.resize(file->size() / sizeof(float));
    RETURN_IF_ERROR(file->ReadAt(0, BytesOf(absl::MakeSpan(values))));
  }
  CarryShare(share, absl::MakeSpan(values));
  return Write(path, values);
}

absl::Status PartyResiduals::Add(const std::string& path, absl::Span<float> update) {
  if (!files_.Exists(path)) return absl::OkStatus();
  std::vector<float> residual(update.size());
  {
    ASSIGN_OR_RETURN(const std::unique_ptr<ReadableFile> file, files_.OpenToRead(path));
    RETURN_IF_ERROR(file->ReadAt(0, BytesOf(absl::MakeSpan(residual))));
  }
  const std::vector<float> alone(update.begin(), update.end());
  RETURN_IF_ERROR(AddResidual(FeedbackDecay(spec_), residual, update));
  if (FirstNonFinite(update) == update.size()) return absl::OkStatus();
  std::copy(alone.begin(), alone.end(), update.begin());
  return FirstNonFinite(update) == update.size() ? files_.Remove(path) : absl::OkStatus();
}

absl::Status PartyResiduals::Write(const std::string& path, absl::Span<const float> values) {
  ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> file, files_.Create(path));
  return file->Append(BytesOf(values));
}

absl::Status PartyResiduals::Apply(uint32_t party, const PartyOutcome& last, uint64_t version,
                                   absl::Span<float> update) {
  RETURN_IF_ERROR(Settle(party, last));
  RETURN_IF_ERROR(Add(Path(party), update));
  ASSIGN_OR_RETURN(const LevelCodecs codecs, CodecsOf(spec_.exchange()));
  const Codec& codec = *codecs.updates.codec;
  const ChunkGrid grid(update.size(), spec_.exchange().chunk_elements());
  const Rounding rounding =
      ContributionRounding(spec_, codec, absl::StrCat(peer_, "/", party), version);
  ASSIGN_OR_RETURN(const Contribution sent, EncodeContribution(grid, codec, rounding, update));
  std::vector<float> lost(update.begin(), update.end());
  for (uint32_t chunk = 0; chunk < grid.chunks(); ++chunk) {
    const size_t offset = grid.Offset(chunk);
    const size_t elements = grid.Elements(chunk);
    RETURN_IF_ERROR(SubtractSent(codec, sent.chunks[chunk].span(),
                                 absl::MakeSpan(lost).subspan(offset, elements)));
    RETURN_IF_ERROR(codec.Decode(sent.chunks[chunk].span(), update.subspan(offset, elements)));
  }
  return Write(absl::StrCat(Path(party), kUnsettled), lost);
}

}  // namespace atolld
