#include "daemon/coordinator/line_measure.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compression/base/check.h"

namespace atolld {
namespace {

constexpr char kMeasure[] = "/atolld.v1.Membership/Measure";

// Refused calls exist until their callers have received the refusal.
constexpr size_t kMostMeasureCalls = 64;

// One check of a machine measures a few times, with more bytes each time.
constexpr double kMeasuresPerSecond = 0.1;
constexpr double kMeasuresAtOnce = 12;

constexpr absl::Duration kFarewell = absl::Seconds(1);

// How far to be ahead of the network, so that a slow line does not make all bytes wait in memory.
constexpr size_t kMostAhead = size_t{256} << 10;

}  // namespace

LineMeasure::LineMeasure(Executor& executor, std::function<absl::Status(const Identity&)> admits)
    : executor_(executor), admits_(std::move(admits)), pace_(kMeasuresPerSecond, kMeasuresAtOnce) {}

LineMeasure::~LineMeasure() = default;

bool LineMeasure::Accept(const std::string& method, std::unique_ptr<Call>* call) {
  if (method != kMeasure) return false;
  if (calls_.size() >= kMostMeasureCalls) {
    call->reset();
    return true;
  }
  const uint64_t id = ++accepted_;
  Call& taken = *(calls_[id] = std::move(*call));
  Call::Events events;
  events.on_frame = guard_.Wrap([this, id](const Frame& frame) { OnFrame(id, frame); });
  events.on_writable = guard_.Wrap([this, id] {
    if (measured_ && measured_->id == id && measured_->answering) Answer(*calls_[id]);
  });
  events.on_closed = guard_.Wrap([this, id](const absl::Status&) {
    if (measured_ && measured_->id == id) measured_.reset();
    // Later: a call is not destroyed from inside its own callback.
    executor_.Post(guard_.Wrap([this, id] { calls_.erase(id); }));
  });
  taken.Start(std::move(events));
  const absl::Status may = Check(taken.identity());
  if (!may.ok()) {
    taken.Finish(may);
    return true;
  }
  measured_ = Measured();
  measured_->id = id;
  taken.Read();
  executor_.RunAfter(kPatience, guard_.Wrap([this, id] {
    End(id, absl::DeadlineExceededError(
                absl::StrCat("the line was not measured in ", absl::FormatDuration(kPatience))));
    // One that does not even take the reason is hung up on.
    executor_.RunAfter(kFarewell, guard_.Wrap([this, id] { calls_.erase(id); }));
  }));
  return true;
}

absl::Status LineMeasure::Check(const std::optional<Identity>& caller) {
  if (caller) {
    const absl::Status admitted = admits_(*caller);
    if (!admitted.ok()) return admitted;
  }
  if (measured_) {
    return absl::ResourceExhaustedError(
        "another machine is measuring its line; try again in a few seconds");
  }
  if (pace_.Allow(executor_.Now(), caller ? caller->id : "")) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat(caller ? Describe(*caller) : "a caller in plain text",
                   " has measured its line too often; try again in a minute"));
}

void LineMeasure::OnFrame(uint64_t id, const Frame& frame) {
  if (!measured_ || measured_->id != id) return;
  v1::MeasureMessage message;
  absl::Status status = Unpack(frame, &message);
  if (status.ok()) status = Take(message, frame.payload.size());
  if (!status.ok()) return End(id, status);
  Call& call = *calls_[id];
  if (measured_->up_left > 0) return call.Read();
  v1::MeasureMessage took;
  if (measured_->first) {
    took.set_took_microseconds(
        static_cast<uint64_t>(absl::ToInt64Microseconds(*measured_->last - *measured_->first)));
  }
  call.Write(Pack(took));
  measured_->answering = true;
  Answer(call);
}

absl::Status LineMeasure::Take(const v1::MeasureMessage& message, size_t payload) {
  if (!measured_->begun) {
    if (message.up_bytes() > kMostBytes || message.down_bytes() > kMostBytes) {
      return absl::InvalidArgumentError(absl::StrCat(
          "a line is measured with at most ", kMostBytes, " bytes each way; ", message.up_bytes(),
          " up and ", message.down_bytes(), " down were asked for"));
    }
    measured_->begun = true;
    measured_->up_left = message.up_bytes();
    measured_->down_left = message.down_bytes();
  }
  if (payload > kMostPayload || payload > measured_->up_left) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a message of ", payload, " bytes came, where ",
        std::min<uint64_t>(kMostPayload, measured_->up_left), " at most were to come"));
  }
  if (payload == 0) return absl::OkStatus();
  measured_->up_left -= payload;
  measured_->last = executor_.Now();
  if (!measured_->first) measured_->first = measured_->last;
  return absl::OkStatus();
}

void LineMeasure::Answer(Call& call) {
  while (measured_->down_left > 0 && call.unsent_bytes() < kMostAhead) {
    const size_t bytes = std::min<uint64_t>(kMostPayload, measured_->down_left);
    measured_->down_left -= bytes;
    // Bytes that nothing on the way makes shorter.
    std::vector<uint8_t> payload(bytes);
    uint64_t state = measured_->down_left + 1;
    for (uint8_t& byte : payload) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      byte = static_cast<uint8_t>(state >> 56);
    }
    call.Write(Pack(v1::MeasureMessage(), SharedBytes(std::move(payload))));
  }
  if (measured_->down_left > 0) return;
  measured_->answering = false;
  call.Finish(absl::OkStatus());
}

void LineMeasure::End(uint64_t id, const absl::Status& status) {
  if (!measured_ || measured_->id != id) return;
  measured_.reset();
  calls_[id]->Finish(status);
}

}  // namespace atolld
