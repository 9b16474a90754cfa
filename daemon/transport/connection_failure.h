// The reasons why a connection was not made: a few kinds, which every program reports in the same
// words.
//
// The kernel reports a failure by an errno, gRPC by a line of text, and server_probe.h examines a
// failed TLS handshake. Each failure becomes one line of the same form: "connection refused:
// nothing listens there". Pure. May be called from any thread.
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
  kStalled,           // the TCP connection was made, but nothing arrived on it
  kWrongProtocol,     // the other end is not a server of Atoll, or speaks plain text
  kWrongCertificate,  // either side's certificate is expired or belongs to another role or peer
  kWrongRun,          // the certificate is valid, but another run's authority signed it
};

// Returns an error "KIND: DETAIL", such as "timed out: no answer in 10s". The code is NOT_FOUND for
// kNameNotFound, FAILED_PRECONDITION for the last three kinds, which trying again does not cure,
// and UNAVAILABLE for the others.
absl::Status ConnectionError(ConnectionFailure kind, absl::string_view detail);

// Returns the error for the errno (or SO_ERROR) that connect() left.
absl::Status ConnectionErrorOf(int error);

// Returns the error for a server that has not answered for `waited`.
absl::Status ConnectionTimedOut(absl::Duration waited);

// Returns the error for a server that accepted the connection and then sent nothing for `waited`.
absl::Status ConnectionStalled(absl::Duration waited);

// Returns the connection error that gRPC's message of an UNAVAILABLE call reports. Returns nullopt
// if the message reports none, or if the kind can only be found by a look at the other end's
// certificate.
std::optional<absl::Status> ConnectionErrorOf(absl::string_view grpc_text);

// Returns true if the text reports that a handshake failed or that the connection was closed during
// a handshake.
bool MayBeHandshake(absl::string_view grpc_text);

}  // namespace atolld
