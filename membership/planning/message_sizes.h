// Message sizes: how long the messages of a run can become, by its grid and its peers, and whether
// every one of them passes.
//
// What grows with the model or the number of peers travels in pages, each of which fits a message
// whatever the run (docs/protocol.md has the table). What is left here is a single message all the
// same: it grows by one bit a chunk, or by a record a peer. So that no run begins that must break
// later, its start holds these against their limits. Pure functions, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace atolld {

// Of a message, and of what a peer says on its Session.
inline constexpr size_t kMostMessageBytes = size_t{4} << 20;
inline constexpr size_t kMostSessionBytes = size_t{1} << 20;

struct SizeTerms {
  uint64_t parameters = 0;
  uint64_t exchanged = 0;  // the most of them that an entry covers; 0: all
  uint32_t chunk_elements = 1;
  uint64_t peers = 1;           // that contribute at once
  uint64_t buffers = 2;         // of the state: theta, and those of the outer rule
  uint64_t manifest_bytes = 0;  // as a message; 0: not known yet
};

struct MessageSize {
  std::string message;
  uint64_t bytes = 0;  // the most that it can take
  uint64_t limit = 0;
  std::string remedy;  // what makes it shorter
};

// With the longest ids and addresses that there can be.
std::vector<MessageSize> MessageSizes(const SizeTerms& terms);

// INVALID_ARGUMENT names the first that does not pass, both figures and the remedy.
absl::Status CheckMessageSizes(const SizeTerms& terms);

// The most peers with which every message passes, whatever `terms.peers` says; 0: not even one.
uint64_t MostPeers(SizeTerms terms);

// More may have joined since. Of contributors with these ages (commits that they have missed),
// which an entry has room for: the oldest, so that nobody is left out again while others come
// twice. Positions, ascending.
std::vector<size_t> WhoFits(absl::Span<const uint32_t> ages, uint64_t most);

}  // namespace atolld
