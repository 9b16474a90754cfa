// Any bytes as a message of the wire, in one piece and cut anywhere: the same frame or the same
// refusal; and what was taken is written and read back as it was.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/transport/frame.h"
#include "tests/fuzz/fuzz_input.h"

namespace atolld {
namespace {

bool Same(const absl::StatusOr<Frame>& a, const absl::StatusOr<Frame>& b) {
  if (a.ok() != b.ok()) return false;
  if (!a.ok()) return a.status() == b.status();
  return a->message == b->message && a->payload.str() == b->payload.str();
}

}  // namespace
}  // namespace atolld

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace atolld;
  FuzzInput input(data, size);
  std::vector<uint8_t> cuts;
  for (uint32_t i = input.Byte() % 8; i > 0; --i) cuts.push_back(input.Byte());
  FuzzInput bytes = input;
  const absl::Span<const uint8_t> whole[] = {input.Rest()};
  std::vector<absl::Span<const uint8_t>> pieces;
  for (const uint8_t cut : cuts) pieces.push_back(bytes.Take(cut));
  pieces.push_back(bytes.Rest());

  const absl::StatusOr<Frame> frame = ParseFrame(whole);
  Require(Same(frame, ParseFrame(pieces)), "it does not matter where a message is cut");
  if (!frame.ok()) return 0;
  Require(frame->message.size() + frame->payload.size() <= whole[0].size(),
          "a frame is no longer than its bytes");
  const std::string head = FrameHead(*frame);
  Require(FrameBytes(*frame) == head.size() + frame->payload.size(),
          "a frame's size is that of its head and its payload");
  const absl::Span<const uint8_t> again[] = {
      absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(head.data()), head.size()),
      frame->payload.span()};
  Require(Same(frame, ParseFrame(again)), "what is written is read back");
  return 0;
}
