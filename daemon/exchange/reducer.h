// Reducer: the books of one reducer for one entry: which chunk of which contributor is here, and
// what can be averaged.
//
// A chunk is complete when every contributor that is neither lost nor refused has delivered it
// under the chunk's current attempt; what a lost one had delivered before counts. Complete chunks
// leave as Work, once an attempt; contributions are kept until then only. Bookkeeping alone, no
// I/O, no clock, no threads: the caller carries the work out. Loop thread.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "daemon/bytes.h"
#include "daemon/exchange/chunk_work.h"
#include "daemon/exchange/exchange_plan.h"

namespace atolld {

class Reducer {
 public:
  struct Work {
    uint32_t chunk;
    uint32_t attempt;
    std::vector<Piece> pieces;  // roster order; empty if nobody is left to contribute
  };

  enum class Verdict {
    kTaken,
    kDuplicate,  // here already, or averaged already: no effect
    kStale,      // of an attempt that is over, or of a contributor that was refused: no effect
    kEarly,      // of an attempt that this reducer has not heard of yet
    kForeign,  // of the current attempt of a chunk that is not this reducer's, or outside the grid
  };

  explicit Reducer(std::string self) : self_(std::move(self)) {}

  // Adopts a revision: chunks whose (attempt, reducer) changed begin again. Appends what is
  // complete to `ready`.
  void Update(const ExchangePlan& plan, std::vector<Work>* ready);

  Verdict Add(uint32_t chunk, uint32_t attempt, Piece piece, std::vector<Work>* ready);

  // This contributor lies: what it delivered counts if it can be decoded, nothing more is taken
  // from it.
  void Refuse(uint32_t contributor, std::vector<Work>* ready);
  bool refused(uint32_t contributor) const { return refused_.count(contributor) != 0; }

  // Whether the result of this work is still wanted.
  bool Current(uint32_t chunk, uint32_t attempt) const;

  uint64_t held_bytes() const { return held_bytes_; }

 private:
  struct Chunk {
    uint32_t attempt = 0;  // 0: not this reducer's
    bool given_out = false;
    std::vector<Piece> pieces;  // ascending by contributor
  };

  bool Awaited(uint32_t contributor) const;
  void GiveOutIfComplete(uint32_t chunk, std::vector<Work>* ready);

  const std::string self_;

  ExchangePlan plan_;
  std::set<uint32_t> refused_;
  std::vector<Chunk> chunks_;
  uint64_t held_bytes_ = 0;
};

}  // namespace atolld
