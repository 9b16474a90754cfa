#include "tests/sim/sim_replay.h"

#include <utility>

namespace atolld {

std::shared_ptr<void> SendAgain(std::unique_ptr<Call> call, const SimRecordedCall& recorded) {
  std::shared_ptr<Call> ghost = std::move(call);
  Call* raw = ghost.get();  // its own events must not keep it alive
  ghost->Start({[raw](Frame) { raw->Read(); }, nullptr, nullptr});
  ghost->Read();
  for (const Frame& frame : recorded.frames) ghost->Write(frame);
  if (recorded.finished) ghost->Finish(absl::OkStatus());
  return ghost;
}

}  // namespace atolld
