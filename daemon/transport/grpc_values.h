// Converts Atoll's values to gRPC's and back: frames, statuses, deadlines, and the size limit of a
// message.
//
// Payloads are shared with gRPC in both directions and never copied. Pure. May be called from any
// thread.
#pragma once

#include <grpc/support/time.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/status.h>

#include <cstddef>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "daemon/env/env.h"

namespace atolld {

// The protocol's limit of 4 MiB for the payload of a message, plus room for its other fields.
inline constexpr size_t kMaxMessageBytes = (size_t{4} << 20) + (size_t{64} << 10);

// The limit of a message that the coordinator sends to an operator. It is larger because the status
// of a run lists every peer with about 400 bytes, and because the operator trusts the coordinator.
inline constexpr size_t kMaxToldBytes = size_t{64} << 20;

// Returns the size limit of a message that a server sends in answer to this method.
size_t MostBytesServed(absl::string_view method);

grpc::ByteBuffer ToByteBuffer(const Frame& frame);

// Fails with INVALID_ARGUMENT if the bytes are not the wire form of a message (network.h).
absl::StatusOr<Frame> FromByteBuffer(const grpc::ByteBuffer& buffer);

grpc::Status ToGrpc(const absl::Status& status);
absl::Status FromGrpc(const grpc::Status& status);

// Returns the deadline of a call that may last `wait` from now.
gpr_timespec DeadlineIn(absl::Duration wait);

}  // namespace atolld
