// Frames as gRPC's byte buffers. Payloads are shared with gRPC, not copied, either way.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include "absl/status/statusor.h"
#include "daemon/env/env.h"

namespace atolld {

grpc::ByteBuffer ToByteBuffer(const Frame& frame);

// INVALID_ARGUMENT: not the wire form of a message (frame.h).
absl::StatusOr<Frame> FromByteBuffer(const grpc::ByteBuffer& buffer);

}  // namespace atolld
