// WorkerProcess: the Worker that is used in production. It runs the worker as a child process and
// talks to it over a Unix-domain socket.
//
// A worker that dies is started again after a pause. The pause doubles each time until a worker has
// trained something usable. The lines that the worker prints go to the log. The reason why it ended
// is logged as a warning; the same reason, apart from numbers, is logged again only from time to
// time. Stop and the end of the daemon both end the worker. A worker that is paused or stopped may
// save its optimiser's state. The class has more than twenty members because it keeps the process
// that runs, the requests that wait for it, and why earlier processes ended. Used on the loop
// thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "daemon/env/child_process.h"
#include "daemon/env/env.h"
#include "daemon/peer/worker.h"

namespace atolld {

class WorkerProcess : public Worker {
 public:
  struct Settings {
    // The path of the worker program. If empty, the program in `program_folder` that fits the run's
    // model.
    std::string program;
    std::string program_folder;
    // The model, if the run's model is a file or a folder in Hugging Face's format.
    std::string model_file;
    std::string data_path;
    std::string validation_path;  // The common held-out data; may be empty.
    // The number of parties in the folder `data_path`, or 0 if it has the data of a single party,
    // and the number of the first one.
    uint32_t parties = 0, first_party = 0;
    std::string initial_path, base_path;  // The model's files on this machine; may be empty.
    std::string state_path;  // The path where the worker may save its optimiser's state.
    std::string socket;      // The address of the worker's socket, "unix:/path".
    uint32_t threads;
    std::string device = "auto";    // The device on which the worker trains.
    std::string sharding = "none";  // What each of several devices holds: [worker] sharding.
    double slower = 1;              // The factor by which the worker's steps are slowed down.
    uint64_t memory = 0;            // The most bytes that training may need; 0 means no limit.
    uint32_t lora_rank = 0;  // The first ranks of the adapters that are trained; 0 means all.
    uint32_t peers = 1;      // The peers that share owned experts; 1 if their number is not known.
    // The folder for the parameters that the worker shares; empty if they lie in memory.
    std::string value_folder;
    std::string system_root;  // A prefix of the paths /proc and /sys, for tests.
  };

  WorkerProcess(Env env, Settings settings);
  ~WorkerProcess() override;

  void SetPlaces(const RunFilePlaces& places) override { places_ = places; }
  void Start(const v1::RunSpec& spec, Events events) override;
  void Renew(const v1::RunSpec& spec, const std::string& misfit) override;
  void Send(const v1::DaemonMessage& message) override;
  void Accept() override;
  void Restart(const absl::Status& why) override;
  void Pause() override;
  void Resume() override;
  void SetThreads(uint32_t threads) override { threads_ = threads; }
  void Stop(Task done) override;
  std::shared_ptr<MemoryFile> memory() const override { return memory_; }

  // The number of times that a worker was started after the first.
  uint64_t restarts() const { return launches_ > 0 ? launches_ - 1 : 0; }

 private:
  void Launch();
  absl::Status Listen();
  void Relay(const std::string& line);
  void OnCall(const std::string& method, std::unique_ptr<Call> call);
  void OnFrame(const Frame& frame);
  std::string HowItEnded(const ExitStatus& status) const;
  void OnGone(const std::string& how);
  void SayGone(const std::string& why, absl::Duration pause);
  void OnHello(const v1::WorkerHello& hello);
  void Configure();
  void LetEnd();

  const Env env_;
  const Settings settings_;
  // Null if the kernel gives no such memory, which is logged.
  const std::shared_ptr<MemoryFile> memory_;

  // Used on the loop thread.
  RunFilePlaces places_;
  v1::RunSpec spec_;
  std::string program_;
  Events events_;
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<ChildProcess> process_;
  std::unique_ptr<Call> call_;
  uint64_t launches_ = 0;
  uint64_t oom_kills_ = 0;  // The kernel's count of OOM kills when the running worker was started.
  bool configured_ = false;
  bool stopping_ = false;
  bool paused_ = false;
  bool ending_ = false;  // True while the worker ends after Pause; its messages are then ignored.
  uint32_t threads_;
  // The reason why Restart has ended the worker; OK if Restart was not called.
  absl::Status restarted_;
  std::string failure_;  // The failure that the worker reported before it ended.
  // Counts the workers in a row that ended before they had trained anything usable.
  RestartPause pause_;
  // The last logged reason why a worker ended, without numbers; empty if the last worker trained
  // something usable.
  std::string said_;
  absl::Time said_at_;
  Task stopped_;
  CallbackGuard guard_;
};

}  // namespace atolld
