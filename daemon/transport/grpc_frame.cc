#include "daemon/transport/grpc_frame.h"

#include <memory>
#include <vector>

#include "daemon/env/frame.h"

namespace atolld {

grpc::ByteBuffer ToByteBuffer(const Frame& frame) {
  std::vector<grpc::Slice> slices = {grpc::Slice(FrameHead(frame))};
  for (const SharedBytes& part : frame.payload.parts()) {
    // gRPC drops its share when the bytes are on their way, on any thread.
    auto* const share = new SharedBytes(part);
    slices.emplace_back(
        const_cast<uint8_t*>(share->data()), share->size(),
        [](void* owner) { delete static_cast<SharedBytes*>(owner); }, share);
  }
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

}  // namespace atolld
