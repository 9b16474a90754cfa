#include "daemon/env/env.h"

#include <climits>
#include <deque>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compression/base/check.h"
#include "compression/base/status_macros.h"
#include "google/protobuf/message.h"
#include "google/protobuf/message_lite.h"

namespace atolld {
namespace {

// A message that sets its own field 15 would put the payload on the wire twice, and the receiver
// would keep only one of the two.
[[maybe_unused]] bool HasPayloadField(const google::protobuf::MessageLite& lite) {
  const auto* message = dynamic_cast<const google::protobuf::Message*>(&lite);
  if (message == nullptr) return false;
  const auto* field = message->GetDescriptor()->FindFieldByNumber(kPayloadField);
  return field != nullptr && !field->is_repeated() &&
         message->GetReflection()->HasField(*message, field);
}

using Create = absl::StatusOr<std::unique_ptr<WritableFile>> (Files::*)(const std::string& path);

absl::Status WriteAndSync(Files& files, Create create, const std::string& path,
                          absl::Span<const uint8_t> bytes) {
  ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> file, (files.*create)(path));
  RETURN_IF_ERROR(file->Append(bytes));
  return file->Sync();
}

absl::Status WriteWhole(Files& files, Create create, const std::string& path,
                        absl::Span<const uint8_t> bytes) {
  const std::string temporary = absl::StrCat(path, ".tmp");
  absl::Status status = WriteAndSync(files, create, temporary, bytes);
  if (status.ok()) status = files.Rename(temporary, path);
  if (!status.ok()) {
    // The first error is the one to tell; the file may not even exist.
    files.Remove(temporary).IgnoreError();
    return status;
  }
  return files.SyncDirectory(DirectoryOf(path));
}

}  // namespace

std::string RandomBytes(Executor& executor) {
  std::string bytes;
  while (bytes.size() < 32) {
    const uint64_t random = executor.Random();
    for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<char>(random >> (8 * i)));
  }
  return bytes;
}

Frame Pack(const google::protobuf::MessageLite& message, ByteParts payload) {
#ifndef NDEBUG
  CHECK(!HasPayloadField(message));
#endif
  Frame frame;
  CHECK(message.SerializeToString(&frame.message));
  frame.payload = std::move(payload);
  return frame;
}

Frame PackShared(const google::protobuf::MessageLite& message) {
  Frame frame = Pack(message);
  frame.shared = SharedBytes(std::exchange(frame.message, std::string()));
  return frame;
}

absl::Status Unpack(const Frame& frame, google::protobuf::MessageLite* message) {
  const absl::string_view bytes = frame.bytes();
  if (bytes.size() <= INT_MAX &&
      message->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("a frame of ", bytes.size(), " bytes is not a ", message->GetTypeName()));
}

std::string DirectoryOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

absl::StatusOr<std::string> ReadFile(Files& files, const std::string& path, uint64_t limit) {
  ASSIGN_OR_RETURN(const std::unique_ptr<ReadableFile> file, files.OpenToRead(path));
  const uint64_t size = file->size();
  if (size > limit) {
    return absl::ResourceExhaustedError(
        absl::StrCat(path, ": ", size, " bytes, more than the limit of ", limit));
  }
  std::string text(size, '\0');
  RETURN_IF_ERROR(file->ReadAt(0, absl::MakeSpan(reinterpret_cast<uint8_t*>(text.data()), size)));
  return text;
}

absl::Status WriteFileDurably(Files& files, const std::string& path,
                              absl::Span<const uint8_t> bytes) {
  return WriteWhole(files, &Files::Create, path, bytes);
}

absl::Status WriteSecretDurably(Files& files, const std::string& path,
                                absl::Span<const uint8_t> bytes) {
  return WriteWhole(files, &Files::CreatePrivate, path, bytes);
}

// Loop thread only.
struct SerialQueue::State : std::enable_shared_from_this<SerialQueue::State> {
  struct Job {
    Task work;
    Task done;
  };

  explicit State(Executor& loop) : executor(loop) {}

  void StartNext() {
    if (running || finishing || jobs.empty()) return;
    Job job = std::move(jobs.front());
    jobs.pop_front();
    running = true;
    current_done = std::move(job.done);
    executor.Offload(
        [self = shared_from_this(), work = std::move(job.work)] {
          const std::lock_guard<std::mutex> lock(self->working);
          if (!self->abandoned) work();
        },
        [self = shared_from_this()] { self->Finish(); });
  }

  // `done` runs before the next job begins, so that it may look at what its own job made.
  void Finish() {
    running = false;
    const Task done = std::exchange(current_done, nullptr);
    if (gone) return;
    finishing = true;
    done();
    finishing = false;
    if (!gone) StartNext();
  }

  Executor& executor;
  std::deque<Job> jobs;
  Task current_done;
  bool running = false;
  bool finishing = false;
  bool gone = false;

  // Held while a job works, so that the queue's destructor can wait for the data that the job uses.
  std::mutex working;
  bool abandoned = false;  // guarded by working
};

SerialQueue::SerialQueue(Executor& executor) : state_(std::make_shared<State>(executor)) {}

SerialQueue::~SerialQueue() {
  {
    const std::lock_guard<std::mutex> lock(state_->working);
    state_->abandoned = true;
  }
  state_->gone = true;
  const Task dropped = std::exchange(state_->current_done, nullptr);
  std::deque<State::Job>().swap(state_->jobs);
}

void SerialQueue::Run(Task work, Task done) {
  state_->jobs.push_back({std::move(work), std::move(done)});
  state_->StartNext();
}

bool SerialQueue::idle() const { return !state_->running && state_->jobs.empty(); }

}  // namespace atolld
