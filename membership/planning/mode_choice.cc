#include "membership/planning/mode_choice.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "membership/history/fragment.h"
#include "optimizer/outer_advice.h"

namespace atolld {
namespace {

// See PredictStreaming.
constexpr uint32_t kLeastOfWholeRounds = 4;

bool IsWholeRound(const ModeQuestion& question, uint32_t overlap_steps) {
  return overlap_steps > kFreeOverlapSteps && overlap_steps >= question.steps;
}

// Returns 2, 4, 8, ...: as many fragments as have a chunk each and are exchanged often enough.
uint32_t MostFragments(const ModeQuestion& question) {
  const uint64_t chunks =
      (question.parameters + question.chunk_elements - 1) / question.chunk_elements;
  uint32_t most = 1;
  while (2 * most <= kMostFragments && 2 * most <= chunks &&
         uint64_t{2} * most * question.steps <= kMostStepsOfFragment) {
    most *= 2;
  }
  return most;
}

// Returns the shapes in order of preference, as far as they are possible in a round of `steps`
// steps.
std::vector<ModeShape> ShapesToTry(const ModeQuestion& question) {
  std::vector<ModeShape> shapes = {{"sync", 1, 0}};
  const bool may_be_whole = MostFragments(question) >= kLeastOfWholeRounds;
  for (const uint32_t overlap : OverlapsToTry(question.steps)) {
    if (may_be_whole || !IsWholeRound(question, overlap)) {
      shapes.push_back({"streaming", 1, overlap});
    }
  }
  shapes.push_back({"eager", 1, 0});
  return shapes;
}

std::string Percent(double share) { return absl::StrFormat("%.1f %%", 100 * share); }

}  // namespace

std::vector<uint32_t> OverlapsToTry(uint32_t steps) {
  std::vector<uint32_t> overlaps;
  for (const uint32_t overlap : {1u, 2u, 5u}) {
    if (overlap < steps) overlaps.push_back(overlap);
  }
  if (steps > 0) overlaps.push_back(steps);
  return overlaps;
}

ModeOption PredictMode(const ModeQuestion& question, const ModeShape& shape,
                       const LevelCodecs& codecs) {
  ModeOption option;
  option.shape = shape;
  option.codec = codecs.name();
  const uint64_t values =
      FragmentValues(question.parameters, question.chunk_elements, shape.fragments);
  option.exchange = FastestExchange(question.links, question.plan,
                                    EncodedSizeOf(values, question.chunk_elements, codecs),
                                    question.chunk_elements, question.assumed);
  option.round = PredictRound(shape, question.steps, question.step_seconds, option.exchange);
  return option;
}

ModeOption PredictStreaming(const ModeQuestion& question, uint32_t overlap_steps, double share,
                            const LevelCodecs& codecs) {
  const uint32_t most = MostFragments(question);
  const bool whole = IsWholeRound(question, overlap_steps);
  const uint32_t least = whole ? std::min(kLeastOfWholeRounds, most) : 1;
  ModeOption option;
  for (uint32_t fragments = least; fragments <= most; fragments *= 2) {
    option = PredictMode(question, {"streaming", fragments, overlap_steps}, codecs);
    if (option.round.utilisation() >= share) break;
  }
  return option;
}

// An exchange that may take the whole round is waited for as one of mode "eager" is.
uint32_t LeastStepsOf(const ModeQuestion& question, const ModeOption& option, double share) {
  const bool whole =
      option.shape.kind == "streaming" && IsWholeRound(question, option.shape.overlap_steps);
  const ModeShape shape = whole ? ModeShape{"eager", 1, 0} : option.shape;
  return LeastSteps(shape, question.step_seconds, share, option.exchange);
}

namespace {

struct Search {
  // True if `best` reaches the share and is the first that does; otherwise `best` is the nearest.
  bool enough = false;
  ModeOption best;
  // If none reaches it: the numbers of steps with which a shape that was tried would reach it.
  std::set<uint32_t> steps;
};

Search SearchModes(const ModeQuestion& question, double share,
                   const std::vector<LevelCodecs>& codecs,
                   const std::function<bool(const ModeShape&)>& allowed) {
  Search search;
  for (const ModeShape& shape : ShapesToTry(question)) {
    for (const LevelCodecs& one : codecs) {
      const ModeOption option = shape.kind == "streaming"
                                    ? PredictStreaming(question, shape.overlap_steps, share, one)
                                    : PredictMode(question, shape, one);
      if (shape.kind != "sync" && !allowed(option.shape)) continue;
      if (option.round.utilisation() >= share) return {true, option, {}};
      search.steps.insert(LeastStepsOf(question, option, share));
      if (search.best.codec.empty() ||
          option.round.utilisation() > search.best.round.utilisation()) {
        search.best = option;
      }
    }
  }
  return search;
}

}  // namespace

absl::StatusOr<ModeOption> ChooseMode(const ModeQuestion& question, double share,
                                      const std::vector<LevelCodecs>& codecs,
                                      const std::function<bool(const ModeShape&)>& allowed) {
  const Search found = SearchModes(question, share, codecs, allowed);
  if (found.enough) return found.best;
  ModeQuestion more = question;
  Search then = found;
  for (const uint32_t steps : found.steps) {
    // With more steps a mode may have fewer fragments, and not reach the share after all.
    more.steps = steps;
    then = SearchModes(more, share, codecs, allowed);
    if (then.enough) break;
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "no mode trains ", Percent(share), " of the time by the plan: ", ModeText(found.best.shape),
      " with ", found.best.codec, " comes nearest with ", Percent(found.best.round.utilisation()),
      "; ", ModeText(then.best.shape), " with ", then.best.codec,
      " reaches it with [inner] steps = ", more.steps, " instead of ", question.steps));
}

std::string WhyMode(const ModeOption& chosen, const ModeOption& sync, double share) {
  std::string why = absl::StrFormat(
      "%s with %s is predicted to train %s of the time, of %s asked for: an exchange takes %.3g s, "
      "%.3g s of a round of %.3g s are waited for",
      ModeText(chosen.shape), chosen.codec, Percent(chosen.round.utilisation()), Percent(share),
      chosen.round.exchange_seconds, chosen.round.waited_seconds, chosen.round.seconds());
  if (chosen.shape.kind == "sync" && chosen.codec == sync.codec) return why;
  absl::StrAppend(&why, "; sync with ", sync.codec, " would train ",
                  Percent(sync.round.utilisation()));
  return why;
}

}  // namespace atolld
