// Atoll's values as gRPC's: frames, statuses, deadlines, and the limit of a message.
//
// Payloads are shared with gRPC, not copied, either way. Pure functions, any thread.
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

// The protocol's limit of 4 MiB a message, and room for the fields beside a payload of that size.
inline constexpr size_t kMaxMessageBytes = (size_t{4} << 20) + (size_t{64} << 10);

// That of what the coordinator tells an operator: a run's status names every peer, some 400 bytes
// each, and who asks for it trusts the coordinator.
inline constexpr size_t kMaxToldBytes = size_t{64} << 20;

// The largest message that whoever serves the method sends.
size_t MostBytesServed(absl::string_view method);

grpc::ByteBuffer ToByteBuffer(const Frame& frame);

// INVALID_ARGUMENT: not the wire form of a message (network.h).
absl::StatusOr<Frame> FromByteBuffer(const grpc::ByteBuffer& buffer);

grpc::Status ToGrpc(const absl::Status& status);
absl::Status FromGrpc(const grpc::Status& status);

// When a call that may take so long has to be over.
gpr_timespec DeadlineIn(absl::Duration wait);

}  // namespace atolld
