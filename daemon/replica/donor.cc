// Donor: the giving end of a transfer. One stream object a call; files are read on the pool, one
// read a stream at a time.
#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "atoll/v1/replica.pb.h"
#include "daemon/replica/layout.h"
#include "daemon/replica/snapshot_build.h"
#include "daemon/replica/transfer.h"
#include "daemon/replica/update_log.h"
#include "daemon/status_macros.h"

namespace atolld {
namespace {

// What may wait in a call for the wire: enough to keep a fast link busy while the next block is
// read.
constexpr size_t kMaxUnsentBytes = 2 * kBlockBytes;

// What an answer to one request is made of, one frame after another. Runs on the pool, one call at
// a time.
class AnswerSource {
 public:
  virtual ~AnswerSource() = default;
  // Takes the next request. An error ends the stream.
  virtual absl::Status Begin(const Frame& request) = 0;
  // The next frame of the answer; nothing: it is complete.
  virtual absl::StatusOr<std::optional<Frame>> NextFrame() = 0;
};

absl::Status CheckRun(const std::string& asked, const std::string& run_id) {
  if (asked == run_id) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("asked for run ", asked, ", this is a replica of ", run_id));
}

class EntrySource final : public AnswerSource {
 public:
  EntrySource(Files& files, std::string dir, std::string run_id)
      : files_(files), dir_(std::move(dir)), run_id_(std::move(run_id)) {}

  absl::Status Begin(const Frame& request) override {
    v1::EntriesRequest asked;
    RETURN_IF_ERROR(Unpack(request, &asked));
    RETURN_IF_ERROR(CheckRun(asked.run_id(), run_id_));
    ASSIGN_OR_RETURN(header_, FindHeader(asked.version()));
    ASSIGN_OR_RETURN(file_, files_.OpenToRead(PayloadPath(dir_, asked.version())));
    offset_ = 0;
    return absl::OkStatus();
  }

  absl::StatusOr<std::optional<Frame>> NextFrame() override {
    if (file_ == nullptr) return std::nullopt;
    v1::EntryBlock block;
    if (offset_ == 0) *block.mutable_header() = header_;
    block.set_offset(offset_);
    block.set_total(file_->size());
    std::vector<uint8_t> bytes(std::min<uint64_t>(kBlockBytes, file_->size() - offset_));
    RETURN_IF_ERROR(file_->ReadAt(offset_, absl::MakeSpan(bytes)));
    offset_ += bytes.size();
    if (offset_ == file_->size()) file_ = nullptr;
    return Pack(block, SharedBytes(std::move(bytes)));
  }

 private:
  absl::StatusOr<v1::EntryHeader> FindHeader(uint64_t version) {
    if (log_.has_value() && log_->Refresh().ok()) {
      absl::StatusOr<v1::EntryHeader> header = log_->ReadHeader(version);
      if (header.ok()) return header;
    }
    // The first request, or a log that was begun anew since: read it from its start.
    ASSIGN_OR_RETURN(log_, LogReader::Open(files_, dir_, 1));
    return log_->ReadHeader(version);
  }

  Files& files_;
  const std::string dir_;
  const std::string run_id_;
  std::optional<LogReader> log_;
  v1::EntryHeader header_;
  std::unique_ptr<ReadableFile> file_;  // of the entry being sent; null: none
  uint64_t offset_ = 0;
};

class SnapshotSource final : public AnswerSource {
 public:
  SnapshotSource(Files& files, std::string dir, std::string run_id)
      : files_(files), dir_(std::move(dir)), run_id_(std::move(run_id)) {}

  absl::Status Begin(const Frame& request) override {
    RETURN_IF_ERROR(Unpack(request, &asked_));
    RETURN_IF_ERROR(CheckRun(asked_.run_id(), run_id_));
    pending_ = true;
    if (asked_.want_block()) {
      if (snapshot_ == nullptr) {
        return absl::FailedPreconditionError("a block was asked for before its snapshot");
      }
      if (asked_.block() < snapshot_->map().blocks()) return absl::OkStatus();
      return absl::InvalidArgumentError(absl::StrCat("block ", asked_.block(), " of ",
                                                     snapshot_->map().blocks(), " was asked for"));
    }
    if (asked_.newest()) {
      ASSIGN_OR_RETURN(snapshot_, FindSnapshot(files_, dir_, std::numeric_limits<uint64_t>::max()));
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(snapshot_, SnapshotReader::Open(files_, SnapshotPath(dir_, asked_.version())));
    return absl::OkStatus();
  }

  absl::StatusOr<std::optional<Frame>> NextFrame() override {
    if (!pending_) return std::nullopt;
    pending_ = false;
    v1::SnapshotBlock answer;
    if (!asked_.want_block()) {
      *answer.mutable_info() = snapshot_->info();
      return Pack(answer);
    }
    answer.set_block(asked_.block());
    std::vector<uint8_t> bytes(snapshot_->map().Bytes(asked_.block()));
    RETURN_IF_ERROR(snapshot_->ReadBlock(asked_.block(), absl::MakeSpan(bytes)));
    return Pack(answer, SharedBytes(std::move(bytes)));
  }

 private:
  Files& files_;
  const std::string dir_;
  const std::string run_id_;
  v1::SnapshotRequest asked_;
  bool pending_ = false;
  std::unique_ptr<SnapshotReader> snapshot_;
};

// For a method that no donor serves.
class NoSource final : public AnswerSource {
 public:
  absl::Status Begin(const Frame&) override {
    return absl::UnimplementedError("a donor serves FetchEntries and FetchSnapshot");
  }
  absl::StatusOr<std::optional<Frame>> NextFrame() override { return std::nullopt; }
};

// One call: request, its frames, next request. Nothing is read from the wire while an answer is
// under way.
class DonorStream : public std::enable_shared_from_this<DonorStream> {
 public:
  DonorStream(Env env, std::unique_ptr<Call> call, std::unique_ptr<AnswerSource> source)
      : env_(env), call_(std::move(call)), source_(std::move(source)) {}

  // `closed` runs once, when the call is over.
  void Start(Task closed) {
    Call::Events events;
    events.on_frame = [weak = weak_from_this()](Frame frame) {
      if (const auto self = weak.lock()) self->TakeRequest(std::move(frame));
    };
    events.on_writable = [weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->Continue();
    };
    events.on_closed = [weak = weak_from_this(), closed = std::move(closed)](absl::Status) {
      if (weak.lock() != nullptr) closed();
    };
    call_->Start(std::move(events));
    call_->Read();
  }

 private:
  void TakeRequest(Frame request) {
    answering_ = true;
    Produce([request = std::move(request)](AnswerSource& source) { return source.Begin(request); });
  }

  // Runs `before`, then makes one frame.
  void Produce(std::function<absl::Status(AnswerSource&)> before) {
    producing_ = true;
    auto made = std::make_shared<absl::StatusOr<std::optional<Frame>>>(std::nullopt);
    env_.executor.Offload(
        [source = source_, before = std::move(before), made] {
          const absl::Status status = before(*source);
          *made = status.ok() ? source->NextFrame() : status;
        },
        [weak = weak_from_this(), made] {
          if (const auto self = weak.lock()) self->Send(std::move(*made));
        });
  }

  void Send(absl::StatusOr<std::optional<Frame>> frame) {
    producing_ = false;
    if (!frame.ok()) {
      answering_ = false;
      env_.log.Debug(absl::StrCat("donor: ", call_->remote(), ": ", frame.status().message()));
      call_->Finish(frame.status());
      return;
    }
    if (!frame->has_value()) {
      answering_ = false;
      call_->Read();
      return;
    }
    call_->Write(**std::move(frame));
    Continue();
  }

  void Continue() {
    if (!answering_ || producing_ || call_->unsent_bytes() > kMaxUnsentBytes) return;
    Produce([](AnswerSource&) { return absl::OkStatus(); });
  }

  Env env_;
  const std::unique_ptr<Call> call_;
  const std::shared_ptr<AnswerSource> source_;  // on the pool while producing_
  bool answering_ = false;
  bool producing_ = false;
};

}  // namespace

struct Donor::State {
  Env env;
  const std::string dir;
  const std::string run_id;
  uint64_t next_stream = 0;
  std::map<uint64_t, std::shared_ptr<DonorStream>> streams;
};

Donor::Donor(Env env, std::string dir, std::string run_id)
    : state_(new State{env, std::move(dir), std::move(run_id), 0, {}}) {}

Donor::~Donor() = default;

void Donor::Accept(const std::string& method, std::unique_ptr<Call> call) {
  std::unique_ptr<AnswerSource> source;
  if (method == kFetchEntriesMethod) {
    source = std::make_unique<EntrySource>(state_->env.files, state_->dir, state_->run_id);
  } else if (method == kFetchSnapshotMethod) {
    source = std::make_unique<SnapshotSource>(state_->env.files, state_->dir, state_->run_id);
  } else {
    source = std::make_unique<NoSource>();
  }
  const uint64_t id = state_->next_stream++;
  const auto stream =
      std::make_shared<DonorStream>(state_->env, std::move(call), std::move(source));
  state_->streams[id] = stream;
  stream->Start([weak = std::weak_ptr<State>(state_), id] {
    const auto state = weak.lock();
    if (state == nullptr) return;
    // Not from inside the call's own callback.
    state->env.executor.Post([weak, id] {
      if (const auto still = weak.lock()) still->streams.erase(id);
    });
  });
}

}  // namespace atolld
