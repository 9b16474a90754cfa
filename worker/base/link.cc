#include "worker/base/link.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "compression/base/status_macros.h"

namespace atolld {
void Inbox::Push(Event event) {
  const absl::MutexLock lock(&mutex_);
  ending_ = ending_ || event.kind != Event::Kind::kMessage || event.message.has_stop();
  events_.push_back(std::move(event));
}

Event Inbox::Take() {
  const absl::MutexLock lock(
      &mutex_, absl::Condition(
                   +[](std::deque<Event>* events) { return !events->empty(); }, &events_));
  Event event = std::move(events_.front());
  events_.pop_front();
  return event;
}

absl::optional<Event> Inbox::TryTake() {
  const absl::MutexLock lock(&mutex_);
  if (events_.empty()) return absl::nullopt;
  Event event = std::move(events_.front());
  events_.pop_front();
  return event;
}

absl::optional<Event> Inbox::TakeFor(absl::Duration limit) {
  if (limit > absl::ZeroDuration()) {
    const absl::MutexLock lock(&mutex_);
    const absl::Condition filled(
        +[](std::deque<Event>* events) { return !events->empty(); }, &events_);
    mutex_.AwaitWithTimeout(filled, limit);
  }
  return TryTake();
}

bool Inbox::Ending() const {
  const absl::MutexLock lock(&mutex_);
  return ending_;
}

namespace {

constexpr uint64_t kPage = 4096;

absl::Status WrongSlots(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("shared memory: ", what));
}

bool Overlap(uint64_t a, uint64_t b, uint64_t size) { return a < b + size && b < a + size; }

absl::Status Check(const v1::MapMemory& request, uint64_t elements, uint64_t file_size) {
  if (request.elements() != elements) {
    return WrongSlots(
        absl::StrCat("slots of ", request.elements(), " values; the model has ", elements));
  }
  const uint64_t size = elements * sizeof(float);
  std::vector<uint64_t> offsets = {request.theta_offset(), request.update_offset()};
  if (request.control_offset() != 0) offsets.push_back(request.control_offset());
  if (request.guess_offset() != 0) offsets.push_back(request.guess_offset());
  for (const uint64_t offset : offsets) {
    if (offset % kPage != 0)
      return WrongSlots(absl::StrCat("offset ", offset, " is inside a page"));
    if (offset > file_size || size > file_size - offset) {
      return WrongSlots(absl::StrCat("a slot of ", size, " bytes at ", offset,
                                     " ends after the file's ", file_size));
    }
  }
  for (size_t i = 0; i < offsets.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (Overlap(offsets[i], offsets[j], size)) return WrongSlots("slots overlap");
    }
  }
  return absl::OkStatus();
}

// Returns the descriptor of the memory with which the daemon started this process, from
// "NUMBER:DEVICE:INODE"; -1 if there is none, or if a process in between has kept it. Children of
// this process must not inherit it.
int InheritedMemory() {
  const char* const told = std::getenv("ATOLL_MEMORY");
  const std::vector<std::string> parts = absl::StrSplit(told == nullptr ? "" : told, ':');
  int file = -1;
  uint64_t device = 0, inode = 0;
  struct stat info = {};
  if (parts.size() != 3 || !absl::SimpleAtoi(parts[0], &file) ||
      !absl::SimpleAtoi(parts[1], &device) || !absl::SimpleAtoi(parts[2], &inode) ||
      ::fstat(file, &info) != 0 || info.st_dev != device || info.st_ino != inode) {
    return -1;
  }
  return ::fcntl(file, F_DUPFD_CLOEXEC, 0);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Slots>> Slots::Map(const v1::MapMemory& request, uint64_t elements) {
  const auto failed = [&](absl::string_view call) {
    return absl::UnavailableError(
        absl::StrCat("shared memory: ", call, " ", request.path(), ": ", std::strerror(errno)));
  };
  int file = InheritedMemory();
  if (file < 0) file = ::open(request.path().c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return failed("open");
  struct stat info;
  if (::fstat(file, &info) != 0) {
    ::close(file);
    return failed("fstat");
  }
  const absl::Status status = Check(request, elements, static_cast<uint64_t>(info.st_size));
  if (!status.ok()) {
    ::close(file);
    return status;
  }
  std::unique_ptr<Slots> slots(new Slots);
  slots->size_ = static_cast<size_t>(info.st_size);
  void* mapping = ::mmap(nullptr, slots->size_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ::close(file);
  if (mapping == MAP_FAILED) return failed("mmap");
  slots->mapping_ = mapping;
  const auto at = [&](uint64_t offset) {
    return reinterpret_cast<float*>(static_cast<char*>(mapping) + offset);
  };
  slots->theta_ = absl::MakeConstSpan(at(request.theta_offset()), elements);
  slots->update_ = absl::MakeSpan(at(request.update_offset()), elements);
  if (request.control_offset() != 0) {
    slots->control_ = absl::MakeConstSpan(at(request.control_offset()), elements);
  }
  if (request.guess_offset() != 0) {
    slots->guess_ = absl::MakeConstSpan(at(request.guess_offset()), elements);
  }
  return slots;
}

Slots::~Slots() {
  if (mapping_ != nullptr) ::munmap(mapping_, size_);
}

int& Termination::WriteEnd() {
  static int descriptor = -1;
  return descriptor;
}

// Uses a handler and a pipe: threads that libraries made before main() do not block signals, and
// would take the default action of a blocked one, which is death.
Termination::Termination(Inbox& inbox) {
  if (::pipe(pipe_) != 0) return;
  WriteEnd() = pipe_[1];
  struct sigaction action = {};
  action.sa_handler = +[](int) {
    const char byte = 'T';
    if (::write(WriteEnd(), &byte, 1) < 0) ::_exit(1);
  };
  action.sa_flags = static_cast<int>(SA_RESETHAND);  // a second one ends us at once
  ::sigaction(SIGTERM, &action, nullptr);
  // Ctrl-C reaches the whole foreground group.
  ::signal(SIGINT, SIG_IGN);
  ::signal(SIGPIPE, SIG_IGN);
  thread_ = std::thread([this, &inbox] {
    char byte = 0;
    while (::read(pipe_[0], &byte, 1) < 0) {
    }
    if (byte != 'T') return;
    Event event;
    event.kind = Event::Kind::kTerminated;
    inbox.Push(event);
  });
}

Termination::~Termination() {
  ::signal(SIGTERM, SIG_DFL);
  if (!thread_.joinable()) return;
  const char byte = 'E';
  if (::write(pipe_[1], &byte, 1) < 0) ::_exit(1);
  thread_.join();
  ::close(pipe_[0]);
  ::close(pipe_[1]);
}

}  // namespace atolld
