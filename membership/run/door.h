// The door: what a peer says, as it is kept, told to others and printed.
//
// An admitted peer may say anything. Its words are made lines of bounded length, and what this
// release does not know of its message is dropped, so that neither is stored, counted in a limit
// or handed on. Committed history (headers, the genesis) is left as it is: it counts by its digest.
//
// Pure, any thread.
#pragma once

#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "atoll/v1/membership.pb.h"

namespace atolld {

// Bytes of a string that a peer says: a name, an address, a device; of a `reason` and its kin.
inline constexpr size_t kLongestName = 256;
inline constexpr size_t kLongestWords = 1024;

// A digest, a key, a signature, a nonce or two of them together; a bitmap over contributors.
inline constexpr size_t kLongestDigest = 128;
inline constexpr size_t kLongestBitmap = 8192;

// INVALID_ARGUMENT: a field of bytes is longer than any that the protocol has; names it.
absl::Status TidyAtTheDoor(v1::PeerMessage* message);

// Whether others may be told to dial it: "host:port", "[v6]:port". No path, no scheme, which a
// dialler would take for another kind of address, and reach without certificates.
bool IsDialableAddress(absl::string_view address);

}  // namespace atolld
