// Message sizes: computes how long the messages of a run can become, given its chunks and its
// number of peers, and checks that each of them stays below its limit.
//
// Data that grows with the model or the number of peers is sent in pages, each of which fits in a
// message for any run (docs/protocol.md has the table). The messages that this file computes cannot
// be paged, although they grow by one bit a chunk or by one record a peer. They are checked against
// their limits at the start of a run, so that no run begins that is bound to fail later. Pure. May
// be called from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace atolld {

// The longest message, and the longest message that a peer may send on its Session.
inline constexpr size_t kMostMessageBytes = size_t{4} << 20;
inline constexpr size_t kMostSessionBytes = size_t{1} << 20;

struct SizeTerms {
  uint64_t parameters = 0;
  // The most parameters that an entry covers; 0 if it covers all.
  uint64_t exchanged = 0;
  uint32_t chunk_elements = 1;
  // The peers that contribute at once.
  uint64_t peers = 1;
  // The number of buffers of the state: theta and those of the outer rule.
  uint64_t buffers = 2;
  // The size of the manifest as a message; 0 if not yet known.
  uint64_t manifest_bytes = 0;
  // The number of experts that have owners; 0 if every peer trains all tensors.
  uint64_t experts = 0;
};

struct MessageSize {
  std::string message;
  uint64_t bytes = 0;  // the most bytes of the message
  uint64_t limit = 0;
  std::string remedy;  // how the message can be made shorter
};

// Returns the sizes for the longest possible ids and addresses.
std::vector<MessageSize> MessageSizes(const SizeTerms& terms);

// Fails with INVALID_ARGUMENT if a message would be too long; the error gives the first such
// message with its size, its limit and the remedy.
absl::Status CheckMessageSizes(const SizeTerms& terms);

// Returns the greatest number of peers with which every message stays below its limit, or 0 if even
// one peer is too many. Ignores `terms.peers`.
uint64_t MostPeers(SizeTerms terms);

// Chooses at most `most` contributors for an entry, when more have joined since the run began than
// an entry has room for. `ages` has the number of commits that each has missed. The function takes
// the oldest, so that no contributor is left out again while others are taken twice. Returns their
// positions in `ages`, ascending.
std::vector<size_t> WhoFits(absl::Span<const uint32_t> ages, uint64_t most);

}  // namespace atolld
