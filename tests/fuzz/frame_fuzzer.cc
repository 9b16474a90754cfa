// Reads any bytes as a message of the wire, in one piece and cut anywhere: the frame or the refusal
// must be the same, and an accepted frame must be written and read back unchanged.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/env/network.h"
#include "tests/fuzz/fuzz_input.h"

namespace atolld {
namespace {

bool Same(const absl::StatusOr<Frame>& a, const absl::StatusOr<Frame>& b) {
  if (a.ok() != b.ok()) return false;
  if (!a.ok()) return a.status() == b.status();
  return a->message == b->message && a->payload.Joined().str() == b->payload.Joined().str();
}

}  // namespace
}  // namespace atolld

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace atolld;
  FuzzInput input(data, size);
  std::vector<uint8_t> cuts;
  for (uint32_t i = input.Byte() % 8; i > 0; --i) cuts.push_back(input.Byte());
  const absl::Span<const uint8_t> rest = input.Rest();
  const SharedBytes whole(std::vector<uint8_t>(rest.begin(), rest.end()));
  ByteParts pieces;
  size_t begin = 0;
  for (const uint8_t cut : cuts) {
    const size_t part = std::min<size_t>(cut, whole.size() - begin);
    pieces.Append(whole.Part(begin, part));
    begin += part;
  }
  pieces.Append(whole.Part(begin, whole.size() - begin));

  const absl::StatusOr<Frame> frame = ParseFrame(whole);
  Require(Same(frame, ParseFrame(pieces)), "it does not matter where a message is cut");
  if (!frame.ok()) return 0;
  Require(frame->message.size() + frame->payload.size() <= whole.size(),
          "a frame is no longer than its bytes");
  const std::string head = FrameHead(*frame);
  Require(FrameBytes(*frame) == head.size() + frame->payload.size(),
          "a frame's size is that of its head and its payload");
  ByteParts again{SharedBytes(head)};
  for (const SharedBytes& part : frame->payload.parts()) again.Append(part);
  Require(Same(frame, ParseFrame(again)), "what is written is read back");
  return 0;
}
