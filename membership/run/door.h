// The door: cleans the messages of peers so that they can be stored, passed on to others and
// printed.
//
// An admitted peer may send anything. Its texts are turned into single lines of bounded length, and
// fields that this release does not know are dropped, so that they are not stored, counted in a
// limit or passed on. Committed history (headers, the genesis) is left unchanged, because its
// digest must stay the same.
//
// Pure. May be called from any thread.
#pragma once

#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "atoll/v1/membership.pb.h"

namespace atolld {

// The most bytes of a name, an address or a device from a peer; and the most bytes of a `reason` or
// similar text.
inline constexpr size_t kLongestName = 256;
inline constexpr size_t kLongestWords = 1024;

// The most bytes of a digest, a key, a signature, a nonce or two of them together; and the most
// bytes of a bitmap over contributors.
inline constexpr size_t kLongestDigest = 128;
inline constexpr size_t kLongestBitmap = 8192;

// Cleans the message. Fails with INVALID_ARGUMENT if a field of bytes is longer than any valid one;
// the message names the field.
absl::Status TidyAtTheDoor(v1::PeerMessage* message);

// Returns true if other peers may be told to dial this address, which must be "host:port" or
// "[v6]:port". A path or a scheme is refused, because a client would take it for another kind of
// address and connect without certificates.
bool IsDialableAddress(absl::string_view address);

}  // namespace atolld
