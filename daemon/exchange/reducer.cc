#include "daemon/exchange/reducer.h"

#include <algorithm>
#include <utility>

namespace atolld {

void Reducer::Update(const ExchangePlan& plan, std::vector<Work>* ready) {
  plan_ = plan;
  chunks_.resize(plan.chunks());
  for (uint32_t c = 0; c < plan.chunks(); ++c) {
    const ExchangePlan::Shard& shard = plan.ShardOf(c);
    const uint32_t attempt = shard.reducer == self_ ? shard.attempt : 0;
    if (chunks_[c].attempt != attempt) {
      for (const Piece& piece : chunks_[c].pieces) held_bytes_ -= piece.bytes.size();
      chunks_[c] = Chunk();
      chunks_[c].attempt = attempt;
    }
    GiveOutIfComplete(c, ready);
  }
}

Reducer::Verdict Reducer::Add(uint32_t chunk, uint32_t attempt, Piece piece,
                              std::vector<Work>* ready) {
  if (chunk >= plan_.chunks()) return Verdict::kForeign;
  const ExchangePlan::Shard& shard = plan_.ShardOf(chunk);
  if (attempt > shard.attempt) return Verdict::kEarly;
  if (attempt < shard.attempt) return Verdict::kStale;
  if (shard.reducer != self_) return Verdict::kForeign;
  Chunk& state = chunks_[chunk];
  if (refused(piece.contributor)) return Verdict::kStale;
  if (state.given_out) return Verdict::kDuplicate;
  const auto place = std::lower_bound(
      state.pieces.begin(), state.pieces.end(), piece.contributor,
      [](const Piece& held, uint32_t contributor) { return held.contributor < contributor; });
  if (place != state.pieces.end() && place->contributor == piece.contributor) {
    return Verdict::kDuplicate;
  }
  held_bytes_ += piece.bytes.size();
  state.pieces.insert(place, std::move(piece));
  GiveOutIfComplete(chunk, ready);
  return Verdict::kTaken;
}

void Reducer::Refuse(uint32_t contributor, std::vector<Work>* ready) {
  if (!refused_.insert(contributor).second) return;
  for (uint32_t c = 0; c < plan_.chunks(); ++c) GiveOutIfComplete(c, ready);
}

bool Reducer::Current(uint32_t chunk, uint32_t attempt) const {
  return chunks_[chunk].attempt == attempt;
}

bool Reducer::Awaited(uint32_t contributor) const {
  return !plan_.contributors()[contributor].lost && !refused(contributor);
}

void Reducer::GiveOutIfComplete(uint32_t chunk, std::vector<Work>* ready) {
  Chunk& state = chunks_[chunk];
  if (state.attempt == 0 || state.given_out) return;
  auto piece = state.pieces.begin();
  for (uint32_t i = 0; i < plan_.contributors().size(); ++i) {
    if (piece != state.pieces.end() && piece->contributor == i) {
      ++piece;
    } else if (Awaited(i)) {
      return;
    }
  }
  state.given_out = true;
  for (const Piece& held : state.pieces) held_bytes_ -= held.bytes.size();
  ready->push_back({chunk, state.attempt, std::move(state.pieces)});
  state.pieces.clear();
}

}  // namespace atolld
