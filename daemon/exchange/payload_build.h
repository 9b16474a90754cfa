// PayloadBuild: the payload while its means are still coming in, so that little is left to do after
// the last one.
//
// Every mean is copied into its place on the pool as it comes, beside the wire, and blocks that
// have become whole are hashed. Whoever holds the mean may then hold its place instead, so that no
// mean lies in memory twice. That takes a codec of a fixed rate: a mean of another length ends the
// build, as does one that is taken back (GiveUp), and the payload is then made at the end
// (Assemble). Loop thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "compression/codec.h"
#include "daemon/bytes.h"
#include "daemon/env.h"
#include "daemon/exchange/exchange.h"
#include "daemon/replica/payload.h"

namespace atolld {

class PayloadBuild {
 public:
  // A mean that was copied, and where it lies now; not after GiveUp.
  using OnPlaced = std::function<void(uint32_t chunk, SharedBytes place)>;

  PayloadBuild(Executor& executor, const ChunkGrid& grid, const Codec& codec, OnPlaced on_placed);
  ~PayloadBuild();  // a job that runs is finished by the pool; nothing follows it

  // The mean of a chunk that was not placed yet.
  void Place(uint32_t chunk, const SharedBytes& encoded);

  void GiveUp();
  bool given_up() const { return given_up_; }

  // Every chunk was placed, and it was not given up: tells payload and digest as Assemble makes
  // them, or nothing if it is given up meanwhile; never from inside.
  void Finish(std::function<void(ExchangeOutcome)> done);

 private:
  struct Work;
  struct Mean {
    uint32_t chunk;
    SharedBytes encoded;
  };

  void Advance();

  Executor& executor_;
  const ChunkGrid grid_;
  const Codec& codec_;
  const OnPlaced on_placed_;
  bool given_up_;
  std::shared_ptr<Work> work_;  // null before the first mean; on the pool while working_
  std::vector<Mean> placed_;    // not yet taken up by it
  bool working_ = false;
  std::function<void(ExchangeOutcome)> done_;
  CallbackGuard guard_;
};

}  // namespace atolld
