// PeerAddress: an address to dial, and the peer that has to answer there.
//
// "PEER@host:port": with certificates, whoever answers and is not this peer is told nothing, and
// the call is UNAVAILABLE with both names. Without certificates nobody can tell, and the name is
// passed over. An address without a name takes whoever serves in the right role. Pure functions,
// any thread.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace atolld {

// Whether only processes of this machine can dial it: a loopback or Unix-domain address.
bool IsLoopback(absl::string_view address);

struct PeerAddress {
  std::string peer;  // empty: whoever is there
  std::string address;
};

std::string FormatPeerAddress(absl::string_view peer, absl::string_view address);
PeerAddress ParsePeerAddress(absl::string_view text);

}  // namespace atolld
