// ArrivalLog: what came in during one exchange, from whom and when.
//
// Bytes are counted in slots of equal length from the moment at which the plan came. When the slots
// are full, two and two are put together: so a log has 32 to 64 of them, whatever an exchange
// takes, and logs of several peers fit each other. The first half second is kept in the shortest
// slots as well: then every stream sends what it may send ahead, as fast as its lines are, also
// where all wait for one slow line afterwards. Of the chunks that were averaged here it is counted
// for whom they had to wait. Pure; one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "atoll/v1/membership.pb.h"

namespace atolld {

class ArrivalLog {
 public:
  static constexpr size_t kSlots = 64;
  static constexpr absl::Duration kShortestSlot = absl::Milliseconds(8);
  // All votes of an exchange together are as long as the square of its peers: with more than so
  // many nobody reports, and nothing is measured.
  static constexpr size_t kMostPeers = 256;
  static constexpr double kWaits = 1.5;  // times the mean time from one complete chunk to the next

  // A new exchange, whose plan came at `began`.
  void Begin(absl::Time began);
  // `peer` has dialled this one; the first message of its first stream came at `at`, perhaps before
  // the plan. Later ones do not count: a stream that broke was dialled for another reason.
  void NoteOpen(const std::string& peer, absl::Time at);
  void Note(const std::string& peer, absl::Time at, uint64_t bytes);
  // So many bytes of what was noted were a contributor's own chunk, no mean.
  void NoteUpdate(uint64_t bytes) { update_bytes_ += bytes; }

  // A contributor's piece of a chunk that is averaged here; `completes`: it was the last. Whoever
  // brings the last one was waited for, if the others were there for kWaits chunks' time: streams
  // that keep up with each other are not that far apart. Where one alone had to bring a piece
  // nothing is told.
  void NotePiece(const std::string& peer, uint32_t chunk, absl::Time at, bool completes);

  // As a vote that is sent at `now` tells it; nothing if they are too many.
  std::optional<v1::Arrivals> Report(absl::Time now) const;

 private:
  struct From {
    std::vector<uint64_t> bytes;    // by slot_
    std::vector<uint64_t> opening;  // by kShortestSlot
    std::optional<absl::Duration> opened;
    uint64_t waited_chunks = 0;
  };
  void Double();

  absl::Time began_ = absl::UnixEpoch();
  absl::Duration slot_ = kShortestSlot;
  std::map<std::string, From> from_;
  uint64_t update_bytes_ = 0;
  uint64_t averaged_chunks_ = 0;
  std::map<uint32_t, absl::Time> newest_piece_;  // of chunks that are not complete
};

}  // namespace atolld
