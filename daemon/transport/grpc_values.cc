#include "daemon/transport/grpc_values.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "daemon/env/network.h"

namespace atolld {

namespace {

// gRPC releases its share when the bytes are on their way, on any thread.
grpc::Slice SliceOf(const SharedBytes& bytes) {
  auto* const share = new SharedBytes(bytes);
  return grpc::Slice(
      const_cast<uint8_t*>(share->data()), share->size(),
      [](void* owner) { delete static_cast<SharedBytes*>(owner); }, share);
}

}  // namespace

size_t MostBytesServed(absl::string_view method) {
  return absl::StartsWith(method, "/atolld.v1.Admin/") ? kMaxToldBytes : kMaxMessageBytes;
}

grpc::ByteBuffer ToByteBuffer(const Frame& frame) {
  std::vector<grpc::Slice> slices;
  if (frame.payload.empty() && !frame.shared.empty()) {
    slices.push_back(SliceOf(frame.shared));
  } else {
    slices.emplace_back(FrameHead(frame));
  }
  for (const SharedBytes& part : frame.payload.parts()) slices.push_back(SliceOf(part));
  return grpc::ByteBuffer(slices.data(), slices.size());
}

absl::StatusOr<Frame> FromByteBuffer(const grpc::ByteBuffer& buffer) {
  auto slices = std::make_shared<std::vector<grpc::Slice>>();
  const grpc::Status dumped = buffer.Dump(slices.get());
  if (!dumped.ok()) return absl::InvalidArgumentError(dumped.error_message());
  ByteParts wire;
  for (const grpc::Slice& slice : *slices) {
    wire.Append(SharedBytes(slices, absl::MakeConstSpan(slice.begin(), slice.size())));
  }
  return ParseFrame(wire);
}

// Both libraries number the codes as gRPC's protocol does.
grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), std::string(status.message()));
}

absl::Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

gpr_timespec DeadlineIn(absl::Duration wait) {
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                      gpr_time_from_nanos(absl::ToInt64Nanoseconds(wait), GPR_TIMESPAN));
}

}  // namespace atolld
