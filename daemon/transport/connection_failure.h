// Why a connection was not made: a few kinds, in words that are the same in every program.
//
// The kernel says it by an errno, gRPC in a line of text, a TLS handshake by what the other end has
// shown (server_probe.h). All of them come out here as one line: "connection refused: nothing
// listens there". Pure, any thread.
#pragma once

#include <optional>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace atolld {

enum class ConnectionFailure {
  kNameNotFound,
  kRefused,
  kUnreachable,
  kTimedOut,
  kWrongProtocol,     // what answers is no server of Atoll, or speaks in plain text
  kWrongCertificate,  // expired, of another role or peer; this side's own too
  kWrongRun,          // sound, and of another run's authority
};

// "timed out: DETAIL". NOT_FOUND: the name; UNAVAILABLE: what may pass by itself;
// FAILED_PRECONDITION: what will not, the last three.
absl::Status ConnectionError(ConnectionFailure kind, absl::string_view detail);

// Of what connect() has left in errno (or SO_ERROR).
absl::Status ConnectionErrorOf(int error);

// Nobody has answered for so long.
absl::Status ConnectionTimedOut(absl::Duration waited);

// What gRPC's line of an UNAVAILABLE call says of the connection; nothing where it does not say, or
// where only a look at the other end's certificate can.
std::optional<absl::Status> ConnectionErrorOf(absl::string_view grpc_text);

// Whether the line speaks of a handshake that failed, or of a connection that was closed on it.
bool MayBeHandshake(absl::string_view grpc_text);

}  // namespace atolld
