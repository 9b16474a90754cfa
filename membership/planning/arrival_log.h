// ArrivalLog: records what arrived during one exchange, from which peer and when.
//
// Bytes are counted in slots of equal length, from the moment at which the plan arrived. When all
// slots are full, every two neighbours are merged. A log therefore has 32 to 64 slots however long
// the exchange takes, and the slots of several peers' logs line up. The first half second, called
// the opening, is also kept in slots of the shortest length. In that time every stream sends as far
// ahead as it may, at the full speed of its lines, even if all of them wait for one slow line
// afterwards. For the chunks that this peer averages, the log also counts which peers they had to
// wait for. Pure. Used by one thread.
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
  // The total length of the votes of an exchange grows with the square of the number of peers. With
  // more peers than this no peer reports its log, and nothing is measured.
  static constexpr size_t kMostPeers = 256;
  // A chunk had to wait if its last piece came later than the others by this many times the mean
  // time between two completed chunks.
  static constexpr double kWaits = 1.5;

  // Starts a new exchange, whose plan arrived at `began`.
  void Begin(absl::Time began);
  // Called when `peer` has dialled this peer and the first message of its first stream arrived, at
  // `at`, which may be before the plan. Ignores later calls for the same peer, because a redial
  // after a broken stream does not measure the round trip.
  void NoteOpen(const std::string& peer, absl::Time at);
  void Note(const std::string& peer, absl::Time at, uint64_t bytes);
  // Records that this many of the bytes passed to Note belong to a contributor's own chunk, not to
  // a mean.
  void NoteUpdate(uint64_t bytes) { update_bytes_ += bytes; }

  // Called when a contributor's piece of a chunk that this peer averages arrives. `completes` is
  // true for the last piece. The peer that sent the last piece was waited for if the other pieces
  // had been present for at least the time of kWaits chunks; streams that keep up with each other
  // are never that far apart. A chunk with only one piece is not counted.
  void NotePiece(const std::string& peer, uint32_t chunk, absl::Time at, bool completes);

  // Returns the log in the form in which a vote sent at `now` carries it, or nullopt if there are
  // more than kMostPeers peers.
  std::optional<v1::Arrivals> Report(absl::Time now) const;

 private:
  struct From {
    std::vector<uint64_t> bytes;    // the bytes in each slot of length slot_
    std::vector<uint64_t> opening;  // the bytes in each slot of length kShortestSlot
    std::optional<absl::Duration> opened;
    uint64_t waited_chunks = 0;
  };
  void Double();

  absl::Time began_ = absl::UnixEpoch();
  absl::Duration slot_ = kShortestSlot;
  std::map<std::string, From> from_;
  uint64_t update_bytes_ = 0;
  uint64_t averaged_chunks_ = 0;
  std::map<uint32_t, absl::Time> newest_piece_;  // the newest piece of each incomplete chunk
};

}  // namespace atolld
