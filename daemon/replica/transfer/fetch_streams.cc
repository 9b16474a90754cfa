#include "daemon/replica/transfer/fetch_streams.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"

namespace atolld {
namespace {

using Why = DonorList::Why;

// Returns what the end of a call says about its donor.
Why WhyClosed(const absl::Status& status) {
  if (absl::IsNotFound(status)) return Why::kLacksIt;
  if (absl::IsResourceExhausted(status)) return Why::kBusy;
  return Why::kFailed;
}

// Returns what the judgement of a donor's bytes says about it.
Why WhyJudged(const absl::Status& status) {
  if (absl::IsNotFound(status)) return Why::kLacksIt;
  return absl::IsUnavailable(status) ? Why::kFailed : Why::kLied;
}

}  // namespace

struct FetchStreams::State : std::enable_shared_from_this<FetchStreams::State> {
  struct Stream {
    std::string donor;
    std::unique_ptr<Call> call;
    bool greeted = false;
    bool reading = false;
    bool judging = false;
    std::optional<absl::Status> closed;  // seen while judging
    absl::Time last_progress;
  };

  State(Env env_in, Settings settings_in, Hooks hooks_in)
      : env(env_in),
        settings(std::move(settings_in)),
        hooks(std::move(hooks_in)),
        donors(settings.donors) {}

  void Pump();
  void DialMore();
  void Dial(const std::string& donor);
  void Ask(int id, Stream* stream);
  bool Waits(int id, const Stream& stream) const;
  void OnFrame(int id, Frame frame);
  void Judged(int id, const absl::StatusOr<Judgement>& judgement);
  void OnClosed(int id, const absl::Status& status);
  void Leave(int id, Why why, const absl::Status& reason);
  void Drop(int id);
  void Watch();
  void OnWatch();
  void Stop();

  const Env env;
  Settings settings;
  const Hooks hooks;
  DonorList donors;
  FetchSchedule* schedule = nullptr;
  std::map<int, Stream> streams;
  int next_stream = 0;
  bool over = false;
  bool pump_posted = false;
  std::optional<Executor::TimerId> watch;
  absl::Time watch_at;
  uint64_t received = 0;
  std::set<std::string> gave;
};

// Everything that may call the owner runs from here, off the owner's own stack.
void FetchStreams::State::Pump() {
  if (over || std::exchange(pump_posted, true)) return;
  env.executor.Post([weak = weak_from_this()] {
    const auto self = weak.lock();
    if (self == nullptr || self->over) return;
    self->pump_posted = false;
    self->DialMore();
    for (auto& [id, stream] : self->streams) self->Ask(id, &stream);
    self->Watch();
    const bool wants = self->schedule == nullptr || self->schedule->missing() > 0;
    if (!self->streams.empty() || !wants) return;
    // The owner may destroy the streams, and with them the hooks, from inside.
    const auto on_exhausted = self->hooks.on_exhausted;
    on_exhausted(self->donors.Verdict());
  });
}

void FetchStreams::State::DialMore() {
  while (streams.size() < settings.streams) {
    // A stream more is of use only where there is something that nobody owes yet.
    if (schedule != nullptr && !schedule->AnyOpen()) return;
    if (schedule != nullptr && streams.size() >= schedule->missing()) return;
    const std::optional<std::string> donor = donors.Take();
    if (!donor) return;
    Dial(*donor);
  }
}

void FetchStreams::State::Dial(const std::string& donor) {
  const int id = next_stream++;
  Stream& stream = streams[id];
  stream.donor = donor;
  stream.last_progress = env.executor.Now();
  stream.call = env.transport.Dial(donor, settings.method, absl::InfiniteDuration());
  Call::Events events;
  events.on_frame = [weak = weak_from_this(), id](Frame frame) {
    if (const auto self = weak.lock()) self->OnFrame(id, std::move(frame));
  };
  events.on_closed = [weak = weak_from_this(), id](absl::Status status) {
    if (const auto self = weak.lock()) self->OnClosed(id, status);
  };
  stream.call->Start(std::move(events));
  std::optional<Frame> greeting;
  if (hooks.greeting) greeting = hooks.greeting();
  stream.greeted = !greeting.has_value();
  if (greeting) stream.call->Write(*std::move(greeting));
  if (schedule != nullptr) schedule->AddStream(id);
}

bool FetchStreams::State::Waits(int id, const Stream& stream) const {
  return !stream.greeted || (schedule != nullptr && schedule->Owed(id).has_value());
}

void FetchStreams::State::Ask(int id, Stream* stream) {
  if (stream->greeted && schedule != nullptr) {
    const absl::Time now = env.executor.Now();
    if (!Waits(id, *stream)) stream->last_progress = now;
    while (const std::optional<uint64_t> item = schedule->Ask(id, now)) {
      stream->call->Write(hooks.request(*item));
    }
  }
  if (stream->reading || stream->judging || !Waits(id, *stream)) return;
  stream->reading = true;
  stream->call->Read();
}

void FetchStreams::State::OnFrame(int id, Frame frame) {
  const auto found = streams.find(id);
  if (over || found == streams.end()) return;
  Stream& stream = found->second;
  stream.reading = false;
  stream.judging = true;
  stream.last_progress = env.executor.Now();
  received += frame.message.size() + frame.payload.size();
  std::optional<uint64_t> item;
  if (stream.greeted && schedule != nullptr) item = schedule->Owed(id);
  if (stream.greeted && !item) {
    stream.judging = false;
    return Leave(id, Why::kLied,
                 absl::InvalidArgumentError("it sent something that was not asked for"));
  }
  const auto on_frame = hooks.on_frame;
  on_frame(id, item, std::move(frame),
           [weak = weak_from_this(), id](absl::StatusOr<Judgement> judgement) {
             if (const auto self = weak.lock()) self->Judged(id, judgement);
           });
}

void FetchStreams::State::Judged(int id, const absl::StatusOr<Judgement>& judgement) {
  const auto found = streams.find(id);
  if (over || found == streams.end()) return;
  Stream& stream = found->second;
  stream.judging = false;
  stream.last_progress = env.executor.Now();
  if (!judgement.ok()) return Leave(id, WhyJudged(judgement.status()), judgement.status());
  if (*judgement == Judgement::kWhole) {
    if (!stream.greeted) {
      stream.greeted = true;
    } else {
      schedule->Took(id, env.executor.Now());
      gave.insert(stream.donor);
      donors.Progressed();
    }
  }
  if (stream.closed) return OnClosed(id, absl::Status(*stream.closed));
  Pump();
}

void FetchStreams::State::OnClosed(int id, const absl::Status& status) {
  const auto found = streams.find(id);
  if (over || found == streams.end()) return;
  if (found->second.judging) {
    found->second.closed = status;
    return;
  }
  if (!Waits(id, found->second)) {
    // Ended between two questions: it is simply dialled again when there is another.
    donors.Release(found->second.donor);
    Drop(id);
    return Pump();
  }
  const absl::Status reason =
      status.ok() ? absl::UnavailableError("it ended the call before its answer was complete")
                  : status;
  Leave(id, WhyClosed(reason), reason);
}

void FetchStreams::State::Leave(int id, Why why, const absl::Status& reason) {
  const std::string donor = streams.at(id).donor;
  const Log::Level level = why == Why::kLied ? Log::Level::kWarning : Log::Level::kInfo;
  const std::string subject = absl::StrCat(settings.what, ": leaving donor ", donor, ": ");
  if (settings.lines == nullptr) {
    env.log.Write(level, absl::StrCat(subject, reason.message()));
  } else {
    settings.lines->Write(level,
                          absl::StrCat(subject, WithoutNumbers(std::string(reason.message()))),
                          absl::StrCat(subject, reason.message()));
  }
  donors.Leave(donor, why, reason);
  Drop(id);
  if (why == Why::kFailed && settings.on_failed) settings.on_failed(donor);
  Pump();
}

void FetchStreams::State::Drop(int id) {
  if (schedule != nullptr) schedule->RemoveStream(id);
  streams.erase(id);
  if (hooks.on_left) hooks.on_left(id);
}

// Sets one timer for all streams: for the earliest time at which one has stalled, or at which an
// idle one should be asked for what another owes.
void FetchStreams::State::Watch() {
  absl::Time at = schedule != nullptr ? schedule->ReconsiderAt() : absl::InfiniteFuture();
  for (const auto& [id, stream] : streams) {
    if (stream.judging || !Waits(id, stream)) continue;
    at = std::min(at, stream.last_progress + settings.failure_timeout);
  }
  if (watch.has_value() && watch_at <= at) return;  // it looks again when it fires
  if (watch.has_value()) env.executor.Cancel(*watch);
  watch.reset();
  if (at == absl::InfiniteFuture()) return;
  const absl::Time now = env.executor.Now();
  watch_at = std::max(at, now);
  watch = env.executor.RunAfter(watch_at - now, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (self == nullptr || self->over) return;
    self->watch.reset();
    self->OnWatch();
  });
}

void FetchStreams::State::OnWatch() {
  const absl::Time now = env.executor.Now();
  // A timer that comes so late says that this process did not run: the donors are not to blame.
  const bool was_stopped = now - watch_at > settings.failure_timeout / 2;
  std::vector<int> stalled;
  for (auto& [id, stream] : streams) {
    if (was_stopped) stream.last_progress = now;
    if (stream.judging || !Waits(id, stream)) continue;
    if (now - stream.last_progress >= settings.failure_timeout) stalled.push_back(id);
  }
  for (const int id : stalled) {
    Leave(id, Why::kFailed,
          absl::DeadlineExceededError(
              absl::StrCat("no progress for ", absl::FormatDuration(settings.failure_timeout))));
  }
  Pump();
}

void FetchStreams::State::Stop() {
  over = true;
  streams.clear();
  if (watch.has_value()) env.executor.Cancel(*watch);
  watch.reset();
}

FetchStreams::FetchStreams(Env env, Settings settings, Hooks hooks)
    : state_(std::make_shared<State>(env, std::move(settings), std::move(hooks))) {
  state_->Pump();
}

FetchStreams::~FetchStreams() { state_->Stop(); }

void FetchStreams::SetSchedule(FetchSchedule* schedule) {
  if (state_->schedule != nullptr) {
    for (const auto& [id, stream] : state_->streams) state_->schedule->RemoveStream(id);
  }
  state_->schedule = schedule;
  if (schedule != nullptr) {
    for (const auto& [id, stream] : state_->streams) schedule->AddStream(id);
  }
  Pump();
}

void FetchStreams::SetStreams(size_t streams) {
  state_->settings.streams = streams;
  Pump();
}

void FetchStreams::SetDonors(const std::vector<std::string>& donors) {
  state_->donors.Set(donors);
  Pump();
}

void FetchStreams::Pump() { state_->Pump(); }

uint64_t FetchStreams::received_bytes() const { return state_->received; }
size_t FetchStreams::donors_used() const { return state_->gave.size(); }

}  // namespace atolld
