// Why an address cannot be listened on, in words: gRPC only says that it did not work.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace atolld {

// FAILED_PRECONDITION if somebody answers on this "unix:/path"; OK for every other address. A
// socket file that nobody listens on is left over from a killed process and no obstacle.
absl::Status CheckListenAddress(const std::string& address);

// Lets nobody but the owner connect to this "unix:/path", which is there.
absl::Status MakeSocketPrivate(const std::string& address);

// Of a "unix:/path", after a failed attempt, so never OK: FAILED_PRECONDITION (in use),
// PERMISSION_DENIED, INVALID_ARGUMENT (no address); each names it.
absl::Status WhyNotBound(const std::string& address);

// What an errno of socket, bind or listen means: FAILED_PRECONDITION (in use, or not an address of
// this machine), PERMISSION_DENIED; it names the address.
absl::Status CannotListen(const std::string& address, int error);

}  // namespace atolld
