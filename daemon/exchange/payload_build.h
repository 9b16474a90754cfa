// PayloadBuild: the payload while its means are still coming in, so that little is left to do after
// the last one.
//
// Whoever makes a mean or receives it writes it into its place, so that it lies in memory once, and
// blocks that have become whole are hashed on the pool, beside the wire. That takes a codec of a
// fixed rate. A mean that lies elsewhere ends the build, as does one that is taken back (GiveUp) or
// made twice, and the payload is then made at the end (Assemble). Loop thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "compression/base/bytes.h"
#include "compression/codec.h"
#include "daemon/env/env.h"
#include "daemon/exchange/exchange.h"
#include "membership/history/payload.h"

namespace atolld {

class PayloadBuild {
 public:
  PayloadBuild(Executor& executor, const ChunkGrid& grid, const Codec& codec);
  ~PayloadBuild();  // a job that runs is finished by the pool; nothing follows it

  // Where a chunk's mean is to be written, on any thread, by whoever claims it; nothing if it has
  // been given up. A place is claimed once: who claims it again ends the build and gets nothing,
  // for the first may be writing yet.
  std::optional<FreshBytes> Claim(uint32_t chunk);

  // The mean of a chunk that was not taken yet: its place is written.
  void Take(uint32_t chunk, const SharedBytes& encoded);

  void GiveUp();
  bool given_up() const { return given_up_; }

  // Every chunk was taken, and it was not given up: tells payload and digest as Assemble makes
  // them, or nothing if it is given up meanwhile; never from inside.
  void Finish(std::function<void(ExchangeOutcome)> done);

 private:
  struct Work;

  void Advance();

  Executor& executor_;
  const ChunkGrid grid_;
  const Codec& codec_;
  bool given_up_;
  std::unique_ptr<Work> work_;  // null before the first claim, and once given up
  bool hashing_ = false;
  std::function<void(ExchangeOutcome)> done_;
  CallbackGuard guard_;
};

}  // namespace atolld
