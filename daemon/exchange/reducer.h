// The averaging of chunks by one peer, as a shard's reducer or as a relay. PieceIntake makes pieces
// from the messages of contributors. Reducer records which pieces have arrived and decides which
// chunks can be averaged. ReductionOf returns the function that averages them.
//
// This code uses no I/O, no clock and no threads: the caller carries the work out.
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

// Makes pieces from the messages of contributors, and keeps the contributors' leaves. Used on the
// loop thread.
class PieceIntake {
 public:
  PieceIntake(std::string run_id, const ChunkGrid& grid, const ChunkForm& updates,
              const ChunkForm& means)
      : run_id_(std::move(run_id)), grid_(grid), updates_(updates), means_(means) {}

  // Takes all the leaves of one contributor; ignores them if they come again. Fails with
  // INVALID_ARGUMENT if the leaves do not make the contributor's root, or if the contributor has
  // not signed the root.
  absl::Status TakeLeaves(const ExchangePlan& plan, uint32_t sender, std::string leaves);
  struct Leaves {
    std::string bytes;
    MerkleTree pages;  // PagesOf(bytes)
  };
  const Leaves* LeavesOf(uint32_t sender) const;  // Nullptr if the leaves have not arrived.

  // Makes a piece from a chunk. Fails with INVALID_ARGUMENT if no honest contributor would send the
  // chunk; the message says why, and the caller must add the chunk's name to it.
  absl::StatusOr<Piece> MakePiece(const ExchangePlan& plan, uint32_t sender,
                                  const v1::ContributionChunk& chunk,
                                  const SharedBytes& payload) const;

 private:
  const std::string run_id_;
  const ChunkGrid grid_;
  const ChunkForm updates_;
  const ChunkForm means_;

  // The leaves of each contributor, once they were found to match the contributor's root.
  std::map<uint32_t, Leaves> leaves_;
};

// Records, for one averaging peer, which pieces of which contributors have arrived, and decides
// which chunks can be averaged.
//
// A reducer's chunk is complete when every contributor that is waited for is in a piece. A
// contributor is not waited for if it does not bring the chunk, is lost or refused, or if it is in
// the group of a relay that is refused or has sent its partial mean of the chunk (the reducer does
// not wait for members that a relay leaves out). A relay's chunk is complete when every member of
// its group that is neither lost nor refused has delivered it. The pieces that a lost contributor
// has delivered count. Each complete chunk is given out as Work, once in each attempt; its pieces
// are kept only until then.
//
// Law: a piece that shares a contributor with a kept piece is never taken. The time to add a piece
// does not depend on the number of other pieces; for a relay's piece it is proportional to the
// bitmap of the relay's group.
//
// Routes: a piece is taken only from the sender that the current revision names. If the sender
// follows a later revision, its piece is early. If the sender follows an older revision, its piece
// is not taken, and the sender is noted: if a later revision names that sender again, it is asked
// to send the piece again. Used on the loop thread.
class Reducer {
 public:
  struct Work {
    uint32_t chunk;
    uint32_t attempt;
    bool partial;     // True for a relay's mean.
    uint64_t number;  // Compared by Current.
    // The pieces, in the order of their lowest contributors; empty if no piece is left.
    std::vector<Piece> pieces;
  };

  // Where a piece on the wire comes from and to which attempt it belongs.
  struct Origin {
    uint32_t chunk;
    uint32_t attempt;
    uint32_t revision;  // The revision of the plan that the piece's sender follows.
  };

  enum class Verdict {
    kTaken,
    kDuplicate,  // The piece was already taken, or its chunk already averaged; it has no effect.
    // The piece belongs to an attempt that has ended or to a refused contributor, and has no
    // effect.
    kStale,
    // The piece was right under an older revision but is wrong under this one, and has no effect.
    kPassedOver,
    // The piece shares contributors with kept pieces, or covers contributors outside its relay's
    // group. It is not taken, and the group is no longer waited for.
    kOverlapping,
    kEarly,    // The sender follows a plan that this peer does not have yet.
    kForeign,  // By this plan the piece belongs to another peer, or its chunk is outside the grid.
  };

  explicit Reducer(std::string self) : self_(std::move(self)) {}

  // Adopts a revision. A chunk begins again if its attempt or this peer's role in it changes.
  // Appends complete chunks to `ready`, and adds the contributors that must send pieces again to
  // `ask_again`.
  void Update(const ExchangePlan& plan, std::vector<Work>* ready, std::set<uint32_t>* ask_again);

  // Adds a piece. `piece.contributors` must be valid for the plan; unless the piece is a partial
  // mean, it must have only the sender's bit.
  Verdict Add(const Origin& origin, Piece piece, std::vector<Work>* ready);

  // Called when this contributor has lied. Takes no more pieces from it. The pieces that it has
  // delivered still count if they can be decoded.
  void Refuse(uint32_t contributor, std::vector<Work>* ready);
  bool refused(uint32_t contributor) const { return refused_.count(contributor) != 0; }

  // Called when this peer has the chunk's result, perhaps from another peer. The chunk is then not
  // averaged again in its attempt.
  void Close(uint32_t chunk);

  // Returns true if the result of this work is still wanted.
  bool Current(const Work& work) const;

  uint64_t held_bytes() const { return held_bytes_; }

 private:
  enum class Role { kNone, kReducer, kRelay };
  struct Chunk {
    uint32_t attempt = 0;
    Role role = Role::kNone;
    uint64_t number = 0;  // Changes each time that the chunk begins again.
    bool given_out = false;
    std::multimap<uint32_t, Piece> pieces;  // Keyed by the lowest contributor.
    std::string covered;  // A bitmap of the contributors that are in a kept piece.
    std::string awaited;  // A bitmap of the contributors that are waited for.
    size_t missing = 0;   // The number of contributors in `awaited`.
    // The relays whose partial mean has arrived, whether or not it was taken.
    std::set<uint32_t> heard;
  };
  // The index of the shard, and the contributor.
  using ShardSender = std::pair<uint32_t, uint32_t>;

  Role RoleIn(const ExchangePlan::Shard& shard) const;
  bool Expected(uint32_t chunk, uint32_t sender, bool partial) const;
  bool SendsHere(const ExchangePlan::Shard& shard, uint32_t contributor) const;
  void ForgetOldAttempts(const ExchangePlan& next);
  void NoteGroups();
  void LetGo(uint32_t chunk);
  void DropPieces(Chunk* state);
  void DropMisplaced(uint32_t chunk);
  Verdict Insert(Chunk* state, uint32_t shard, Piece piece);
  bool Awaited(uint32_t chunk, uint32_t contributor) const;
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
  // For the shard's present attempt: the senders of pieces that were not kept, and all contributors
  // that were in a relay's group.
  std::set<ShardSender> passed_over_;
  std::map<ShardSender, std::string> groups_;
};

// Averages the pieces of one chunk as its reducer or a relay must. For `out` see Reduce. May be
// called from any thread.
using ChunkReduction =
    std::function<absl::Status(uint32_t chunk, bool partial, const std::vector<Piece>&,
                               std::optional<FreshBytes> out, Reduced*)>;

// Returns the reduction that the plan prescribes. Both averaging and auditing use it.
ChunkReduction ReductionOf(const ExchangePlan& plan, const ExchangeSettings& settings,
                           const ChunkForm& updates, const ChunkForm& means);

}  // namespace atolld
