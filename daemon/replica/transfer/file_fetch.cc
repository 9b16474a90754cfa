// FileFetch: the receiving end for one of the run's small files.
//
// The first donor's answer gives the leaves, which the listed digest vouches for. With them each
// block is checked by itself, whichever donor sends it. The whole file is held in memory until it
// is written.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "atoll/v1/replica.pb.h"
#include "compression/base/check.h"
#include "compression/base/status_macros.h"
#include "daemon/replica/state/layout.h"
#include "daemon/replica/transfer/fetch_schedule.h"
#include "daemon/replica/transfer/fetch_streams.h"
#include "daemon/replica/transfer/transfer.h"
#include "membership/history/digest.h"
#include "membership/history/run_files.h"

namespace atolld {
namespace {

constexpr size_t kFileRequestsAhead = 4;

uint64_t BlocksOf(const v1::RunFile& file) {
  return (file.bytes() + kBlockBytes - 1) / kBlockBytes;
}

// Fails with INVALID_ARGUMENT if the leaves are not those of the listed file.
absl::StatusOr<std::vector<Digest>> CheckLeaves(const v1::RunFile& listed,
                                                const v1::FileInfo& info) {
  std::vector<Digest> leaves;
  for (const std::string& leaf : info.leaves()) {
    ASSIGN_OR_RETURN(const Digest digest, DigestFromBytes(leaf));
    leaves.push_back(digest);
  }
  if (leaves.size() != BlocksOf(listed) ||
      ToBytes(TreeRoot(listed.bytes(), leaves)) != listed.digest()) {
    return absl::InvalidArgumentError(
        absl::StrCat("its leaves are not those of the run's ", listed.name()));
  }
  return leaves;
}

}  // namespace

struct FileFetch::State : std::enable_shared_from_this<FileFetch::State> {
  using Judge = FetchStreams::Judge;

  State(Env env_in, const FetchSource& source, std::string dir_in, int file_in, Done done_in)
      : env(env_in),
        run_id(source.run_id),
        listed(source.spec.files(file_in)),
        number(static_cast<uint32_t>(file_in) + 1),
        dir(std::move(dir_in)),
        done(std::move(done_in)) {}

  void TakeInfo(const Frame& frame, const Judge& judge);
  void TakeBlock(uint64_t block, const Frame& frame, const Judge& judge);
  void Write();
  void Finish(const absl::Status& status);

  const Env env;
  const std::string run_id;
  const v1::RunFile listed;
  const uint32_t number;  // as SnapshotRequest.file
  const std::string dir;
  Done done;
  bool over = false;
  std::vector<Digest> leaves;  // once a donor has told them
  std::vector<uint8_t> bytes;
  std::unique_ptr<FetchSchedule> schedule;
  std::unique_ptr<FetchStreams> streams;
};

void FileFetch::State::TakeInfo(const Frame& frame, const Judge& judge) {
  v1::SnapshotBlock answer;
  const absl::Status parsed = Unpack(frame, &answer);
  if (!parsed.ok()) return judge(parsed);
  absl::StatusOr<std::vector<Digest>> told = CheckLeaves(listed, answer.file_info());
  if (!told.ok()) return judge(told.status());
  if (schedule == nullptr) {
    leaves = *std::move(told);
    bytes.resize(listed.bytes());
    schedule = std::make_unique<FetchSchedule>(0, leaves.size(), leaves.size(), kFileRequestsAhead);
    streams->SetSchedule(schedule.get());
    streams->SetStreams(kDonorsAtOnce);
  }
  judge(FetchStreams::Judgement::kWhole);
}

void FileFetch::State::TakeBlock(uint64_t block, const Frame& frame, const Judge& judge) {
  v1::SnapshotBlock answer;
  const absl::Status parsed = Unpack(frame, &answer);
  if (!parsed.ok()) return judge(parsed);
  const uint64_t offset = block * kBlockBytes;
  const SharedBytes taken = frame.payload.Joined();
  if (answer.block() != block ||
      taken.span().size() != std::min<uint64_t>(kBlockBytes, listed.bytes() - offset)) {
    return judge(absl::InvalidArgumentError(
        absl::StrCat("block ", block, " of ", listed.name(), " is not what was asked for")));
  }
  auto digest = std::make_shared<Digest>();
  env.executor.Offload(
      [taken, digest] { *digest = Sha256(taken.span()); },
      [weak = weak_from_this(), block, offset, taken, digest, judge] {
        const auto self = weak.lock();
        if (self == nullptr || self->over) return;
        if (*digest != self->leaves[block]) {
          return judge(absl::InvalidArgumentError(
              absl::StrCat("block ", block, " of ", self->listed.name(), " has another digest")));
        }
        std::copy(taken.span().begin(), taken.span().end(),
                  self->bytes.begin() + static_cast<ptrdiff_t>(offset));
        judge(FetchStreams::Judgement::kWhole);
        uint64_t next = self->schedule->next();
        while (next < self->schedule->end() && self->schedule->IsHere(next)) ++next;
        self->schedule->Consumed(next);
        if (self->schedule->missing() == 0) self->Write();
      });
}

void FileFetch::State::Write() {
  streams = nullptr;
  auto status = std::make_shared<absl::Status>();
  auto whole = std::make_shared<std::vector<uint8_t>>(std::move(bytes));
  env.executor.Offload(
      [files = &env.files, path = RunFilePath(dir, listed), whole, status] {
        *status = files->MakeDirectories(DirectoryOf(path));
        if (status->ok()) *status = WriteFileDurably(*files, path, *whole);
      },
      [weak = weak_from_this(), status] {
        const auto self = weak.lock();
        if (self != nullptr && !self->over) self->Finish(*status);
      });
}

void FileFetch::State::Finish(const absl::Status& status) {
  over = true;
  streams = nullptr;
  const Done callback = std::move(done);  // the owner may destroy the fetch from inside
  callback(Annotate(status, listed.name()));
}

FileFetch::FileFetch(Env env, FetchSource source, std::string dir, int file, Done done)
    : state_(std::make_shared<State>(env, source, std::move(dir), file, std::move(done))) {
  CHECK(Travels(state_->listed));
  FetchStreams::Hooks hooks;
  const std::weak_ptr<State> weak = state_;
  hooks.greeting = [run_id = state_->run_id, number = state_->number] {
    v1::SnapshotRequest request;
    request.set_run_id(run_id);
    request.set_file(number);
    return Pack(request);
  };
  hooks.request = [run_id = state_->run_id, number = state_->number](uint64_t block) {
    v1::SnapshotRequest request;
    request.set_run_id(run_id);
    request.set_file(number);
    request.set_want_block(true);
    request.set_block(block);
    return Pack(request);
  };
  hooks.on_frame = [weak](int, std::optional<uint64_t> block, const Frame& frame,
                          const FetchStreams::Judge& judge) {
    const auto self = weak.lock();
    if (self == nullptr || self->over) return;
    if (!block) return self->TakeInfo(frame, judge);
    self->TakeBlock(*block, frame, judge);
  };
  hooks.on_exhausted = [weak](const absl::Status& status) {
    const auto self = weak.lock();
    if (self != nullptr && !self->over) self->Finish(status);
  };
  // One donor until the leaves are known, with which all others are judged.
  state_->streams = std::make_unique<FetchStreams>(
      env,
      FetchStreams::Settings{"files", kFetchSnapshotMethod, source.donors, source.failure_timeout,
                             1, source.lines, source.on_failed},
      std::move(hooks));
}

FileFetch::~FileFetch() {
  state_->over = true;
  state_->streams = nullptr;
}

void FileFetch::SetDonors(const std::vector<std::string>& donors) {
  if (state_->streams != nullptr) state_->streams->SetDonors(donors);
}

}  // namespace atolld
