// SnapshotFetch: the receiving end for a snapshot, block by block into a file that may be gone on
// with after a restart.
//
// Blocks are asked for by number and checked against the leaves, so it does not matter who sends
// which: a donor that is left is followed by the next one at the block where the file stands.
#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "atoll/v1/replica.pb.h"
#include "daemon/replica/donor_list.h"
#include "daemon/replica/header.h"
#include "daemon/replica/layout.h"
#include "daemon/replica/record.h"
#include "daemon/replica/snapshot.h"
#include "daemon/replica/state_digest.h"
#include "daemon/replica/transfer.h"
#include "daemon/status_macros.h"

namespace atolld {
namespace {

// Requests on their way: hides the round trip on long links (4 MiB in flight), bounds what a donor
// reads in vain.
constexpr uint64_t kRequestsAhead = 4;

// The file that is being filled. On the pool while a job runs, one job at a time.
struct Download {
  Download(Files& files_in, std::string dir_in, v1::Genesis genesis_in)
      : files(files_in), dir(std::move(dir_in)), genesis(std::move(genesis_in)) {}

  std::string PartialPath() const { return absl::StrCat(FetchDirectory(dir), "/snapshot"); }

  // Takes up what an earlier fetch left, if it is of this run and sound.
  absl::Status Begin() {
    RETURN_IF_ERROR(CheckGenesis(genesis));
    v1::Genesis known;
    const absl::Status status = ReadMessageFile(files, GenesisPath(dir), &known);
    if (!status.ok() && !absl::IsNotFound(status)) return status;
    if (status.ok() && GenesisDigest(known) != GenesisDigest(genesis)) {
      return absl::FailedPreconditionError(absl::StrCat(
          dir, ": it holds a replica of run ", known.spec().run_id(), " with another genesis"));
    }
    RETURN_IF_ERROR(files.MakeDirectories(FetchDirectory(dir)));
    RETURN_IF_ERROR(files.MakeDirectories(SnapshotsDirectory(dir)));
    absl::StatusOr<std::unique_ptr<SnapshotWriter>> resumed =
        SnapshotWriter::Resume(files, PartialPath());
    if (resumed.ok() && GenesisDigest((*resumed)->info().genesis()) == GenesisDigest(genesis)) {
      writer = *std::move(resumed);
    } else if (!resumed.ok() && !absl::IsNotFound(resumed.status()) &&
               !absl::IsDataLoss(resumed.status())) {
      return resumed.status();
    }
    return absl::OkStatus();
  }

  // INVALID_ARGUMENT: the donor's snapshot is none of this run, or not the one that was begun.
  absl::Status TakeInfo(const v1::SnapshotInfo& info) {
    if (GenesisDigest(info.genesis()) != GenesisDigest(genesis)) {
      return absl::InvalidArgumentError("its snapshot has another genesis");
    }
    if (writer != nullptr) {
      const v1::SnapshotInfo& begun = writer->info();
      if (info.version() == begun.version() && info.state_digest() == begun.state_digest() &&
          HeaderDigest(info.header()) == HeaderDigest(begun.header())) {
        return absl::OkStatus();
      }
      return absl::InvalidArgumentError(absl::StrCat("its snapshot of version ", info.version(),
                                                     " is not the one that others gave"));
    }
    RETURN_IF_ERROR(CheckSnapshotInfo(info));
    absl::StatusOr<std::unique_ptr<SnapshotWriter>> made =
        SnapshotWriter::Create(files, PartialPath(), info);
    if (!made.ok()) return own_fault = made.status();
    writer = *std::move(made);
    return absl::OkStatus();
  }

  absl::Status TakeBlock(const SharedBytes& bytes) {
    const absl::Status status = writer->AppendBlock(bytes.span());
    if (!absl::IsDataLoss(status)) own_fault = status;
    return status;
  }

  absl::Status Finish() {
    RETURN_IF_ERROR(writer->Finish(SnapshotPath(dir, writer->info().version())));
    RETURN_IF_ERROR(files.SyncDirectory(dir));
    if (files.Exists(GenesisPath(dir))) return absl::OkStatus();
    return WriteMessageFile(files, GenesisPath(dir), genesis);
  }

  Files& files;
  const std::string dir;
  const v1::Genesis genesis;
  std::unique_ptr<SnapshotWriter> writer;  // null: nothing begun
  absl::Status own_fault;                  // of this machine's disk: no other donor can help
};

}  // namespace

struct SnapshotFetch::State : std::enable_shared_from_this<SnapshotFetch::State> {
  State(Env env_in, FetchSource source_in, const std::string& dir, v1::Genesis genesis,
        std::function<void(absl::Status)> on_done_in,
        std::function<void(uint64_t, uint64_t)> on_progress_in)
      : env(env_in),
        source(std::move(source_in)),
        on_done(std::move(on_done_in)),
        on_progress(std::move(on_progress_in)),
        donors(source.donors),
        download(std::make_shared<Download>(env.files, dir, std::move(genesis))) {}

  void Begin();
  void Ask();
  void OnFrame(const Frame& frame);
  void TookInfo();
  void TookBlock();
  void RequestMore();
  void OnClosed(const absl::Status& status);
  void Leave(DonorList::Why why, const absl::Status& reason);
  void Finish(const absl::Status& status);
  void Stop();
  void WaitForProgress();
  void Report();

  // Runs `work` on the pool, then `then` with its status, unless the fetch is over.
  void OnPool(std::function<absl::Status(Download&)> work,
              std::function<void(State&, const absl::Status&)> then);
  // `then` if the donor's part was sound, else the donor is left, or the fetch ends if the fault is
  // ours.
  void Judge(const absl::Status& status, void (State::*then)());

  Env env;
  const FetchSource source;
  std::function<void(absl::Status)> on_done;
  const std::function<void(uint64_t, uint64_t)> on_progress;
  DonorList donors;
  const std::shared_ptr<Download> download;  // the pool's while `working`

  bool over = false;
  bool working = false;
  bool have_info = false;     // the current donor has told what it holds
  uint64_t next_request = 0;  // block
  std::unique_ptr<Call> call;
  std::optional<absl::Status> closed;  // the call's end, seen while working
  std::optional<Executor::TimerId> stall_timer;
};

void SnapshotFetch::State::OnPool(std::function<absl::Status(Download&)> work,
                                  std::function<void(State&, const absl::Status&)> then) {
  working = true;
  WaitForProgress();
  auto status = std::make_shared<absl::Status>();
  env.executor.Offload([file = download, work = std::move(work), status] { *status = work(*file); },
                       [weak = weak_from_this(), then = std::move(then), status] {
                         const auto self = weak.lock();
                         if (self == nullptr || self->over) return;
                         self->working = false;
                         then(*self, *status);
                       });
}

void SnapshotFetch::State::Begin() {
  OnPool([](Download& file) { return file.Begin(); },
         [](State& self, const absl::Status& status) {
           if (!status.ok()) return self.Finish(status);
           self.Report();
           self.Ask();
         });
}

// Dials the current donor and asks what it holds.
void SnapshotFetch::State::Ask() {
  if (!donors.any() && donors.AllLackIt() && download->writer != nullptr) {
    // Nobody has the version any more of which a part is here: take a newer one.
    download->writer = nullptr;
    donors.AskAgain();
  }
  if (!donors.any()) return Finish(donors.Verdict());
  have_info = false;
  closed.reset();
  call = env.transport.Dial(donors.current(), kFetchSnapshotMethod, absl::InfiniteDuration());
  Call::Events callbacks;
  callbacks.on_frame = [weak = weak_from_this()](Frame frame) {
    if (const auto self = weak.lock()) self->OnFrame(frame);
  };
  callbacks.on_closed = [weak = weak_from_this()](absl::Status status) {
    if (const auto self = weak.lock()) self->OnClosed(status);
  };
  call->Start(std::move(callbacks));
  v1::SnapshotRequest request;
  request.set_run_id(source.run_id);
  request.set_newest(download->writer == nullptr);
  if (download->writer != nullptr) request.set_version(download->writer->info().version());
  call->Write(Pack(request));
  call->Read();
  WaitForProgress();
}

void SnapshotFetch::State::WaitForProgress() {
  if (stall_timer.has_value()) env.executor.Cancel(*stall_timer);
  stall_timer.reset();
  if (over || working) return;
  stall_timer = env.executor.RunAfter(source.failure_timeout, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (self == nullptr || self->over) return;
    self->stall_timer.reset();
    self->Leave(DonorList::Why::kFailed,
                absl::DeadlineExceededError(absl::StrCat(
                    "no progress for ", absl::FormatDuration(self->source.failure_timeout))));
  });
}

void SnapshotFetch::State::OnFrame(const Frame& frame) {
  if (over || working) return;
  auto answer = std::make_shared<v1::SnapshotBlock>();
  const absl::Status status = Unpack(frame, answer.get());
  if (!status.ok()) return Leave(DonorList::Why::kLied, status);
  if (!have_info) {
    OnPool([answer](Download& file) { return file.TakeInfo(answer->info()); },
           [](State& self, const absl::Status& taken) { self.Judge(taken, &State::TookInfo); });
    return;
  }
  if (answer->block() != download->writer->next_block()) {
    return Leave(DonorList::Why::kLied, absl::InvalidArgumentError(absl::StrCat(
                                            "block ", answer->block(), " came instead of block ",
                                            download->writer->next_block())));
  }
  OnPool([bytes = frame.payload](Download& file) { return file.TakeBlock(bytes); },
         [](State& self, const absl::Status& taken) { self.Judge(taken, &State::TookBlock); });
}

void SnapshotFetch::State::Judge(const absl::Status& status, void (State::*then)()) {
  if (!download->own_fault.ok()) return Finish(download->own_fault);
  if (!status.ok()) return Leave(DonorList::Why::kLied, status);
  (this->*then)();
}

void SnapshotFetch::State::TookInfo() {
  have_info = true;
  next_request = download->writer->next_block();
  RequestMore();
}

void SnapshotFetch::State::TookBlock() {
  donors.Progressed();
  Report();
  if (!over) RequestMore();
}

void SnapshotFetch::State::RequestMore() {
  const SnapshotWriter& writer = *download->writer;
  if (writer.next_block() == writer.map().blocks()) {
    call = nullptr;
    return OnPool([](Download& file) { return file.Finish(); },
                  [](State& self, const absl::Status& status) { self.Finish(status); });
  }
  if (closed.has_value()) return OnClosed(*closed);
  const uint64_t end = std::min(writer.map().blocks(), writer.next_block() + kRequestsAhead);
  for (; next_request < end; ++next_request) {
    v1::SnapshotRequest request;
    request.set_run_id(source.run_id);
    request.set_want_block(true);
    request.set_block(next_request);
    call->Write(Pack(request));
  }
  call->Read();
  WaitForProgress();
}

void SnapshotFetch::State::OnClosed(const absl::Status& status) {
  if (over) return;
  if (working) {
    closed = status;
    return;
  }
  const absl::Status reason =
      status.ok() ? absl::UnavailableError("it ended the call before the snapshot was complete")
                  : status;
  Leave(absl::IsNotFound(reason) ? DonorList::Why::kLacksIt : DonorList::Why::kFailed, reason);
}

void SnapshotFetch::State::Leave(DonorList::Why why, const absl::Status& reason) {
  env.log.Write(why == DonorList::Why::kLied ? Log::Level::kWarning : Log::Level::kInfo,
                absl::StrCat("snapshot: leaving donor ", donors.current(), ": ", reason.message()));
  call = nullptr;
  donors.Leave(why, reason);
  Ask();
}

void SnapshotFetch::State::Report() {
  if (on_progress == nullptr || download->writer == nullptr) return;
  const SnapshotWriter& writer = *download->writer;
  uint64_t bytes = 0;
  const uint64_t full = writer.next_block() / writer.map().blocks_a_buffer();
  bytes =
      full * (writer.map().total_bytes() / static_cast<uint64_t>(writer.info().buffers_size())) +
      (writer.next_block() % writer.map().blocks_a_buffer()) * kBlockBytes;
  on_progress(bytes, writer.map().total_bytes());
}

void SnapshotFetch::State::Finish(const absl::Status& status) {
  Stop();
  // The owner may destroy the fetch from inside.
  const auto done = std::move(on_done);
  done(Annotate(status, "snapshot"));
}

void SnapshotFetch::State::Stop() {
  over = true;
  call = nullptr;
  WaitForProgress();
}

SnapshotFetch::SnapshotFetch(Env env, FetchSource source, std::string dir, v1::Genesis genesis,
                             std::function<void(absl::Status)> on_done,
                             std::function<void(uint64_t bytes, uint64_t total)> on_progress)
    : state_(std::make_shared<State>(env, std::move(source), dir, std::move(genesis),
                                     std::move(on_done), std::move(on_progress))) {
  state_->Begin();
}

SnapshotFetch::~SnapshotFetch() { state_->Stop(); }

}  // namespace atolld
