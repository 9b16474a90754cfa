#include "daemon/exchange/inputs.h"

#include <utility>

#include "compression/base/status_macros.h"
#include "daemon/exchange/stream_meter.h"

namespace atolld {
namespace {

constexpr size_t kMostAnswers = 8;
// An auditor asks one thing after the other; an older call of it may not have ended here yet.
constexpr int kMostQuestionsOfOne = 2;

// One that is asked nothing, or does not read its answer, ends here.
constexpr absl::Duration kLongestAnswer = absl::Minutes(2);

}  // namespace

void KeptInputs::Keep(uint32_t chunk, uint32_t attempt, std::vector<Piece> pieces) {
  Drop(chunk);
  for (const Piece& piece : pieces) bytes_ += piece.bytes.size();
  entries_[chunk] = {attempt, std::move(pieces)};
}

const std::vector<Piece>* KeptInputs::Of(uint32_t chunk, uint32_t attempt) const {
  const auto found = entries_.find(chunk);
  return found == entries_.end() || found->second.attempt != attempt ? nullptr
                                                                     : &found->second.pieces;
}

void KeptInputs::Drop(uint32_t chunk) {
  const auto found = entries_.find(chunk);
  if (found == entries_.end()) return;
  for (const Piece& piece : found->second.pieces) bytes_ -= piece.bytes.size();
  entries_.erase(found);
}

InputsServer::InputsServer(Executor& executor, Source source)
    : executor_(executor), source_(std::move(source)), refusals_(executor) {}

InputsServer::~InputsServer() = default;

void InputsServer::Accept(std::unique_ptr<Call> call) {
  if (answers_.size() >= kMostAnswers || AskedBy(call->identity()) >= kMostQuestionsOfOne) {
    return refusals_.Refuse(std::move(call), absl::ResourceExhaustedError("too many at once"));
  }
  const uint64_t number = ++accepted_;
  StartedCall& taken =
      *(answers_[number].call = std::make_unique<StartedCall>(executor_, std::move(call)));
  Call::Events events;
  events.on_frame = guard_.Wrap([this, number](const Frame& frame) { OnRequest(number, frame); });
  events.on_writable = guard_.Wrap([this, number] { Pump(number); });
  // Later: a call is not destroyed from inside its own callback.
  events.on_closed = guard_.Wrap([this, number](const absl::Status&) {
    executor_.Post(guard_.Wrap([this, number] { answers_.erase(number); }));
  });
  taken.Start(std::move(events));
  taken.Read();
  executor_.RunAfter(kLongestAnswer, guard_.Wrap([this, number] { answers_.erase(number); }));
}

int InputsServer::AskedBy(const std::optional<Identity>& caller) const {
  int calls = 0;
  for (const auto& [number, answer] : answers_) {
    const std::optional<Identity> other = answer.call->identity();
    calls += caller && other && other->id == caller->id ? 1 : 0;
  }
  return calls;
}

void InputsServer::OnRequest(uint64_t number, const Frame& frame) {
  const auto found = answers_.find(number);
  if (found == answers_.end() || std::exchange(found->second.asked, true)) return;
  v1::InputsRequest request;
  const absl::Status read = Unpack(frame, &request);
  absl::StatusOr<std::vector<Frame>> frames =
      read.ok() ? source_(request) : absl::StatusOr<std::vector<Frame>>(read);
  if (!frames.ok()) return found->second.call->Finish(frames.status());
  found->second.frames = *std::move(frames);
  Pump(number);
}

void InputsServer::Pump(uint64_t number) {
  const auto found = answers_.find(number);
  if (found == answers_.end()) return;
  Answer& answer = found->second;
  if (!answer.asked || answer.next > answer.frames.size()) return;
  while (answer.next < answer.frames.size() && answer.call->unsent_bytes() < kMaxUnsentBytes) {
    answer.call->Write(std::move(answer.frames[answer.next++]));
  }
  if (answer.next < answer.frames.size()) return;
  ++answer.next;
  answer.call->Finish(absl::OkStatus());
}

}  // namespace atolld
