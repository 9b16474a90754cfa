// EntryFetch: the receiving end for entries of the log, one after another, from one donor at a
// time.
#include <utility>

#include "absl/strings/str_cat.h"
#include "atoll/v1/replica.pb.h"
#include "daemon/replica/donor_list.h"
#include "daemon/replica/transfer.h"
#include "daemon/status_macros.h"

namespace atolld {

struct EntryFetch::State : std::enable_shared_from_this<EntryFetch::State> {
  State(Env env_in, FetchSource source_in, uint64_t first, uint64_t last_in, Events events_in)
      : env(env_in),
        source(std::move(source_in)),
        last(last_in),
        events(std::move(events_in)),
        donors(source.donors),
        version(first) {}

  void Ask();
  void Dial();
  void OnFrame(const Frame& frame);
  absl::Status TakeBlock(const v1::EntryBlock& block, const SharedBytes& payload);
  void CheckEntry();
  void OnClosed(const absl::Status& status);
  void Leave(DonorList::Why why, const absl::Status& reason);
  void Next();
  void Finish(const absl::Status& status);
  void Stop();
  void WaitForProgress();

  Env env;
  const FetchSource source;
  const uint64_t last;
  Events events;
  DonorList donors;

  uint64_t version;  // of the entry that is being fetched
  bool over = false;
  std::unique_ptr<Call> call;
  bool waiting = false;  // for frames of this entry
  std::optional<Executor::TimerId> stall_timer;
  v1::EntryHeader header;
  std::vector<uint8_t> bytes;
};

// Asks for `version`, over the call that is open if there is one.
void EntryFetch::State::Ask() {
  if (!donors.any()) return Finish(donors.Verdict());
  if (call == nullptr) Dial();
  bytes.clear();
  header.Clear();
  waiting = true;
  v1::EntriesRequest request;
  request.set_run_id(source.run_id);
  request.set_version(version);
  call->Write(Pack(request));
  call->Read();
  WaitForProgress();
}

void EntryFetch::State::Dial() {
  call = env.transport.Dial(donors.current(), kFetchEntriesMethod, absl::InfiniteDuration());
  Call::Events callbacks;
  callbacks.on_frame = [weak = weak_from_this()](Frame frame) {
    if (const auto self = weak.lock()) self->OnFrame(frame);
  };
  callbacks.on_closed = [weak = weak_from_this()](absl::Status status) {
    if (const auto self = weak.lock()) self->OnClosed(status);
  };
  call->Start(std::move(callbacks));
}

void EntryFetch::State::WaitForProgress() {
  if (stall_timer.has_value()) env.executor.Cancel(*stall_timer);
  stall_timer.reset();
  if (!waiting) return;
  stall_timer = env.executor.RunAfter(source.failure_timeout, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (self == nullptr || self->over) return;
    self->stall_timer.reset();
    self->Leave(DonorList::Why::kFailed,
                absl::DeadlineExceededError(absl::StrCat(
                    "no progress for ", absl::FormatDuration(self->source.failure_timeout))));
  });
}

void EntryFetch::State::OnFrame(const Frame& frame) {
  if (over || !waiting) return;
  v1::EntryBlock block;
  absl::Status status = Unpack(frame, &block);
  if (status.ok()) status = TakeBlock(block, frame.payload);
  if (!status.ok()) return Leave(DonorList::Why::kLied, status);
  if (bytes.size() == block.total()) return CheckEntry();
  call->Read();
  WaitForProgress();
}

absl::Status EntryFetch::State::TakeBlock(const v1::EntryBlock& block, const SharedBytes& payload) {
  if (bytes.empty()) {
    if (!block.has_header() || block.header().version() != version ||
        block.header().run_id() != source.run_id) {
      return absl::InvalidArgumentError(
          absl::StrCat("entry ", version, ": the answer begins with the header of entry ",
                       block.header().version(), " of run \"", block.header().run_id(), "\""));
    }
    header = block.header();
  }
  // What is kept grows with what has come, never with what was announced.
  if (block.offset() != bytes.size() || block.total() > source.payload_limit || payload.empty() ||
      payload.size() > kBlockBytes || payload.size() > block.total() - block.offset()) {
    return absl::InvalidArgumentError(
        absl::StrCat("entry ", version, ": a block of ", payload.size(), " bytes at ",
                     block.offset(), " of ", block.total(), " came after ", bytes.size()));
  }
  bytes.insert(bytes.end(), payload.span().begin(), payload.span().end());
  return absl::OkStatus();
}

void EntryFetch::State::CheckEntry() {
  waiting = false;
  WaitForProgress();
  auto entry = std::make_shared<Entry>(Entry{header, SharedBytes(std::move(bytes))});
  bytes = {};
  auto same = std::make_shared<bool>(false);
  env.executor.Offload(
      [entry, same] {
        *same = ToBytes(TreeDigest(entry->payload.span())) == entry->header.payload_digest();
      },
      [weak = weak_from_this(), entry, same] {
        const auto self = weak.lock();
        if (self == nullptr || self->over) return;
        if (!*same) {
          return self->Leave(
              DonorList::Why::kLied,
              absl::InvalidArgumentError(absl::StrCat(
                  "entry ", self->version, ": the payload's digest differs from the header's")));
        }
        self->donors.Progressed();
        self->events.on_entry(std::move(*entry), [weak] {
          if (const auto next = weak.lock()) next->Next();
        });
      });
}

void EntryFetch::State::Next() {
  if (over) return;
  if (version == last) return Finish(absl::OkStatus());
  ++version;
  Ask();
}

void EntryFetch::State::OnClosed(const absl::Status& status) {
  if (over) return;
  call = nullptr;
  // A call that ends between two entries is simply made again.
  if (!waiting) return;
  const absl::Status reason =
      status.ok() ? absl::UnavailableError("it ended the call before the entry was complete")
                  : status;
  Leave(absl::IsNotFound(reason) ? DonorList::Why::kLacksIt : DonorList::Why::kFailed, reason);
}

void EntryFetch::State::Leave(DonorList::Why why, const absl::Status& reason) {
  env.log.Write(why == DonorList::Why::kLied ? Log::Level::kWarning : Log::Level::kInfo,
                absl::StrCat("entry ", version, ": leaving donor ", donors.current(), ": ",
                             reason.message()));
  call = nullptr;
  donors.Leave(why, reason);
  Ask();
}

void EntryFetch::State::Finish(const absl::Status& status) {
  Stop();
  // The owner may destroy the fetch, and with it `events`, from inside.
  const auto on_done = std::move(events.on_done);
  on_done(Annotate(status, absl::StrCat("entry ", version)));
}

void EntryFetch::State::Stop() {
  over = true;
  waiting = false;
  call = nullptr;
  WaitForProgress();
}

EntryFetch::EntryFetch(Env env, FetchSource source, uint64_t first, uint64_t last, Events events)
    : state_(std::make_shared<State>(env, std::move(source), first, last, std::move(events))) {
  CHECK(first <= last);
  // Not from inside the constructor: the owner may not hold this object yet when on_done comes.
  env.executor.Post([weak = std::weak_ptr<State>(state_)] {
    const auto state = weak.lock();
    if (state != nullptr && !state->over) state->Ask();
  });
}

EntryFetch::~EntryFetch() { state_->Stop(); }

}  // namespace atolld
