// What a Replica holds in memory; shared by the files that implement it and nobody else.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "daemon/replica/state/replica.h"
#include "daemon/replica/state/state_memory.h"
#include "daemon/replica/state/update_log.h"

namespace atolld {

struct Replica::State {
  class Opening;  // replica_open.cc

  State(Files& files_in, std::string dir_in, v1::Genesis genesis_in, absl::Span<float> theta);

  // Constant after construction (log: after Create or Open).
  Files& files;
  const std::string dir;
  const v1::Genesis genesis;
  const ChunkGrid grid;
  const Codec* const codec;  // of payloads
  std::unique_ptr<UpdateLog> log;

  // The state and what names it.
  StateMemory memory;
  std::optional<v1::EntryHeader> header;
  Digest header_digest;
  std::optional<Digest> state_digest;
  std::optional<v1::Seal> seal;

  // The payload of the next version, durable and known to decode.
  std::optional<Digest> prepared_digest;
  SharedBytes prepared;

  uint64_t payload_limit() const { return MaxPayloadBytes(grid, *codec); }

  // Moves the memory by an entry that is durable, and forgets what was prepared.
  void Apply(const EntryStep& step, const v1::EntryHeader& next, const SharedBytes& payload,
             absl::Span<float> difference);
};

}  // namespace atolld
