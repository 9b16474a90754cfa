#include "daemon/exchange/reducer.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compression/base/bitmap.h"
#include "compression/base/planted_bug.h"

namespace atolld {

absl::Status PieceIntake::TakeLeaves(const ExchangePlan& plan, uint32_t sender,
                                     std::string leaves) {
  if (leaves_.count(sender) != 0) return absl::OkStatus();
  const ExchangePlan::Contributor& contributor = plan.contributors()[sender];
  if (contributor.root.empty()) return absl::OkStatus();
  MerkleTree pages = PagesOf(leaves);
  if (ToBytes(ContributionRoot(leaves, pages)) != contributor.root) {
    return absl::InvalidArgumentError("its leaves are not those of the root that it has signed");
  }
  if (SquaredNormOf(leaves) != contributor.squared_norm) {
    return absl::InvalidArgumentError(
        "it reported a different length of its update than its leaves say");
  }
  const absl::Status proven = plan.CheckProof(run_id_, sender);
  if (!proven.ok()) return proven;
  leaves_[sender] = {std::move(leaves), std::move(pages)};
  return absl::OkStatus();
}

const PieceIntake::Leaves* PieceIntake::LeavesOf(uint32_t sender) const {
  const auto found = leaves_.find(sender);
  return found != leaves_.end() ? &found->second : nullptr;
}

absl::StatusOr<Piece> PieceIntake::MakePiece(const ExchangePlan& plan, uint32_t sender,
                                             const v1::ContributionChunk& chunk,
                                             const SharedBytes& payload) const {
  if (chunk.chunk() >= plan.chunks()) {
    return absl::InvalidArgumentError("it lies outside the grid");
  }
  const uint32_t elements = grid_.Elements(chunk.chunk());
  const bool partial = !chunk.contributors().empty();
  const ChunkForm& form = partial ? means_ : updates_;
  if (payload.empty() || payload.size() > form.MaxWireBytes(elements)) {
    return absl::InvalidArgumentError(absl::StrCat("it has ", payload.size(), " bytes"));
  }
  const size_t contributors = plan.contributors().size();
  if (partial && !ValidBitmap(chunk.contributors(), contributors)) {
    return absl::InvalidArgumentError("its contributors are not those of the plan");
  }
  Piece piece{sender, partial ? chunk.contributors() : SingleBit(contributors, sender), partial,
              payload, true};
  if (!partial && !plan.contributors()[sender].root.empty()) {
    const Leaves* const leaves = LeavesOf(sender);
    if (leaves == nullptr) return absl::InvalidArgumentError("its leaves have not come before it");
    const Leaf leaf = LeafOf(leaves->bytes, chunk.chunk());
    piece.digest = leaf.digest;
    piece.squared_norm = leaf.norms.squared_norm;
  }
  return piece;
}

Reducer::Role Reducer::RoleIn(const ExchangePlan::Shard& shard) const {
  if (!shard.holder.empty()) return Role::kNone;
  if (shard.reducer == self_) return Role::kReducer;
  return plan_.RelayNamed(shard, self_) != nullptr ? Role::kRelay : Role::kNone;
}

bool Reducer::SendsHere(const ExchangePlan::Shard& shard, uint32_t contributor) const {
  const bool own = plan_.contributors()[contributor].peer == self_;
  return (own ? plan_.CollectorOf(shard, contributor) : plan_.TargetOf(shard, contributor)) ==
         self_;
}

bool Reducer::Expected(uint32_t chunk, uint32_t sender, bool partial) const {
  const ExchangePlan::Shard& shard = plan_.ShardOf(chunk);
  if (!SendsHere(shard, sender) || !plan_.Brings(sender, chunk)) return false;
  const std::string& peer = plan_.contributors()[sender].peer;
  // A relay sends its own chunk only to itself, as one of its group's chunks.
  return partial == (peer != self_ && plan_.RelayNamed(shard, peer) != nullptr);
}

void Reducer::ForgetOldAttempts(const ExchangePlan& next) {
  if (plan_.shards().empty()) return;
  const auto over = [&](const ShardSender& key) {
    return plan_.shards()[key.first].attempt != next.shards()[key.first].attempt;
  };
  for (auto it = passed_over_.begin(); it != passed_over_.end();) {
    it = over(*it) ? passed_over_.erase(it) : std::next(it);
  }
  for (auto it = groups_.begin(); it != groups_.end();) {
    it = over(it->first) ? groups_.erase(it) : std::next(it);
  }
}

void Reducer::NoteGroups() {
  for (uint32_t s = 0; s < plan_.shards().size(); ++s) {
    for (const ExchangePlan::Relay& relay : plan_.shards()[s].relays) {
      std::string& group = groups_[{s, relay.contributor}];
      group.resize(relay.members.size());
      UniteBits(relay.members, &group);
    }
  }
}

void Reducer::Update(const ExchangePlan& plan, std::vector<Work>* ready,
                     std::set<uint32_t>* ask_again) {
  ForgetOldAttempts(plan);
  plan_ = plan;
  NoteGroups();
  chunks_.resize(plan.chunks());
  for (uint32_t c = 0; c < plan.chunks(); ++c) {
    const ExchangePlan::Shard& shard = plan.ShardOf(c);
    const Role role = RoleIn(shard);
    Chunk& state = chunks_[c];
    if (state.attempt == shard.attempt && state.role == role) {
      if (!state.given_out) DropMisplaced(c);
    } else {
      LetGo(c);
      state = Chunk();
      state.attempt = shard.attempt;
      state.role = role;
      state.number = ++numbers_;
    }
    CountAwaited(c);
    GiveOutIfComplete(c, ready);
  }
  for (auto it = passed_over_.begin(); it != passed_over_.end();) {
    const bool here = SendsHere(plan.shards()[it->first], it->second);
    if (here) ask_again->insert(it->second);
    it = here ? passed_over_.erase(it) : std::next(it);
  }
}

// Drops the pieces of a chunk that this peer no longer averages. If this peer becomes the shard's
// relay again under the same attempt, contributors that have already sent to it would not send
// again, so they are noted.
void Reducer::LetGo(uint32_t chunk) {
  Chunk& state = chunks_[chunk];
  DropPieces(&state);
  if (state.role != Role::kRelay || state.attempt != plan_.ShardOf(chunk).attempt) return;
  const uint32_t shard = plan_.ShardIndexOf(chunk);
  const auto group = groups_.find({shard, *plan_.IndexOf(self_)});
  if (group == groups_.end()) return;
  for (uint32_t i = 0; i < plan_.contributors().size(); ++i) {
    if (BitAt(group->second, i)) passed_over_.insert({shard, i});
  }
}

// Drops pieces that now have another route, because they will arrive on that route. Pieces of a
// lost contributor are kept, because it sends no others.
void Reducer::DropMisplaced(uint32_t chunk) {
  std::multimap<uint32_t, Piece>& pieces = chunks_[chunk].pieces;
  const auto misplaced = [&](const Piece& piece) {
    if (piece.partial || plan_.contributors()[piece.sender].lost) return false;
    return !Expected(chunk, piece.sender, false);
  };
  for (auto it = pieces.begin(); it != pieces.end();) {
    const Piece& piece = it->second;
    if (!misplaced(piece)) {
      ++it;
      continue;
    }
    passed_over_.insert({plan_.ShardIndexOf(chunk), piece.sender});
    held_bytes_ -= piece.bytes.size();
    it = pieces.erase(it);
  }
}

void Reducer::DropPieces(Chunk* state) {
  for (const auto& [lowest, piece] : state->pieces) held_bytes_ -= piece.bytes.size();
  state->pieces.clear();
}

Reducer::Verdict Reducer::Add(const Origin& origin, Piece piece, std::vector<Work>* ready) {
  if (origin.chunk >= plan_.chunks()) return Verdict::kForeign;
  const ExchangePlan::Shard& shard = plan_.ShardOf(origin.chunk);
  const uint32_t index = plan_.ShardIndexOf(origin.chunk);
  if (origin.attempt > shard.attempt) return Verdict::kEarly;
  if (origin.attempt < shard.attempt || refused(piece.sender)) return Verdict::kStale;
  if (!Expected(origin.chunk, piece.sender, piece.partial)) {
    if (origin.revision > plan_.revision()) return Verdict::kEarly;
    if (origin.revision == plan_.revision()) return Verdict::kForeign;
    passed_over_.insert({index, piece.sender});
    return Verdict::kPassedOver;
  }
  Chunk& state = chunks_[origin.chunk];
  if (state.given_out) return Verdict::kDuplicate;
  if (piece.partial) {
    const bool of_its_own = Contains(groups_[{index, piece.sender}], piece.contributors);
    if (!of_its_own && origin.revision > plan_.revision()) return Verdict::kEarly;
    state.heard.insert(piece.sender);
    const ExchangePlan::Relay* const relay = plan_.RelayOf(shard, piece.sender);
    if (state.role == Role::kReducer) AwaitNoMore(relay->members, &state);
  }
  const Verdict verdict = Insert(&state, index, std::move(piece));
  GiveOutIfComplete(origin.chunk, ready);
  return verdict;
}

Reducer::Verdict Reducer::Insert(Chunk* state, uint32_t shard, Piece piece) {
  if (piece.partial && !Contains(groups_[{shard, piece.sender}], piece.contributors)) {
    return Verdict::kOverlapping;
  }
  const bool overlaps = piece.partial ? Overlap(state->covered, piece.contributors)
                                      : BitAt(state->covered, piece.sender);
  auto lowest = static_cast<uint32_t>(piece.partial ? LowestBit(piece.contributors) : piece.sender);
  if (overlaps) {
    // The kept pieces have no contributor in common, so at most one of them has this lowest
    // contributor.
    const auto held = state->pieces.find(lowest);
    if (held != state->pieces.end() && held->second.contributors == piece.contributors) {
      if (!Planted(PlantedBug::kContributorCountedTwice)) return Verdict::kDuplicate;
    } else if (!Planted(PlantedBug::kPartialsOverlap)) {
      return Verdict::kOverlapping;
    }
  }
  if (Planted(PlantedBug::kSumInArrivalOrder)) lowest = static_cast<uint32_t>(state->pieces.size());
  held_bytes_ += piece.bytes.size();
  if (piece.partial) {
    UniteBits(piece.contributors, &state->covered);
    AwaitNoMore(piece.contributors, state);
  } else {
    SetBit(&state->covered, piece.sender);
    AwaitNoMore(piece.sender, state);
  }
  state->pieces.emplace(lowest, std::move(piece));
  return Verdict::kTaken;
}

void Reducer::Refuse(uint32_t contributor, std::vector<Work>* ready) {
  if (!refused_.insert(contributor).second) return;
  for (uint32_t c = 0; c < plan_.chunks(); ++c) {
    Chunk& state = chunks_[c];
    if (state.role == Role::kNone || state.given_out) continue;
    AwaitNoMore(contributor, &state);
    // If a refused relay would have brought the chunks of its members, these are not awaited
    // either.
    const ExchangePlan::Relay* const relay = plan_.RelayOf(plan_.ShardOf(c), contributor);
    const bool relays = relay != nullptr && relay->contributor == contributor;
    if (relays && state.role == Role::kReducer) AwaitNoMore(relay->members, &state);
    GiveOutIfComplete(c, ready);
  }
}

void Reducer::Close(uint32_t chunk) {
  Chunk& state = chunks_[chunk];
  state.given_out = true;
  DropPieces(&state);
}

bool Reducer::Current(const Work& work) const { return chunks_[work.chunk].number == work.number; }

bool Reducer::Awaited(uint32_t chunk, uint32_t contributor) const {
  const Chunk& state = chunks_[chunk];
  const ExchangePlan::Shard& shard = plan_.ShardOf(chunk);
  if (plan_.contributors()[contributor].lost || refused(contributor)) return false;
  if (!plan_.Brings(contributor, chunk)) return false;
  const ExchangePlan::Relay* const relay = plan_.RelayOf(shard, contributor);
  if (state.role == Role::kRelay) return relay != nullptr && SendsHere(shard, contributor);
  if (relay == nullptr) return true;
  return state.heard.count(relay->contributor) == 0 && !refused(relay->contributor);
}

// Computes which contributors are in a piece and which are awaited under the present plan; Later
// pieces and refusals only remove contributors from the awaited ones.
void Reducer::CountAwaited(uint32_t chunk) {
  Chunk& state = chunks_[chunk];
  if (state.role == Role::kNone || state.given_out) return;
  state.covered.assign(BitmapBytes(plan_.contributors().size()), '\0');
  state.awaited = state.covered;
  for (const auto& [lowest, piece] : state.pieces) UniteBits(piece.contributors, &state.covered);
  state.missing = 0;
  for (uint32_t i = 0; i < plan_.contributors().size(); ++i) {
    if (BitAt(state.covered, i) || !Awaited(chunk, i)) continue;
    SetBit(&state.awaited, i);
    ++state.missing;
  }
}

void Reducer::AwaitNoMore(uint32_t contributor, Chunk* state) {
  if (!BitAt(state->awaited, contributor)) return;
  ClearBit(&state->awaited, contributor);
  --state->missing;
}

void Reducer::AwaitNoMore(const std::string& group, Chunk* state) {
  RemoveBits(group, &state->awaited);
  state->missing = CountBits(state->awaited);
}

void Reducer::GiveOutIfComplete(uint32_t chunk, std::vector<Work>* ready) {
  Chunk& state = chunks_[chunk];
  if (state.role == Role::kNone || state.given_out || state.missing > 0) return;
  state.given_out = true;
  Work work = {chunk, state.attempt, state.role == Role::kRelay, state.number, {}};
  work.pieces.reserve(state.pieces.size());
  for (auto& [lowest, piece] : state.pieces) {
    held_bytes_ -= piece.bytes.size();
    work.pieces.push_back(std::move(piece));
  }
  state.pieces.clear();
  ready->push_back(std::move(work));
}

ChunkReduction ReductionOf(const ExchangePlan& plan, const ExchangeSettings& settings,
                           const ChunkForm& updates, const ChunkForm& means) {
  auto terms = std::make_shared<MeanTerms>();
  terms->rule = settings.rule;
  if (plan.from_centre()) terms->centre = settings.centre;
  auto parts = std::make_shared<std::vector<uint64_t>>();
  for (const auto& contributor : plan.contributors()) {
    terms->weights.push_back(contributor.weight);
    terms->scales.push_back(contributor.scale);
    if (settings.stochastic) parts->push_back(PeerPart(contributor.peer));
  }
  return [terms, parts, updates, means, grid = settings.grid, version = plan.version()](
             uint32_t chunk, bool partial, const std::vector<Piece>& pieces,
             std::optional<FreshBytes> out, Reduced* reduced) {
    const MeanPlace place = {version, chunk, partial, *parts, grid.Part(chunk) != 0};
    return Reduce(updates, means, place, grid.Elements(chunk), *terms, pieces, std::move(out),
                  reduced);
  };
}

}  // namespace atolld
