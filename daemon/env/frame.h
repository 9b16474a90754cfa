// The wire form of a Frame: the message's bytes, then, if there is a payload, field 15 with it.
//
// So any protobuf implementation reads and writes the same bytes, while here the payload never
// passes through the protobuf parser. Pure functions without gRPC; ParseFrame is total: any bytes
// give a frame or an error, in memory of the input's size.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "compression/base/bytes.h"
#include "daemon/env/env.h"

namespace atolld {

// Everything that stands on the wire before the payload's bytes: the message, then the payload's
// tag and length. With an empty payload that is the whole of it.
std::string FrameHead(const Frame& frame);

// Bytes of the whole message on the wire, without gRPC's 5-byte prefix.
size_t FrameBytes(const Frame& frame);

// `wire` is the message, cut anywhere. The payload shares its memory. Field 15 may stand anywhere
// and more than once: the last wins, as protobuf has it. INVALID_ARGUMENT says what is wrong at
// which byte.
absl::StatusOr<Frame> ParseFrame(const ByteParts& wire);

}  // namespace atolld
