#include "daemon/peer/eager_guess.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/base/casts.h"
#include "absl/strings/str_cat.h"
#include "compression/base/planted_bug.h"
#include "compression/base/status_macros.h"
#include "daemon/replica/state/state_memory.h"
#include "membership/history/header.h"
#include "membership/history/run_codecs.h"
#include "optimizer/outer_rule.h"

namespace atolld {
namespace {

// Computes D~, chunk by chunk.
class GuessedMean {
 public:
  GuessedMean(const LevelCodecs& codecs, std::vector<SharedBytes> newest,
              std::shared_ptr<const Contribution> now, EagerGuess::Share before)
      : codecs_(codecs),
        newest_(std::move(newest)),
        now_(std::move(now)),
        before_(std::move(before)) {}

  bool known() const { return !newest_.empty() || now_ != nullptr; }

  absl::Status Read(uint32_t chunk, absl::Span<float> mean) {
    if (newest_.empty()) return ReadUpdate(*now_, chunk, mean);
    RETURN_IF_ERROR(codecs_.means.codec->Decode(newest_[chunk].span(), mean));
    if (now_ == nullptr || before_.update == nullptr) return absl::OkStatus();
    now_values_.resize(mean.size());
    before_values_.resize(mean.size());
    RETURN_IF_ERROR(ReadUpdate(*now_, chunk, absl::MakeSpan(now_values_)));
    RETURN_IF_ERROR(ReadUpdate(*before_.update, chunk, absl::MakeSpan(before_values_)));
    for (size_t i = 0; i < mean.size(); ++i) {
      const float gave =
          Planted(PlantedBug::kGuessKeepsStale) ? 0 : before_.scale * before_values_[i];
      mean[i] += before_.share * (now_values_[i] - gave);
    }
    return absl::OkStatus();
  }

 private:
  absl::Status ReadUpdate(const Contribution& update, uint32_t chunk,
                          absl::Span<float> values) const {
    return codecs_.updates.codec->Decode(update.chunks[chunk].span(), values);
  }

  const LevelCodecs codecs_;
  const std::vector<SharedBytes> newest_;  // empty if this peer does not hold it
  const std::shared_ptr<const Contribution> now_;
  const EagerGuess::Share before_;
  std::vector<float> now_values_, before_values_;
};

// Returns the newest entry's encoded mean, or an empty vector if this peer does not hold it.
std::vector<SharedBytes> NewestMean(const Replica& replica, const Codec& codec) {
  if (replica.version() == 0) return {};
  const absl::StatusOr<Entry> entry = replica.ReadEntry(replica.version());
  if (!entry.ok()) return {};
  absl::StatusOr<std::vector<SharedBytes>> chunks =
      SplitPayload(replica.grid(), codec, entry->payload);
  return chunks.ok() ? *std::move(chunks) : std::vector<SharedBytes>();
}

// Makes the outer step on a copy of the state and writes the result to `guess`.
absl::Status StepCopy(const Replica& replica, GuessedMean& guessed, absl::Span<float> guess) {
  const v1::OuterSpec& outer = replica.genesis().spec().outer();
  ASSIGN_OR_RETURN(const OuterRule* const rule, FindOuterRule(outer.rule()));
  ASSIGN_OR_RETURN(const OuterScalars scalars, rule->Scalars(OuterSettingsOf(outer)));
  const ChunkGrid& grid = replica.grid();
  std::vector<float> mean(grid.Elements(0));
  std::vector<std::vector<float>> copies(rule->buffers().size());
  for (uint32_t chunk = 0; chunk < grid.chunks(); ++chunk) {
    const size_t offset = grid.Offset(chunk), size = grid.Elements(chunk);
    const absl::Span<float> values = absl::MakeSpan(mean).subspan(0, size);
    RETURN_IF_ERROR(guessed.Read(chunk, values));
    std::vector<absl::Span<float>> buffers;
    for (size_t i = 0; i < copies.size(); ++i) {
      const absl::Span<const float> from = replica.buffer(i).subspan(offset, size);
      copies[i].assign(from.begin(), from.end());
      buffers.push_back(absl::MakeSpan(copies[i]));
    }
    RETURN_IF_ERROR(rule->Step(scalars, values, guess.subspan(offset, size), buffers));
  }
  return absl::OkStatus();
}

absl::Status WriteGuess(const Replica& replica, GuessedMean& guessed, absl::Span<float> guess) {
  const absl::Span<const float> theta = replica.theta();
  std::copy(theta.begin(), theta.end(), guess.begin());
  if (!guessed.known()) return absl::OkStatus();
  RETURN_IF_ERROR(StepCopy(replica, guessed, guess));
  const size_t bad = FirstNonFinite(guess);
  if (bad == guess.size()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the guess of version ", replica.version() + 1,
                                                 ": value ", bad, " is not finite"));
}

}  // namespace

EagerGuess::EagerGuess(ReplicaKeeper& keeper, const OwnUpdate& own) : keeper_(keeper), own_(own) {}

void EagerGuess::OnCommitted(const v1::EntryHeader& header) {
  before_ = {};
  version_ = header.version();
  const v1::Contributor* const own = own_.TakenBy(header);
  if (own == nullptr) return;
  double weights = 0;
  for (const v1::Contributor& contributor : header.contributors()) {
    weights += double{absl::bit_cast<float>(contributor.weight_bits())};
  }
  before_.update = own_.contribution();
  before_.share = static_cast<float>(double{absl::bit_cast<float>(own->weight_bits())} / weights);
  if (own->scale_bits() != 0) before_.scale = absl::bit_cast<float>(own->scale_bits());
}

void EagerGuess::Make(std::function<void(absl::Status)> done) {
  auto status = std::make_shared<absl::Status>(absl::UnavailableError("no replica is here"));
  const uint64_t version = keeper_.version();
  const Share before = version == version_ ? before_ : Share();
  keeper_.ReadNewest(
      [status, version, before, now = own_.contribution(),
       memory = keeper_.memory()](const Replica& replica) {
        if (memory == nullptr) return;
        if (replica.version() != version) {
          *status = absl::FailedPreconditionError(
              absl::StrCat("version ", replica.version(), " is here by now"));
          return;
        }
        const absl::StatusOr<LevelCodecs> codecs = CodecsOf(replica.genesis().spec().exchange());
        *status = codecs.status();
        if (!codecs.ok()) return;
        GuessedMean guessed(*codecs, NewestMean(replica, *codecs->means.codec), now, before);
        *status = memory->NeedGuess();
        if (status->ok()) *status = WriteGuess(replica, guessed, memory->guess());
      },
      guard_.Wrap([status, done = std::move(done)](uint64_t) { done(*status); }));
}

}  // namespace atolld
