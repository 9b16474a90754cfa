// Exchange::State towards auditors: what was averaged here is kept and given out; and as an auditor
// of what others averaged.
#include <algorithm>
#include <utility>

#include "compression/base/status_macros.h"
#include "daemon/exchange/exchange_state.h"

namespace atolld {

// How this plan's chunks are averaged, by a reducer, a relay, or whoever recomputes it.
ChunkReduction Exchange::State::Reduction() const {
  auto terms = std::make_shared<MeanTerms>();
  terms->rule = settings.rule;
  if (plan.from_centre()) terms->centre = settings.centre;
  auto parts = std::make_shared<std::vector<uint64_t>>();
  for (const auto& contributor : plan.contributors()) {
    terms->weights.push_back(contributor.weight);
    terms->scales.push_back(contributor.scale);
    if (settings.stochastic) parts->push_back(PeerPart(contributor.peer));
  }
  return [terms, parts, updates = form, means = mean_form, grid = settings.grid,
          version = plan.version()](uint32_t chunk, bool partial, const std::vector<Piece>& pieces,
                                    std::optional<FreshBytes> out, Reduced* reduced) {
    const MeanPlace place = {version, chunk, partial, *parts};
    return Reduce(updates, means, place, grid.Elements(chunk), *terms, pieces, std::move(out),
                  reduced);
  };
}

void Exchange::State::KeepInputs(const Reducer::Work& work, const Reduced& reduced) {
  if (!keeps_inputs) return;
  std::vector<Piece> taken;
  for (const Piece& piece : work.pieces) {
    const bool refused = std::any_of(reduced.refused.begin(), reduced.refused.end(),
                                     [&](const auto& one) { return one.first == piece.sender; });
    if (!refused) taken.push_back(piece);
  }
  kept.Keep(work.chunk, work.attempt, std::move(taken));
}

absl::StatusOr<std::vector<Frame>> Exchange::State::Inputs(const v1::InputsRequest& request) const {
  if (!started || request.run_id() != settings.run_id || request.version() != version ||
      request.epoch() != epoch) {
    return absl::FailedPreconditionError(absl::StrCat("this peer is in round ", version));
  }
  std::vector<Frame> frames;
  std::set<uint32_t> told;  // contributors whose leaves are among the frames
  uint64_t from = 0;
  for (const uint32_t chunk : request.chunks()) {
    if (chunk < from || chunk >= plan.chunks()) {
      return absl::InvalidArgumentError("chunks that are not ascending, or not of the grid");
    }
    from = uint64_t{chunk} + 1;
    if (kept.Of(chunk, plan.ShardOf(chunk).attempt) == nullptr) {
      return absl::NotFoundError(absl::StrCat("no inputs of chunk ", chunk, " are kept here"));
    }
    AppendInputs(chunk, &told, &frames);
  }
  return frames;
}

void Exchange::State::AppendInputs(uint32_t chunk, std::set<uint32_t>* told,
                                   std::vector<Frame>* frames) const {
  for (const Piece& piece : *kept.Of(chunk, plan.ShardOf(chunk).attempt)) {
    v1::InputsPart part;
    part.set_chunk(chunk);
    part.set_contributor(plan.contributors()[piece.sender].peer);
    if (piece.partial) {
      part.set_members(piece.contributors);
    } else if (told->insert(piece.sender).second) {
      const auto theirs = leaves.find(piece.sender);
      part.set_leaves(theirs != leaves.end()    ? theirs->second
                      : contribution != nullptr ? contribution->leaves
                                                : std::string());
    }
    frames->push_back(Pack(part, piece.on_wire ? piece.bytes : form.ToWire(piece.bytes)));
  }
}

void Exchange::State::Audit(const v1::Audit& order, std::function<void(v1::AuditReport)> tell) {
  if (failed || order.version() != version || order.epoch() != epoch ||
      order.revision() != plan.revision()) {
    return;
  }
  std::map<uint32_t, ChunkMean> means;
  for (const uint32_t chunk : order.chunks()) {
    if (chunk < plan.chunks() && table.Has(chunk)) means[chunk] = table.at(chunk);
  }
  if (auditor == nullptr) {
    auditor = std::make_unique<Auditor>(
        env, settings, Auditor::Basis{plan, form, mean_form, Reduction()}, std::move(tell));
  }
  auditor->Take(order, std::move(means));
}

}  // namespace atolld
