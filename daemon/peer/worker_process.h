// WorkerProcess: the Worker of production - a worker child process, spoken to over a
// Unix-domain socket.
//
// A worker that dies is started again after a pause that doubles until the daemon could go on from
// what one has trained. Its lines go to the log; why it ended is a warning, but the same again
// (numbers aside) only now and then. A worker outlives neither its daemon nor Stop. One that is
// to pause or to stop may keep its optimiser's state. Loop thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "daemon/env/env.h"
#include "daemon/env/process_events.h"
#include "daemon/peer/worker.h"

namespace atolld {

class WorkerProcess : public Worker {
 public:
  struct Settings {
    std::string program;  // path; empty: the one for the run's model, in `program_folder`
    std::string program_folder;
    std::string model_file;  // of a model that is one, or a folder of Hugging Face's
    std::string data_path;
    std::string validation_path;            // common held-out data; may be empty
    uint32_t parties = 0, first_party = 0;  // of a folder of them in `data_path`; 0: it is one's
    std::string initial_path, base_path;    // of the model, on this machine; may be empty
    std::string state_path;                 // where the worker may keep its optimiser's state
    std::string socket;                     // "unix:/path"
    uint32_t threads;
    std::string device = "auto";  // where the worker trains
    double slower = 1;            // its steps last so many times what they take
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

  // How often one was started after the first.
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

  // Loop thread.
  RunFilePlaces places_;
  v1::RunSpec spec_;
  std::string program_;
  Events events_;
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<ChildProcess> process_;
  std::unique_ptr<Call> call_;
  uint64_t launches_ = 0;
  bool configured_ = false;
  bool stopping_ = false;
  bool paused_ = false;
  bool ending_ = false;  // the worker that runs, since Pause: it is not heard any more
  uint32_t threads_;
  absl::Status restarted_;  // why Restart has ended it; OK: it has not
  std::string failure_;     // what the worker said before it went
  std::string last_line_;   // that it has written
  int young_deaths_ = 0;    // in a row, before anything was trained that could be used
  std::string said_;        // why the last one went, without numbers; empty: all is well
  absl::Time said_at_;
  Task stopped_;
  CallbackGuard guard_;
};

}  // namespace atolld
