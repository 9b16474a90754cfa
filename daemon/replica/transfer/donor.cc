// Donor: the giving end of a transfer. An AnswerSource makes the answer to a request, frame by
// frame, from the replica's files; one stream object for each call sends it. Files are read on the
// pool, one read at a time for each stream.
#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "atoll/v1/replica.pb.h"
#include "compression/base/status_macros.h"
#include "daemon/env/env.h"
#include "daemon/env/repeated_lines.h"
#include "daemon/replica/state/layout.h"
#include "daemon/replica/state/record.h"
#include "daemon/replica/state/run_file_copy.h"
#include "daemon/replica/state/snapshot_build.h"
#include "daemon/replica/state/update_log.h"
#include "daemon/replica/transfer/donor_pace.h"
#include "daemon/replica/transfer/transfer.h"
#include "membership/history/digest.h"

namespace atolld {
namespace {

// The most bytes that wait in a call for the wire: enough to keep a fast link busy while the next
// block is read.
constexpr size_t kMaxUnsentBytes = 2 * kBlockBytes;

// The most calls served at once: each may hold a few blocks in memory. A joiner opens one call to
// each donor. As many calls that were dialled here may wait beside them for their first request,
// which may never come.
constexpr size_t kMaxStreams = 16;

// The part of the rate that is given while this peer exchanges.
constexpr uint64_t kBusyShare = 8;

// Makes the answer to one request, one frame after another. Runs on the pool, one call at a time;
// blocking.
class AnswerSource {
 public:
  virtual ~AnswerSource() = default;
  // Takes the next request. An error ends the stream.
  virtual absl::Status Begin(const Frame& request) = 0;
  // The next frame of the answer; not after the last one.
  virtual absl::StatusOr<Frame> NextFrame() = 0;
  virtual bool complete() const = 0;  // the last one was made
};

absl::Status CheckRun(const std::string& asked, const std::string& run_id) {
  if (asked == run_id) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("asked for run ", asked, ", this is a replica of ", run_id));
}

// The files from which a donor reads, and the log of what it could not read: the joiner gets an
// error that names no path of this machine.
struct DonorFiles {
  Files& files;
  std::string dir;
  std::string run_id;
  std::shared_ptr<RepeatedLines> lines;

  absl::Status Tell(const absl::Status& status, const std::string& what) const {
    if (status.ok()) return status;
    const bool lacks = absl::IsNotFound(status);
    lines->Write(lacks ? Log::Level::kDebug : Log::Level::kWarning,
                 WithoutNumbers(absl::StrCat(what, status.message())),
                 absl::StrCat("donor: ", what, ": ", status.message()));
    return absl::Status(status.code(),
                        absl::StrCat(what, lacks ? " is not here" : " cannot be read here"));
  }
};

class EntrySource final : public AnswerSource {
 public:
  explicit EntrySource(DonorFiles from) : from_(std::move(from)) {}

  absl::Status Begin(const Frame& request) override {
    v1::EntriesRequest asked;
    RETURN_IF_ERROR(Unpack(request, &asked));
    RETURN_IF_ERROR(CheckRun(asked.run_id(), from_.run_id));
    what_ = absl::StrCat("entry ", asked.version());
    RETURN_IF_ERROR(from_.Tell(Open(asked.version()), what_));
    offset_ = 0;
    header_only_ = asked.header_only();
    return absl::OkStatus();
  }

  bool complete() const override { return file_ == nullptr; }

  absl::StatusOr<Frame> NextFrame() override {
    v1::EntryBlock block;
    if (header_only_) {
      *block.mutable_header() = header_;
      block.set_total(file_->size());
      file_ = nullptr;
      return Pack(block);
    }
    if (offset_ == 0) *block.mutable_header() = header_;
    block.set_offset(offset_);
    block.set_total(file_->size());
    std::vector<uint8_t> bytes(std::min<uint64_t>(kBlockBytes, file_->size() - offset_));
    RETURN_IF_ERROR(from_.Tell(file_->ReadAt(offset_, absl::MakeSpan(bytes)), what_));
    offset_ += bytes.size();
    if (offset_ == file_->size()) file_ = nullptr;
    return Pack(block, SharedBytes(std::move(bytes)));
  }

 private:
  absl::Status Open(uint64_t version) {
    ASSIGN_OR_RETURN(header_, FindHeader(version));
    ASSIGN_OR_RETURN(file_, from_.files.OpenToRead(PayloadPath(from_.dir, version)));
    return absl::OkStatus();
  }

  absl::StatusOr<v1::EntryHeader> FindHeader(uint64_t version) {
    if (log_.has_value() && log_->Refresh().ok()) {
      absl::StatusOr<v1::EntryHeader> header = log_->ReadHeader(version);
      if (header.ok()) return header;
    }
    // The first request, or a log that was begun anew since: read it from its start.
    ASSIGN_OR_RETURN(log_, LogReader::Open(from_.files, from_.dir, 1));
    return log_->ReadHeader(version);
  }

  const DonorFiles from_;
  std::string what_;  // was asked for
  std::optional<LogReader> log_;
  v1::EntryHeader header_;
  std::unique_ptr<ReadableFile> file_;  // of the entry being sent; null: none
  uint64_t offset_ = 0;
  bool header_only_ = false;
};

// Blocks of a snapshot, or of one of the run's files.
class BlockSource final : public AnswerSource {
 public:
  BlockSource(DonorFiles from, uint64_t leaves_a_page)
      : from_(std::move(from)), leaves_a_page_(leaves_a_page) {}

  absl::Status Begin(const Frame& request) override {
    RETURN_IF_ERROR(Unpack(request, &asked_));
    RETURN_IF_ERROR(CheckRun(asked_.run_id(), from_.run_id));
    if (!asked_.want_block()) {
      what_ = asked_.file() > 0 ? absl::StrCat("file ", asked_.file(), " of the run")
              : asked_.newest() ? std::string("a snapshot")
                                : absl::StrCat("the snapshot of version ", asked_.version());
      snapshot_ = nullptr;
      file_ = nullptr;
      described_ = false;
      next_leaf_ = 0;
      return from_.Tell(asked_.file() > 0 ? OpenFile() : OpenSnapshot(), what_);
    }
    if (snapshot_ == nullptr && file_ == nullptr) {
      return absl::FailedPreconditionError("a block was asked for before its snapshot or file");
    }
    const uint64_t blocks = file_ != nullptr ? leaves_.size() : snapshot_->map().blocks();
    if (asked_.block() < blocks) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("block ", asked_.block(), " of ", blocks, " was asked for"));
  }

  // A snapshot's leaves follow its description; all else is one frame.
  bool complete() const override {
    return asked_.want_block() || asked_.without_leaves() || snapshot_ == nullptr ||
           next_leaf_ == snapshot_->map().blocks();
  }

  absl::StatusOr<Frame> NextFrame() override {
    v1::SnapshotBlock answer;
    if (asked_.want_block()) {
      answer.set_block(asked_.block());
      std::vector<uint8_t> bytes;
      RETURN_IF_ERROR(from_.Tell(ReadBlock(&bytes), what_));
      return Pack(answer, SharedBytes(std::move(bytes)));
    }
    if (file_ == nullptr) {
      if (!std::exchange(described_, true)) {
        *answer.mutable_info() = WithoutLeaves(snapshot_->info());
      } else {
        *answer.mutable_leaves() = LeavesFrom(snapshot_->info(), next_leaf_, leaves_a_page_);
        next_leaf_ += answer.leaves().leaves().size() / kDigestBytes;
      }
      return Pack(answer);
    }
    for (const Digest& leaf : leaves_) answer.mutable_file_info()->add_leaves(ToBytes(leaf));
    return Pack(answer);
  }

 private:
  absl::Status OpenSnapshot() {
    ASSIGN_OR_RETURN(
        snapshot_,
        asked_.newest()
            ? FindSnapshot(from_.files, from_.dir, std::numeric_limits<uint64_t>::max())
            : SnapshotReader::Open(from_.files, SnapshotPath(from_.dir, asked_.version())));
    return absl::OkStatus();
  }

  // Only what the run lists can be asked for, and only as it lists it.
  absl::Status OpenFile() {
    v1::Genesis genesis;
    RETURN_IF_ERROR(ReadMessageFile(from_.files, GenesisPath(from_.dir), &genesis));
    if (asked_.file() > static_cast<uint32_t>(genesis.spec().files_size())) {
      return absl::NotFoundError(
          absl::StrCat("the run lists ", genesis.spec().files_size(), " files"));
    }
    const v1::RunFile& listed = genesis.spec().files(static_cast<int>(asked_.file() - 1));
    const std::string path = RunFilePath(from_.dir, listed);
    ASSIGN_OR_RETURN(leaves_, CheckCopy(from_.files, path, listed));
    ASSIGN_OR_RETURN(file_, from_.files.OpenToRead(path));
    return absl::OkStatus();
  }

  absl::Status ReadBlock(std::vector<uint8_t>* bytes) {
    const uint64_t block = asked_.block();
    if (file_ == nullptr) {
      bytes->resize(snapshot_->map().Bytes(block));
      return snapshot_->ReadBlock(block, absl::MakeSpan(*bytes));
    }
    const uint64_t offset = block * kBlockBytes;
    bytes->resize(std::min<uint64_t>(kBlockBytes, file_->size() - offset));
    return file_->ReadAt(offset, absl::MakeSpan(*bytes));
  }

  const DonorFiles from_;
  const uint64_t leaves_a_page_;
  v1::SnapshotRequest asked_;
  std::string what_;  // the snapshot or file that was asked for
  std::unique_ptr<SnapshotReader> snapshot_;
  bool described_ = false;              // the snapshot; its leaves follow
  uint64_t next_leaf_ = 0;              // to be told
  std::unique_ptr<ReadableFile> file_;  // of the run's; null: the stream is about a snapshot
  std::vector<Digest> leaves_;          // of file_
};

// For a method that no donor serves.
class NoSource final : public AnswerSource {
 public:
  absl::Status Begin(const Frame&) override {
    return absl::UnimplementedError("a donor serves FetchEntries and FetchSnapshot");
  }
  absl::StatusOr<Frame> NextFrame() override { return Frame(); }
  bool complete() const override { return true; }
};

// Returns the source for a method. For a method that no donor serves, it refuses every request.
std::unique_ptr<AnswerSource> MakeAnswerSource(const std::string& method, DonorFiles from,
                                               const DonorSettings& settings) {
  if (method == kFetchEntriesMethod) return std::make_unique<EntrySource>(std::move(from));
  if (method == kFetchSnapshotMethod) {
    return std::make_unique<BlockSource>(std::move(from), settings.snapshot_leaves_a_page);
  }
  return std::make_unique<NoSource>();
}

// One call: a request, the frames of its answer, the next request. The wire is not read while an
// answer is under way. A block is read from the disk only once it may be sent.
class DonorStream : public std::enable_shared_from_this<DonorStream> {
 public:
  struct Events {
    Task ready;                          // it has a block to send: Proceed() when it may
    std::function<void(uint64_t)> sent;  // what Proceed() has sent, bytes
    Task closed;                         // once: the call is over
  };

  DonorStream(Env env, std::unique_ptr<Call> call, std::unique_ptr<AnswerSource> source,
              Events events, bool dialled_here)
      : env_(env),
        call_(std::move(call)),
        source_(std::move(source)),
        events_(std::move(events)),
        dialled_here_(dialled_here),
        may_wait_(dialled_here) {}

  void Start() {
    last_request_ = env_.executor.Now();
    Call::Events events;
    events.on_frame = [weak = weak_from_this()](Frame frame) {
      if (const auto self = weak.lock()) self->TakeRequest(std::move(frame));
    };
    events.on_writable = [weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->Continue();
    };
    events.on_closed = [weak = weak_from_this()](absl::Status) {
      if (const auto self = weak.lock()) self->events_.closed();
    };
    call_->Start(std::move(events));
    call_->Read();
  }

  // Makes one frame and sends it.
  void Proceed() {
    auto made = std::make_shared<Made>();
    env_.executor.Offload(
        [source = source_, request = std::exchange(request_, std::nullopt), made] {
          const absl::Status status = request ? source->Begin(*request) : absl::OkStatus();
          made->frame = status.ok() ? source->NextFrame() : status;
          made->last = source->complete();
        },
        [weak = weak_from_this(), made] {
          if (const auto self = weak.lock()) self->Send(std::move(*made));
        });
  }

  // True while nothing was asked in a call that was dialled here.
  bool only_offered() const { return may_wait_; }

  // Ends a call whose joiner has asked for nothing since `instant`.
  void EndIfIdleSince(absl::Time instant) {
    if (answering_ || may_wait_ || last_request_ > instant) return;
    End(absl::DeadlineExceededError("nothing was asked for"));
  }

 private:
  struct Made {
    absl::StatusOr<Frame> frame = absl::UnknownError("");
    bool last = false;
  };

  // The end of a call that was dialled here would be a half-close, which the other side need not
  // notice: it is dropped.
  void End(const absl::Status& status) {
    if (std::exchange(ended_, true)) return;
    dialled_here_ ? events_.closed() : call_->Finish(status);
  }

  void TakeRequest(Frame request) {
    if (ended_) return;
    may_wait_ = false;
    answering_ = true;
    request_ = std::move(request);
    Continue();
  }

  void Send(Made made) {
    producing_ = false;
    last_request_ = env_.executor.Now();
    if (!made.frame.ok()) {
      events_.sent(0);
      answering_ = false;
      env_.log.Debug(absl::StrCat("donor: ", call_->remote(), ": ", made.frame.status().message()));
      return End(made.frame.status());
    }
    events_.sent(made.frame->message.size() + made.frame->payload.size());
    call_->Write(*std::move(made.frame));
    if (!made.last) return Continue();
    answering_ = false;
    call_->Read();
  }

  void Continue() {
    if (!answering_ || producing_ || call_->unsent_bytes() > kMaxUnsentBytes) return;
    producing_ = true;
    events_.ready();
  }

  Env env_;
  const std::unique_ptr<Call> call_;
  const std::shared_ptr<AnswerSource> source_;  // on the pool while producing_
  const Events events_;
  std::optional<Frame> request_;  // not yet begun
  const bool dialled_here_;
  bool may_wait_;  // for its first request, as long as it likes
  bool ended_ = false;
  bool answering_ = false;
  bool producing_ = false;  // waits for its turn, or a frame is being made
  absl::Time last_request_;
};

}  // namespace

struct Donor::State : std::enable_shared_from_this<Donor::State> {
  State(Env env_in, std::string dir_in, std::string run_id_in, DonorSettings settings_in)
      : env(env_in),
        dir(std::move(dir_in)),
        run_id(std::move(run_id_in)),
        settings(settings_in),
        lines(std::make_shared<RepeatedLines>(env.executor, env.log)),
        rate(settings.bytes_per_second),
        pace(rate) {}

  void TakeRate();
  void GrantAll();
  void WaitForRate();
  void Refuse(std::unique_ptr<Call> call);
  void Close(uint64_t id);
  void Sweep();

  const Env env;
  const std::string dir;
  const std::string run_id;
  const DonorSettings settings;
  const std::shared_ptr<RepeatedLines> lines;
  uint64_t rate;  // 0: no limit
  bool busy = false;
  DonorPace pace;
  uint64_t next_stream = 0;
  std::map<uint64_t, std::shared_ptr<DonorStream>> streams;
  std::map<uint64_t, std::unique_ptr<Call>> refused;  // until the reason has gone out
  absl::Time wait_ends = absl::InfiniteFuture();      // for the rate; infinite: nobody waits
  bool sweeping = false;
};

void Donor::State::TakeRate() {
  const bool slower = busy && rate > 0;
  // A block overdrawn in an exchange would take a slow line for most of a second.
  pace.SetRate(env.executor.Now(), slower ? std::max<uint64_t>(1, rate / kBusyShare) : rate,
               /*beforehand=*/slower);
  GrantAll();
}

void Donor::State::GrantAll() {
  while (const std::optional<uint64_t> id = pace.Grant(env.executor.Now())) {
    const auto found = streams.find(*id);
    if (found != streams.end()) {
      found->second->Proceed();
    } else {
      pace.Settle(0);
    }
  }
  WaitForRate();
}

// Sets one timer for all calls; it is replaced if a higher rate allows an earlier time.
void Donor::State::WaitForRate() {
  const absl::Duration delay = pace.Delay(env.executor.Now());
  if (delay == absl::InfiniteDuration()) return;
  const absl::Time due = env.executor.Now() + delay;
  if (due >= wait_ends) return;
  wait_ends = due;
  env.executor.RunAfter(delay, [weak = weak_from_this(), due] {
    const auto state = weak.lock();
    if (state == nullptr || state->wait_ends != due) return;
    state->wait_ends = absl::InfiniteFuture();
    state->GrantAll();
  });
}

void Donor::State::Refuse(std::unique_ptr<Call> call) {
  if (refused.size() >= kMaxStreams) return;  // whoever storms on does not even get a reason
  const uint64_t id = next_stream++;
  Call::Events events;
  events.on_closed = [weak = weak_from_this(), id](absl::Status) {
    if (const auto state = weak.lock()) state->Close(id);
  };
  call->Start(std::move(events));
  call->Finish(absl::ResourceExhaustedError(
      absl::StrCat("busy: ", kMaxStreams, " calls of joiners are served already")));
  refused[id] = std::move(call);
}

void Donor::State::Close(uint64_t id) {
  // Not from inside the call's own callback.
  env.executor.Post([weak = weak_from_this(), id] {
    const auto state = weak.lock();
    if (state == nullptr) return;
    state->pace.Forget(id);
    state->streams.erase(id);
    state->refused.erase(id);
  });
}

// Ends the calls of silent joiners, so that they do not take the place of others.
void Donor::State::Sweep() {
  if (sweeping || streams.empty()) return;
  sweeping = true;
  env.executor.RunAfter(settings.idle_timeout, [weak = weak_from_this()] {
    const auto state = weak.lock();
    if (state == nullptr) return;
    state->sweeping = false;
    const absl::Time since = state->env.executor.Now() - state->settings.idle_timeout;
    for (const auto& [id, stream] : state->streams) stream->EndIfIdleSince(since);
    state->Sweep();
  });
}

Donor::Donor(Env env, std::string dir, std::string run_id, DonorSettings settings)
    : state_(std::make_shared<State>(env, std::move(dir), std::move(run_id), settings)) {}

Donor::~Donor() = default;

void Donor::SetBusy(bool busy) {
  state_->busy = busy;
  state_->TakeRate();
}

void Donor::SetRate(uint64_t bytes_per_second) {
  state_->rate = bytes_per_second;
  state_->TakeRate();
}

void Donor::Accept(const std::string& method, std::unique_ptr<Call> call, bool dialled_here) {
  const auto alike = std::count_if(
      state_->streams.begin(), state_->streams.end(),
      [&](const auto& stream) { return stream.second->only_offered() == dialled_here; });
  if (static_cast<size_t>(alike) >= kMaxStreams) return state_->Refuse(std::move(call));
  std::unique_ptr<AnswerSource> source = MakeAnswerSource(
      method, {state_->env.files, state_->dir, state_->run_id, state_->lines}, state_->settings);
  const uint64_t id = state_->next_stream++;
  const std::weak_ptr<State> weak = state_;
  DonorStream::Events events;
  // Calls of one process share its connection, and with it the remote address.
  const std::string joiner = call->remote();
  events.ready = [weak, id, joiner] {
    const auto state = weak.lock();
    if (state == nullptr) return;
    state->pace.Wait(joiner, id);
    state->GrantAll();
  };
  events.sent = [weak](uint64_t bytes) {
    if (const auto state = weak.lock()) state->pace.Settle(bytes);
  };
  events.closed = [weak, id] {
    if (const auto state = weak.lock()) state->Close(id);
  };
  const auto stream = std::make_shared<DonorStream>(state_->env, std::move(call), std::move(source),
                                                    std::move(events), dialled_here);
  state_->streams[id] = stream;
  stream->Start();
  state_->Sweep();
}

}  // namespace atolld
