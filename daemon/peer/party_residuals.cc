#include "daemon/peer/party_residuals.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"
#include "compression/error_feedback.h"
#include "daemon/exchange/contribution.h"
#include "daemon/peer/residual.h"
#include "daemon/replica/state/state_digest.h"
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

absl::Status PartyResiduals::Settle(uint32_t party, bool taken) {
  const std::string unsettled = absl::StrCat(Path(party), kUnsettled);
  if (!files_.Exists(unsettled)) return absl::OkStatus();
  return taken ? files_.Rename(unsettled, Path(party)) : files_.Remove(unsettled);
}

absl::Status PartyResiduals::Write(const std::string& path, absl::Span<const float> values) {
  ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> file, files_.Create(path));
  return file->Append(BytesOf(values));
}

absl::Status PartyResiduals::Apply(uint32_t party, bool taken, uint64_t version,
                                   absl::Span<float> update) {
  RETURN_IF_ERROR(Settle(party, taken));
  if (files_.Exists(Path(party))) {
    std::vector<float> residual(update.size());
    ASSIGN_OR_RETURN(const std::unique_ptr<ReadableFile> file, files_.OpenToRead(Path(party)));
    RETURN_IF_ERROR(file->ReadAt(0, BytesOf(absl::MakeSpan(residual))));
    RETURN_IF_ERROR(AddResidual(FeedbackDecay(spec_), residual, update));
  }
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
