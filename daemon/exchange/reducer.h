// What one peer does to average chunks, as a shard's reducer or as a relay: PieceIntake makes
// pieces of what contributors send, Reducer keeps the books of which piece of whom is here and says
// what can be averaged, ReductionOf says how.
//
// No I/O, no clock, no threads: the caller carries the work out.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "atoll/v1/exchange.pb.h"
#include "compression/base/bytes.h"
#include "daemon/exchange/chunk_work.h"
#include "daemon/exchange/exchange_plan.h"
#include "daemon/exchange/exchange_settings.h"
#include "membership/history/payload.h"

namespace atolld {

// Makes pieces of what contributors send, and knows their leaves. Loop thread.
class PieceIntake {
 public:
  PieceIntake(std::string run_id, const ChunkGrid& grid, const ChunkForm& updates,
              const ChunkForm& means)
      : run_id_(std::move(run_id)), grid_(grid), updates_(updates), means_(means) {}

  // The leaves of one contributor, all of them; those that come again are passed over.
  // INVALID_ARGUMENT: they are not those of its root, or it has not signed that.
  absl::Status TakeLeaves(const ExchangePlan& plan, uint32_t sender, std::string leaves);
  struct Leaves {
    std::string bytes;
    MerkleTree pages;  // PagesOf(bytes)
  };
  const Leaves* LeavesOf(uint32_t sender) const;  // nullptr: they have not come

  // INVALID_ARGUMENT says what no honest contributor sends; the caller names the chunk.
  absl::StatusOr<Piece> MakePiece(const ExchangePlan& plan, uint32_t sender,
                                  const v1::ContributionChunk& chunk,
                                  const SharedBytes& payload) const;

 private:
  const std::string run_id_;
  const ChunkGrid grid_;
  const ChunkForm updates_;
  const ChunkForm means_;

  std::map<uint32_t, Leaves> leaves_;  // by contributor; those that make its root
};

// The books of one peer that averages: which piece of which contributor is here, and what can be
// averaged.
//
// A reducer's chunk is complete when every contributor is in a piece or is not waited for: lost;
// refused; or in the group of a relay that is refused or has sent its partial mean of the chunk
// (whom a relay leaves out, the reducer does not wait for). A relay's chunk is complete when every
// member of its group that is neither lost nor refused has delivered it. What a lost one had
// delivered counts. Complete chunks leave as Work, once an attempt; pieces are kept until then
// only.
//
// Law: a piece that has a contributor in common with one that is here is never taken. What a piece
// costs does not depend on how many others there are, but for a relay's, which is as long as the
// bitmap of its group.
//
// Routes: a piece is taken only from whom the current revision says. One that follows a later
// revision is early; one that follows an older is passed over, and its sender noted: if a later
// revision says that it is right here after all, it is asked to send again. Loop thread.
class Reducer {
 public:
  struct Work {
    uint32_t chunk;
    uint32_t attempt;
    bool partial;               // a relay's
    uint64_t number;            // see Current
    std::vector<Piece> pieces;  // ascending by lowest contributor; empty if nobody is left
  };

  // Where a piece comes from: its key on the wire.
  struct Origin {
    uint32_t chunk;
    uint32_t attempt;
    uint32_t revision;  // of the plan that its sender follows
  };

  enum class Verdict {
    kTaken,
    kDuplicate,    // here already, or averaged already: no effect
    kStale,        // of an attempt that is over, or of a contributor that was refused: no effect
    kPassedOver,   // rightly sent by an older revision, not by this one: no effect
    kOverlapping,  // shares contributors with what is here, or reaches beyond its relay's group: no
                   // effect but that its group is not waited for
    kEarly,        // by a plan that this peer has not heard of yet
    kForeign,      // by this very plan it belongs elsewhere, or it lies outside the grid
  };

  explicit Reducer(std::string self) : self_(std::move(self)) {}

  // Adopts a revision. A chunk begins again when its attempt changes, or what this peer is to it.
  // Appends what is complete to `ready`, and whoever has to send again to `ask_again`.
  void Update(const ExchangePlan& plan, std::vector<Work>* ready, std::set<uint32_t>* ask_again);

  // `piece.contributors` is valid for the plan, and the sender's own bit alone unless it is a
  // partial mean.
  Verdict Add(const Origin& origin, Piece piece, std::vector<Work>* ready);

  // This contributor lies: what it delivered counts if it can be decoded, nothing more is taken
  // from it.
  void Refuse(uint32_t contributor, std::vector<Work>* ready);
  bool refused(uint32_t contributor) const { return refused_.count(contributor) != 0; }

  // The chunk's result is here, from elsewhere perhaps: nothing more is averaged under its attempt.
  void Close(uint32_t chunk);

  // Whether the result of this work is still wanted.
  bool Current(const Work& work) const;

  uint64_t held_bytes() const { return held_bytes_; }

 private:
  enum class Role { kNone, kReducer, kRelay };
  struct Chunk {
    uint32_t attempt = 0;
    Role role = Role::kNone;
    uint64_t number = 0;  // another one each time that it begins
    bool given_out = false;
    std::multimap<uint32_t, Piece> pieces;  // by lowest contributor
    std::string covered;                    // bitmap: whoever is in a piece
    std::string awaited;                    // bitmap: who is not covered and waited for
    size_t missing = 0;                     // so many of them
    std::set<uint32_t> heard;               // relays whose partial mean has come, taken or not
  };
  using ShardSender = std::pair<uint32_t, uint32_t>;  // index of the shard, contributor

  Role RoleIn(const ExchangePlan::Shard& shard) const;
  bool Expected(const ExchangePlan::Shard& shard, uint32_t sender, bool partial) const;
  bool SendsHere(const ExchangePlan::Shard& shard, uint32_t contributor) const;
  void ForgetOldAttempts(const ExchangePlan& next);
  void NoteGroups();
  void LetGo(uint32_t chunk);
  void DropPieces(Chunk* state);
  void DropMisplaced(uint32_t chunk);
  Verdict Insert(Chunk* state, uint32_t shard, Piece piece);
  bool Awaited(const Chunk& state, const ExchangePlan::Shard& shard, uint32_t contributor) const;
  void CountAwaited(uint32_t chunk);
  static void AwaitNoMore(uint32_t contributor, Chunk* state);
  static void AwaitNoMore(const std::string& group, Chunk* state);
  void GiveOutIfComplete(uint32_t chunk, std::vector<Work>* ready);

  const std::string self_;

  ExchangePlan plan_;
  std::set<uint32_t> refused_;
  std::vector<Chunk> chunks_;
  uint64_t numbers_ = 0;
  uint64_t held_bytes_ = 0;
  // Within the shard's attempt: senders of pieces that were not kept, and all whom a relay has had
  // in its group.
  std::set<ShardSender> passed_over_;
  std::map<ShardSender, std::string> groups_;
};

// Averages pieces of one chunk as its reducer, or as a relay, must; `out` as for Reduce. Any
// thread.
using ChunkReduction =
    std::function<absl::Status(uint32_t chunk, bool partial, const std::vector<Piece>&,
                               std::optional<FreshBytes> out, Reduced*)>;

// As the plan says: for whoever averages, or recomputes what others have averaged.
ChunkReduction ReductionOf(const ExchangePlan& plan, const ExchangeSettings& settings,
                           const ChunkForm& updates, const ChunkForm& means);

}  // namespace atolld
