#include "daemon/transport/grpc_frame.h"

#include <vector>

#include "daemon/transport/frame.h"

namespace atolld {

grpc::ByteBuffer ToByteBuffer(const Frame& frame) {
  const std::string head = FrameHead(frame);
  if (frame.payload.empty()) {
    const grpc::Slice slice(head);
    return grpc::ByteBuffer(&slice, 1);
  }
  // gRPC drops its share when the bytes are on their way, on any thread.
  auto* const share = new SharedBytes(frame.payload);
  const grpc::Slice slices[] = {
      grpc::Slice(head), grpc::Slice(
                             const_cast<uint8_t*>(share->data()), share->size(),
                             [](void* owner) { delete static_cast<SharedBytes*>(owner); }, share)};
  return grpc::ByteBuffer(slices, 2);
}

absl::StatusOr<Frame> FromByteBuffer(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  const grpc::Status dumped = buffer.Dump(&slices);
  if (!dumped.ok()) return absl::InvalidArgumentError(dumped.error_message());
  std::vector<absl::Span<const uint8_t>> pieces;
  pieces.reserve(slices.size());
  for (const grpc::Slice& slice : slices) pieces.emplace_back(slice.begin(), slice.size());
  return ParseFrame(pieces);
}

}  // namespace atolld
