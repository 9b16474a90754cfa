#include "daemon/peer/worker_process.h"

#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "compression/base/lora_slices.h"
#include "compression/base/names.h"
#include "compression/base/process_limits.h"
#include "compression/base/status_macros.h"
#include "daemon/config/config.h"
#include "daemon/config/data_config.h"
#include "daemon/config/training_memory.h"
#include "daemon/config/worker_program.h"
#include "daemon/env/child_mark.h"
#include "daemon/env/repeated_lines.h"

namespace atolld {
namespace {

constexpr char kWaitPolicy[] = "OMP_WAIT_POLICY";
constexpr absl::Duration kFirstRestartPause = absl::Milliseconds(200);
constexpr absl::Duration kLongestPause = absl::Seconds(10);

// A worker that is asked to stop first writes its optimiser's state. If it hangs, it is killed
// after this time.
constexpr absl::Duration kStopPatience = absl::Seconds(5);

// The reason is repeated at this interval, so that the log still shows an hour later why this peer
// trains nothing.
constexpr absl::Duration kSayAgain = absl::Minutes(10);

// This lets a progress bar and a line for each step pass. A worker that writes more is repeating
// itself.
constexpr double kMostOutputBytesPerSecond = 16 << 10;

constexpr int kUnclearDeaths = 3;

constexpr size_t kLongestReason = 1000;

// The WorkerHello.protocol of workers that know TrainSteps' start and Merge. An older worker would
// always train from theta.
constexpr uint32_t kModesProtocol = 2;

// Returns the message about a worker that the kernel has killed for lack of memory. Returns "" if
// the count of such kills is still `before`, its value when the worker was started.
std::string KilledForMemory(const std::string& system_root, uint64_t before) {
  const OomKills kills = ReadOomKills(system_root);
  if (kills.count <= before) return "";
  const MemoryLimit limit = ReadProcessLimits(system_root).memory;
  std::string text = absl::StrCat("the kernel killed it for want of memory (", kills.source,
                                  ": oom_kill ", kills.count, ")");
  if (limit.bytes > 0) {
    absl::StrAppendFormat(&text, "; the limit is %.1f GiB, by %s",
                          static_cast<double>(limit.bytes) / (1 << 30),
                          limit.source.empty() ? "what the machine has" : limit.source);
  }
  return text + "; give it more, or lower [inner] batch, or raise [inner] accumulation";
}

// Returns true if a worker of an older protocol would not train as the run does.
bool NeedsModes(const v1::RunSpec& spec) {
  const std::string& kind = spec.mode().kind();
  return kind == "streaming" || kind == "eager" || kind == "delayed";
}

// Sets how steps are computed so that the training needs at most [worker] memory. Fails with
// FAILED_PRECONDITION if it cannot need so little, or if that is not known of the run's model.
absl::StatusOr<TrainingFit> FitMemory(const WorkerProcess::Settings& settings, v1::RunSpec* spec) {
  TrainingFit fit;
  fit.accumulation = std::max(spec->inner().accumulation(), 1u);
  fit.checkpointing = spec->inner().checkpointing();
  if (settings.memory == 0) return fit;
  if (!KnowsTrainingMemory(spec->model(), settings.device)) {
    return absl::FailedPreconditionError(
        absl::StrCat("[worker] memory must be 0 with a model of kind '", spec->model().kind(),
                     "' on ", settings.device));
  }
  fit = FitTraining(*spec, CopiesOn(settings.device), settings.memory,
                    {settings.peers, settings.lora_rank});
  if (!fit.fits) {
    return absl::FailedPreconditionError(
        absl::StrCat(MisfitText(fit, settings.memory), " by [worker] memory"));
  }
  if (!fit.changed(spec->inner())) return fit;
  spec->mutable_inner()->set_accumulation(fit.accumulation);
  spec->mutable_inner()->set_checkpointing(fit.checkpointing);
  return fit;
}

// Makes the memory file, or returns null. The memory is then requested again later, and the peer
// fails if there is still none.
std::shared_ptr<MemoryFile> MakeMemory(Log& log, const std::string& folder) {
  absl::StatusOr<std::shared_ptr<MemoryFile>> memory = MemoryFile::Make(folder);
  if (memory.ok()) return *std::move(memory);
  log.Warning(memory.status().message());
  return nullptr;
}

}  // namespace

WorkerProcess::WorkerProcess(Env env, Settings settings)
    : env_(env),
      settings_(std::move(settings)),
      memory_(MakeMemory(env_.log, settings_.value_folder)),
      threads_(settings_.threads),
      pause_(kFirstRestartPause, kLongestPause) {}

WorkerProcess::~WorkerProcess() = default;

void WorkerProcess::Start(const v1::RunSpec& spec, Events events) {
  spec_ = spec;
  program_ = settings_.program;
  events_ = std::move(events);
  Launch();
}

// Listens anew for each worker: a program that cleans up temporary files may have removed the
// socket.
absl::Status WorkerProcess::Listen() {
  const std::string path(absl::StripPrefix(settings_.socket, "unix:"));
  if (listener_ != nullptr && env_.files.Exists(path)) return absl::OkStatus();
  listener_.reset();
  absl::StatusOr<std::unique_ptr<Listener>> listener = env_.transport.Listen(
      settings_.socket, guard_.Wrap([this](const std::string& method, std::unique_ptr<Call> call) {
        OnCall(method, std::move(call));
      }));
  if (!listener.ok()) return Annotate(listener.status(), "the worker's socket");
  listener_ = *std::move(listener);
  return absl::OkStatus();
}

void WorkerProcess::Launch() {
  if (stopping_ || paused_ || process_ != nullptr) return;
  failure_.clear();
  restarted_ = absl::OkStatus();
  absl::Status ready = Listen();
  // The program is looked for each time, because it may have been installed since.
  const std::string& kind = spec_.model().kind();
  if (settings_.program.empty()) program_ = FindWorkerProgram(kind, settings_.program_folder);
  if (ready.ok() && program_.empty()) ready = absl::FailedPreconditionError(NoWorkerText(kind));
  if (ready.ok() && settings_.slower != 1 && !CanBeSlower(kind)) {
    ready = absl::FailedPreconditionError(
        absl::StrCat("[worker] slower must be 1 with a model of kind '", kind, "'"));
  }
  if (ready.ok() && settings_.sharding != "none" && !CanBeSharded(kind)) {
    ready = absl::FailedPreconditionError(
        absl::StrCat("[worker] sharding must be 'none' with a model of kind '", kind, "'"));
  }
  if (ready.ok()) {
    ready = CheckFirstRanks(settings_.lora_rank, spec_.model().lora_rank(),
                            spec_.model().lora_slice(), "[worker] lora_rank");
  }
  v1::RunSpec fitted = spec_;
  const absl::StatusOr<TrainingFit> fit = FitMemory(settings_, &fitted);
  if (ready.ok()) ready = fit.status();
  if (ready.ok() && fit->changed(spec_.inner())) {
    env_.log.Info(absl::StrCat("worker: trains with ", ChangeText(*fit, spec_.inner()),
                               " to fit into [worker] memory; ", PriceText(*fit, spec_.inner())));
  }
  if (!ready.ok()) {
    const std::string why(ready.message());
    env_.executor.Post(guard_.Wrap([this, why] { OnGone(why); }));
    return;
  }
  ChildProcess::Options options;
  options.arguments = {program_, "--socket", settings_.socket};
  if (settings_.device != "auto") {
    options.arguments.insert(options.arguments.end(), {"--device", settings_.device});
  }
  if (settings_.sharding != "none") {
    options.arguments.insert(options.arguments.end(), {"--sharding", settings_.sharding});
  }
  if (settings_.slower != 1) {
    options.arguments.insert(options.arguments.end(),
                             {"--slower", absl::StrFormat("%.17g", settings_.slower)});
  }
  // libgomp's threads would spin between libtorch's loops and take the processors from OpenBLAS.
  if (std::getenv(kWaitPolicy) == nullptr) options.environment = {{kWaitPolicy, "PASSIVE"}};
  if (memory_ != nullptr) {
    options.descriptors = {{memory_->fd(), MemoryFile::kDescriptor}};
    options.environment.emplace_back(MemoryFile::kVariable, memory_->variable());
  }
  options.death_signal = SIGKILL;
  options.mark = OwnMark();
  options.most_output_bytes_per_second = kMostOutputBytesPerSecond;
  ChildProcess::Events events;
  events.on_output_line = events.on_error_line = [this](const std::string& line) { Relay(line); };
  events.on_exit = [this](const ExitStatus& status) { OnGone(HowItEnded(status)); };
  oom_kills_ = ReadOomKills(settings_.system_root).count;
  absl::StatusOr<std::unique_ptr<ChildProcess>> process =
      ChildProcess::Spawn(env_.executor, std::move(options), std::move(events));
  if (!process.ok()) {
    const std::string why(process.status().message());
    env_.executor.Post(guard_.Wrap([this, why] { OnGone(why); }));
    return;
  }
  process_ = *std::move(process);
  ++launches_;
  env_.log.Write(said_.empty() ? Log::Level::kInfo : Log::Level::kDebug,
                 absl::StrCat("worker started (pid ", process_->pid(), ")"));
}

void WorkerProcess::Relay(const std::string& line) {
  if (!said_.empty() && !configured_) {  // output of a worker that is started again and again
    env_.log.Debug(line);
  } else if (absl::StrContains(line, "warning")) {
    env_.log.Warning(line);
  } else {
    env_.log.Info(line);
  }
}

void WorkerProcess::OnCall(const std::string& method, std::unique_ptr<Call> call) {
  if (method != "/atolld.v1.Worker/Attach" || stopping_ || ending_) {
    call->Start({});
    call->Finish(absl::UnimplementedError(absl::StrCat(method, " is not served here")));
    return;
  }
  call_ = std::move(call);  // a newer worker replaces an older one's call
  Call::Events events;
  events.on_frame = guard_.Wrap([this](Frame frame) { OnFrame(frame); });
  events.on_closed = guard_.Wrap([this](absl::Status) {
    call_.reset();
    // A worker without a connection is of no use; its exit starts the next one.
    if (process_ != nullptr && !stopping_ && !ending_) process_->Kill(SIGKILL);
  });
  call_->Start(std::move(events));
  call_->Read();
}

void WorkerProcess::OnFrame(const Frame& frame) {
  if (ending_) return call_->Read();
  v1::WorkerMessage message;
  const absl::Status parsed = Unpack(frame, &message);
  if (!parsed.ok()) {
    failure_ = absl::StrCat("it sent something that is not a message: ", parsed.message());
    if (process_ != nullptr) process_->Kill(SIGKILL);
    return;
  }
  call_->Read();
  switch (message.message_case()) {
    case v1::WorkerMessage::kHello:
      return OnHello(message.hello());
    case v1::WorkerMessage::kConfigured:
      configured_ = true;
      message.mutable_configured()->set_lora_rank(settings_.lora_rank);
      return events_.on_configured(message.configured());
    case v1::WorkerMessage::kFailed:
      failure_ = OneLine(message.failed().what(), kLongestReason);
      return;
    default:
      break;
  }
  events_.on_message(message);
}

void WorkerProcess::OnHello(const v1::WorkerHello& hello) {
  if (!NeedsModes(spec_) || hello.protocol() >= kModesProtocol) return Configure();
  failure_ = absl::StrCat("it speaks protocol ", hello.protocol(), " (WorkerHello.protocol), and ",
                          "[mode] kind = '", spec_.mode().kind(), "' needs ", kModesProtocol,
                          ": take the worker of this release, or one that knows ",
                          "TrainSteps.start and Merge");
  if (process_ != nullptr) process_->Kill(SIGKILL);
}

void WorkerProcess::Configure() {
  v1::DaemonMessage message;
  v1::Configure* configure = message.mutable_configure();
  *configure->mutable_spec() = spec_;
  FitMemory(settings_, configure->mutable_spec()).IgnoreError();  // Launch has looked at it
  configure->mutable_spec()->mutable_model()->set_initial_path(settings_.initial_path);
  configure->mutable_spec()->mutable_model()->set_base_path(settings_.base_path);
  configure->mutable_spec()->mutable_model()->set_file(
      places_.program.empty() ? settings_.model_file : places_.program);
  configure->set_data_path(places_.tokenizer.empty()
                               ? settings_.data_path
                               : WithTokenizer(settings_.data_path, places_.tokenizer));
  configure->set_validation_path(places_.validation.empty() ? settings_.validation_path
                                                            : places_.validation);
  configure->set_parties(settings_.parties);
  configure->set_first_party(settings_.first_party);
  configure->set_state_path(settings_.state_path);
  configure->set_threads(threads_);
  Send(message);
}

void WorkerProcess::Renew(const v1::RunSpec& spec, const std::string& misfit) {
  spec_ = spec;
  if (misfit.empty() || process_ == nullptr || stopping_) return;
  failure_ = misfit;
  process_->Kill(SIGKILL);
}

void WorkerProcess::Send(const v1::DaemonMessage& message) {
  if (call_ != nullptr) call_->Write(Pack(message));
}

void WorkerProcess::Accept() {
  pause_.Reset();
  said_.clear();
}

// Kills the worker: if it were allowed to stop, it would write its state for the next one.
void WorkerProcess::Restart(const absl::Status& why) {
  if (process_ == nullptr || stopping_) return;
  restarted_ = why;
  failure_ = std::string(why.message());
  process_->Kill(SIGKILL);
}

// Returns how the worker ended. A worker that could not report over its socket has written the
// reason, such as a missing library.
std::string WorkerProcess::HowItEnded(const ExitStatus& status) const {
  if (status.signal == SIGKILL && failure_.empty()) {
    const std::string memory = KilledForMemory(settings_.system_root, oom_kills_);
    if (!memory.empty()) return memory;
  }
  if (configured_ || status.ok() || status.signal == SIGKILL || status.last_line.empty()) {
    return status.Text();
  }
  return absl::StrCat(status.Text(), ": ", OneLine(status.last_line, kLongestReason));
}

void WorkerProcess::OnGone(const std::string& how) {
  process_.reset();
  call_.reset();
  const bool paused = std::exchange(ending_, false) || paused_;
  if (stopping_) {
    if (stopped_) std::exchange(stopped_, nullptr)();
    return;
  }
  if (paused) {
    configured_ = false;
    return Launch();  // Launch does nothing while the worker is paused
  }
  const absl::Duration pause = pause_.Next();
  const std::string why = failure_.empty() ? how : failure_;
  SayGone(why, pause);
  configured_ = false;
  events_.on_lost(restarted_.ok() ? absl::UnavailableError(why) : restarted_);
  env_.executor.RunAfter(pause, guard_.Wrap([this] { Launch(); }));
}

void WorkerProcess::SayGone(const std::string& why, absl::Duration pause) {
  const std::string trouble = WithoutNumbers(why);
  const absl::Time now = env_.executor.Now();
  // A worker that ended without a message may have been killed by a person, so this is logged a few
  // times.
  const bool unclear = failure_.empty() && pause_.ends() <= kUnclearDeaths;
  const bool again = trouble == said_ && now < said_at_ + kSayAgain && !unclear;
  env_.log.Write(again ? Log::Level::kDebug : Log::Level::kWarning,
                 absl::StrCat("the worker is gone (", why, "); starting it again in ",
                              absl::FormatDuration(pause)));
  if (again) return;
  said_ = trouble;
  said_at_ = now;
}

void WorkerProcess::LetEnd() {
  v1::DaemonMessage message;
  message.mutable_stop();
  Send(message);
  process_->KillAfter(kStopPatience);
}

void WorkerProcess::Pause() {
  if (stopping_ || std::exchange(paused_, true) || process_ == nullptr || ending_) return;
  ending_ = true;
  env_.log.Info(absl::StrCat("ending the worker (pid ", process_->pid(), ")"));
  if (call_ == nullptr) return process_->Kill(SIGKILL);  // without a call it holds nothing yet
  LetEnd();
}

void WorkerProcess::Resume() {
  if (std::exchange(paused_, false)) Launch();
}

void WorkerProcess::Stop(Task done) {
  stopping_ = true;
  if (process_ == nullptr) {
    env_.executor.Post(std::move(done));
    return;
  }
  stopped_ = std::move(done);
  LetEnd();
}

}  // namespace atolld
